"""`collect` against a real HTTP server with faults, and against models in this process."""

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.made_up_requests import frame_set, letters, videos
from tests.support.model_server import (
    ANSWERED,
    TRANSIENT,
    Fault,
    ModelServer,
    always,
    first_time,
    letter_of,
    sometimes,
)
from videomme_pipeline.errors import (
    CostLimitError,
    EndpointDownError,
    ModelError,
    VideoMissingError,
)
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.models.endpoint import served
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.pricing import Prices
from videomme_pipeline.models.spec import Limits, Schedule
from videomme_pipeline.models.video_llm import (
    FailureKind,
    Generation,
    Reply,
    Request,
    ResponseFailure,
    Usage,
)
from videomme_pipeline.responses import endpoints
from videomme_pipeline.responses.collect import PREFETCHED_VIDEOS, AskingProgress, collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan, VideoRequests, planned_requests
from videomme_pipeline.responses.response import Response

FAST = Limits(concurrency=16, deadline_seconds=60)


class LocalModel:
    """A model in this process that always answers B."""

    name = "local"
    identity: Mapping[str, object] = {"name": "local"}
    needs_frames = True

    async def respond(self, request: Request) -> Reply:
        return Reply(text=request.question.letters[1])

    async def close(self) -> None:
        return


def model_at(server: ModelServer, **changes: object) -> OpenAICompatibleModel:
    values = {"name": "served", "base_url": server.base_url, "profile": "vllm", **changes}
    return OpenAICompatibleModel(EndpointSpec.model_validate(values), api_key="key")


def ask(
    journal_path: Path,
    requests: list[VideoRequests],
    model: OpenAICompatibleModel,
    plan: RequestPlan | None = None,
) -> list[Response]:
    with Journal(journal_path) as journal:
        return list(
            collect(requests, model, journal, plan or RequestPlan(evaluation="test", limits=FAST))
        )


def test_every_question_is_answered_once(tmp_path: Path) -> None:
    with ModelServer() as server:
        responses = ask(tmp_path / "journal", videos(4), model_at(server))
    assert letters(responses) == {
        (item.question_id, 0): letter_of(question_text)
        for item in responses
        for question_text in [
            f"Question: What happens in video {int(item.video_id)}, part "
            f"{item.question_id[-1]}?\nOptions:\nA. One.\nB. Two.\nC. Three.\nD. Four."
        ]
    }
    assert server.request_count == len(responses) == 12
    first = responses[0]
    assert (first.reported_model, first.system_fingerprint) == ("served-2026-11-01", "fp_1")
    assert first.usage.prompt_tokens is not None
    assert first.served.attempts == 1
    assert first.error is None


def test_a_fault_of_a_model_costs_one_answer_and_its_traceback_is_in_the_debug_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(LocalModel):
        async def respond(self, request: Request) -> Reply:
            if request.question.question_id == "000-1":
                raise ValueError("no such key")
            return await super().respond(request)

    caplog.set_level("DEBUG", logger=collect.__module__)
    with Journal(tmp_path / "journal") as journal:
        plan = RequestPlan(evaluation="test", limits=Limits(max_attempts=1))
        responses = list(collect(videos(1, 2), Faulty(), journal, plan))
    assert [(r.failure, r.error) for r in responses] == [
        (FailureKind.MALFORMED, "malformed: ValueError: no such key"),
        (None, None),
    ]
    assert "model local\nTraceback" in caplog.text
    assert "in respond" in caplog.text


def test_an_answered_question_is_not_asked_again(tmp_path: Path) -> None:
    with ModelServer() as server:
        first_responses = ask(tmp_path / "journal", videos(4), model_at(server))
        first_requests = server.request_count
        seen: list[AskingProgress] = []
        with Journal(tmp_path / "journal") as journal:
            second_responses = list(
                collect(
                    videos(4, load=_no_frames),
                    model_at(server),
                    journal,
                    RequestPlan(evaluation="test", limits=FAST),
                    on_progress=seen.append,
                )
            )
    assert server.request_count == first_requests
    assert sorted(second_responses, key=_id) == sorted(first_responses, key=_id)
    assert seen[-1] == AskingProgress(answered=12)


def test_an_observation_asks_an_unchanged_evaluation_again(tmp_path: Path) -> None:
    with ModelServer() as server:
        ask(tmp_path / "journal", videos(1), model_at(server))
        plan = RequestPlan(evaluation="test", limits=FAST, observation="2026-11-21")
        responses = ask(tmp_path / "journal", videos(1), model_at(server), plan)
        ask(tmp_path / "journal", videos(1), model_at(server), plan)
    assert server.request_count == 6
    assert {item.observation for item in responses} == {"2026-11-21"}


def test_repeats_of_a_question_have_different_seeds(tmp_path: Path) -> None:
    plan = RequestPlan(
        evaluation="test",
        limits=FAST,
        repeats=3,
        generation=Generation(seed=10, temperature=0.7),
    )
    with ModelServer() as server:
        responses = ask(tmp_path / "journal", videos(1), model_at(server), plan)
    assert len(letters(responses)) == 9
    assert sorted(item.body["seed"] for item in server.requests) == [10] * 3 + [11] * 3 + [12] * 3


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_transient_fault_is_retried(tmp_path: Path, fault: Fault) -> None:
    with ModelServer(faults=first_time(fault), retry_after_seconds=0.2) as server:
        responses = ask(tmp_path / "journal", videos(1, 1), model_at(server))
    assert [item.served.attempts for item in responses] == [2]
    assert responses[0].raw_output is not None
    assert server.answered.total() == 1


@pytest.mark.parametrize("fault", ANSWERED)
def test_an_unusual_answer_is_an_answer(tmp_path: Path, fault: Fault) -> None:
    with ModelServer(faults=always(fault)) as server:
        responses = ask(tmp_path / "journal", videos(1, 1), model_at(server))
    assert responses[0].raw_output is not None
    assert (responses[0].reasoning is not None) == (fault is Fault.REASONING)
    assert (responses[0].usage.prompt_tokens is None) == (fault is Fault.NO_USAGE)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.REFUSAL, FailureKind.REFUSED),
        (Fault.CONTENT_FILTER, FailureKind.CONTENT_FILTER),
    ],
)
def test_a_refusal_is_recorded_and_final(tmp_path: Path, fault: Fault, kind: FailureKind) -> None:
    with ModelServer(faults=always(fault)) as server:
        first = ask(tmp_path / "journal", videos(1, 1), model_at(server))
        second = ask(tmp_path / "journal", videos(1, 1), model_at(server))
    assert server.request_count == 1
    assert first == second
    assert first[0].raw_output is None
    assert first[0].failure is kind
    assert first[0].error is not None


def test_a_failed_question_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    limits = Limits(concurrency=4, max_attempts=2, max_attempts_generated=1)
    plan = RequestPlan(evaluation="test", limits=limits)
    with ModelServer(faults=first_time(Fault.CUT_BY_LENGTH)) as server:
        failed = ask(tmp_path / "journal", videos(1, 1), model_at(server), plan)
        answered = ask(tmp_path / "journal", videos(1, 1), model_at(server), plan)
    assert failed[0].raw_output is None
    assert failed[0].failure is FailureKind.TRUNCATED
    assert "max_tokens" in (failed[0].error or "")
    assert answered[0].raw_output is not None


def test_the_next_attempt_waits_for_retry_after(tmp_path: Path) -> None:
    faults = first_time(Fault.RATE_LIMITED)
    with ModelServer(faults=faults, retry_after_seconds=1.0) as server:
        ask(tmp_path / "journal", videos(1, 1), model_at(server))
    first, second = (item.at_seconds for item in server.requests)
    assert second - first >= 1.0


def test_a_question_fails_if_the_endpoint_asks_to_wait_beyond_its_deadline(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=4, deadline_seconds=60.0))
    with ModelServer(faults=first_time(Fault.RATE_LIMITED), retry_after_seconds=61) as server:
        (response,) = ask(tmp_path / "journal", videos(1, 1), model_at(server), plan)
    assert response.failure is FailureKind.RATE_LIMITED
    assert server.request_count == response.served.attempts == 1


def test_a_question_without_an_answer_at_the_deadline_fails(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=4, deadline_seconds=5.0))
    with ModelServer(delay_seconds=30) as server:
        (response,) = ask(tmp_path / "journal", videos(1, 1), model_at(server), plan)
    assert response.failure is FailureKind.DEADLINE
    assert server.request_count == 1


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.UNKNOWN_MODEL, Fault.NO_CREDIT])
def test_a_fault_that_affects_every_question_stops_the_evaluation(
    tmp_path: Path, fault: Fault
) -> None:
    def plan(text: str, asked_before: int) -> Fault | None:
        return fault if "video 5" in text else None

    limits = Limits(concurrency=2)
    with ModelServer(faults=plan) as server, Journal(tmp_path / "journal") as journal:
        collected = collect(
            videos(50), model_at(server), journal, RequestPlan(evaluation="test", limits=limits)
        )
        responses: list[Response] = []
        with pytest.raises(ModelError, match="served") as raised:
            responses.extend(collected)
        assert server.request_count <= 5 * 3 + 4
        assert len(responses) == server.answered.total() >= 13
        stored = journal.settled(item.request_fingerprint for item in responses)
    assert len(stored) == len(responses)
    assert len(str(raised.value).splitlines()) == 1


def test_an_endpoint_that_only_fails_stops_the_evaluation(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=4, max_attempts=1))
    with (
        ModelServer(faults=always(Fault.UNAVAILABLE)) as server,
        pytest.raises(ModelError, match="20 questions in a row"),
    ):
        ask(tmp_path / "journal", videos(50), model_at(server), plan)


@pytest.mark.parametrize(
    "fault",
    [None, Fault.WRONG_CONTENT_TYPE, Fault.SERVER_ERROR],
    ids=["a closed port", "an HTML page", "internal errors"],
)
def test_an_address_without_a_model_stops_the_evaluation_after_a_few_attempts(
    tmp_path: Path, fault: Fault | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "NO_MODEL_SECONDS", 1.0)
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=2))
    with ExitStack() as up:
        server = up.enter_context(ModelServer(faults=always(fault or Fault.SERVER_ERROR)))
        model = model_at(server)
        if fault is None:
            up.close()
        with Journal(tmp_path / "journal") as journal:
            responses: list[Response] = []
            with pytest.raises(EndpointDownError, match="no request was answered") as raised:
                responses.extend(collect(videos(50), model, journal, plan))
            attempts = journal.attempts(_fingerprints(model, plan, 50))
    assert responses == []
    assert 2 <= len(attempts) <= 24
    assert len(str(raised.value).splitlines()) == 1


def test_a_server_that_sends_nothing_stops_the_evaluation_at_the_second_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "SILENT_SECONDS", served.SILENT_SECONDS / 10)
    monkeypatch.setattr(endpoints, "NO_MODEL_SECONDS", endpoints.NO_MODEL_SECONDS / 10)
    plan = RequestPlan(evaluation="test", limits=FAST)
    with socket.create_server(("127.0.0.1", 0)) as silent, Journal(tmp_path / "journal") as journal:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        model = OpenAICompatibleModel(EndpointSpec(name="served", base_url=url))
        with pytest.raises(EndpointDownError, match="accepts connections but does not answer"):
            list(collect(videos(50), model, journal, plan))
        attempts = journal.attempts(_fingerprints(model, plan, 50))
    asked = Counter(attempt.question_id for attempt in attempts)
    assert max(asked.values()) == 2


@pytest.mark.parametrize("answers", [0, 4])
def test_a_server_that_never_recovers_stops_the_evaluation(
    tmp_path: Path, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says 503 to every request, from the beginning or after some answers."""
    monkeypatch.setattr(endpoints, "FIRST_ANSWER_SECONDS", 1.0)
    limits = Limits(concurrency=2, outage_seconds=2.0)
    plan = RequestPlan(evaluation="test", limits=limits)

    def faults(text: str, _: int) -> Fault | None:
        is_answered = any(f"video {number}," in text for number in range(answers))
        return None if is_answered else Fault.UNAVAILABLE

    shown: list[AskingProgress] = []
    with (
        ModelServer(faults=faults) as server,
        Journal(tmp_path / "journal") as journal,
        pytest.raises(EndpointDownError, match="no request was answered in") as raised,
    ):
        list(collect(videos(6), model_at(server), journal, plan, on_progress=shown.append))
    assert "everything answered so far is stored" in str(raised.value)
    assert server.answered.total() >= answers
    outages = [progress for progress in shown if progress.outage_seconds]
    longest = 2.0 if answers else 1.0
    assert all(
        progress.outage_seconds + progress.outage_seconds_left == pytest.approx(longest, abs=0.1)
        for progress in outages
    )


def test_one_bad_reply_of_a_slow_model_does_not_stop_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "NO_MODEL_SECONDS", 0.2)
    faults = first_time(Fault.TRUNCATED_JSON)
    with ModelServer(faults=faults, delay_seconds=0.3) as server:
        responses = ask(tmp_path / "journal", videos(2), model_at(server))
    assert all(item.raw_output for item in responses)


def test_an_endpoint_that_has_answered_may_be_down_for_a_while(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=1, max_attempts=2))

    def faults(question: str, asked_before: int) -> Fault | None:
        return Fault.CLOSED_BEFORE_BODY if "video 1," in question and not asked_before else None

    with ModelServer(faults=faults) as server:
        responses = ask(tmp_path / "journal", videos(2), model_at(server), plan)
    assert all(item.raw_output for item in responses)


def test_a_model_without_vision_is_asked_once(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=1))
    with (
        ModelServer(faults=always(Fault.NO_VISION)) as server,
        pytest.raises(ModelError, match="accepts no pictures"),
    ):
        ask(tmp_path / "journal", videos(50), model_at(server), plan)
    assert server.request_count == 1


def test_one_unreadable_video_does_not_stop_the_others(tmp_path: Path) -> None:
    def load(video: int) -> FrameSet:
        if video == 1:
            raise VideoMissingError("001", "no file")
        return frame_set(video)

    with ModelServer() as server:
        responses = ask(tmp_path / "journal", videos(3, load=load), model_at(server))
    failed = [item for item in responses if item.error]
    assert {item.video_id for item in failed} == {"001"}
    assert {item.failure for item in failed} == {FailureKind.FRAMES}
    assert len(responses) == 9
    assert server.request_count == 6


def test_an_evaluation_stops_at_its_budget_and_resumes_with_a_higher_one(tmp_path: Path) -> None:
    prices = Prices(input=1000.0, output=0.0)
    with ModelServer() as server:
        response = ask(tmp_path / "price", videos(1, 1), model_at(server, prices=prices))[0]
        assert response.served.cost_dollars is not None
        max_dollars = response.served.cost_dollars * 7.5

        def plan(dollars: float) -> RequestPlan:
            limits = Limits(concurrency=8, max_cost_dollars=dollars)
            return RequestPlan(evaluation="test", limits=limits)

        with pytest.raises(CostLimitError, match="raise the limit"):
            ask(tmp_path / "journal", videos(4), model_at(server, prices=prices), plan(max_dollars))
        with Journal(tmp_path / "journal") as journal:
            assert 0.8 * max_dollars <= journal.costs("test")[0] <= max_dollars
        earlier_requests = server.request_count
        remaining = ask(
            tmp_path / "journal", videos(4), model_at(server, prices=prices), plan(max_dollars * 10)
        )
    assert len(remaining) == 12
    assert server.request_count - earlier_requests == 12 - 7


def test_a_run_knows_the_highest_cost_of_earlier_runs(tmp_path: Path) -> None:
    prices = Prices(input=1000.0, output=0.0)
    with ModelServer() as server:
        model = model_at(server, prices=prices)
        dollars = ask(tmp_path / "journal", videos(1, 1), model)[0].served.cost_dollars or 0.0
        limits = Limits(concurrency=8, max_cost_dollars=1.5 * dollars)
        plan = RequestPlan(evaluation="test", limits=limits)
        with pytest.raises(CostLimitError):
            ask(tmp_path / "journal", videos(4), model, plan)
    assert server.request_count == 1


def test_a_cost_limit_without_a_known_price_is_an_error(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=8, max_cost_dollars=1.0))
    with ModelServer() as server, pytest.raises(ModelError, match="Set `prices`"):
        ask(tmp_path / "journal", videos(4), model_at(server), plan)
    assert server.request_count == 1


def test_only_the_frames_of_a_few_videos_are_in_memory(tmp_path: Path) -> None:
    loaded: list[int] = []
    max_in_memory = 0

    class Counting(LocalModel):
        def __init__(self) -> None:
            self.answers: Counter[str] = Counter()

        async def respond(self, request: Request) -> Reply:
            self.answers[request.question.video_id] += 1
            return await super().respond(request)

    model = Counting()

    def load(video: int) -> FrameSet:
        nonlocal max_in_memory
        loaded.append(video)
        finished = sum(answers == 3 for answers in model.answers.values())
        max_in_memory = max(max_in_memory, len(loaded) - finished)
        return frame_set(video)

    with Journal(tmp_path / "journal") as journal:
        plan = RequestPlan(evaluation="test", limits=Limits(concurrency=3))
        list(collect(videos(30, load=load), model, journal, plan))
    assert sorted(loaded) == list(range(30))
    assert max_in_memory <= 3 + PREFETCHED_VIDEOS


def test_no_frames_are_read_for_a_model_that_needs_none(tmp_path: Path) -> None:
    class Blind(LocalModel):
        needs_frames = False

        async def respond(self, request: Request) -> Reply:
            assert request.frames.frames == ()
            return await super().respond(request)

    with Journal(tmp_path / "journal") as journal:
        plan = RequestPlan(evaluation="test")
        responses = list(collect(videos(2, load=_no_frames), Blind(), journal, plan))
    assert {item.raw_output for item in responses} == {"B"}
    assert {item.num_frames for item in responses} == {0}


def test_a_leader_fills_the_cache_for_its_followers(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=FAST, schedule=Schedule.LEADER_FOLLOWER)
    with ModelServer(caches_prefixes=True, delay_seconds=0.02) as server:
        responses = ask(tmp_path / "journal", videos(6), model_at(server), plan)
    cached = sum(item.usage.cached_tokens or 0 for item in responses)
    assert cached == 6 * 2 * 2 * server.tokens_per_image


def test_adaptive_concurrency_finds_the_limit_of_the_endpoint(tmp_path: Path) -> None:
    class Limited(LocalModel):
        """Accepts 20 concurrent requests."""

        in_flight = most_in_flight = 0

        async def respond(self, request: Request) -> Reply:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                if self.in_flight > 20:
                    raise ResponseFailure(FailureKind.RATE_LIMITED, "too many requests")
                await asyncio.sleep(0.1)
                return await super().respond(request)
            finally:
                self.in_flight -= 1

    model = Limited()
    plan = RequestPlan(evaluation="test", limits=Limits(max_concurrency=64))
    with Journal(tmp_path / "journal") as journal:
        responses = list(collect(videos(100), model, journal, plan))
    assert all(item.raw_output for item in responses)
    assert 20 < model.most_in_flight <= 40


def test_requests_per_minute_are_spread_evenly(tmp_path: Path) -> None:
    times: list[float] = []

    class Timed(LocalModel):
        async def respond(self, request: Request) -> Reply:
            times.append(asyncio.get_running_loop().time())
            return await super().respond(request)

    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=8, requests_per_minute=600))
    with Journal(tmp_path / "journal") as journal:
        list(collect(videos(4), Timed(), journal, plan))
    assert len(times) == 12
    assert times[-1] - times[0] >= 0.9


def test_two_concurrent_collections_ask_every_question_once(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=4))
    with ModelServer(delay_seconds=0.02) as server, ThreadPoolExecutor(2) as threads:
        collections = [
            threads.submit(ask, tmp_path / "journal", videos(10), model_at(server), plan)
            for _ in range(2)
        ]
        first, second = (collection.result() for collection in collections)
    assert letters(first) == letters(second)
    assert len(first) == 30
    assert set(server.request_counts.values()) == {1}


def test_stopping_early_loses_no_answer(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=4))
    with ModelServer(delay_seconds=0.01) as server, Journal(tmp_path / "journal") as journal:
        collecting = collect(videos(20), model_at(server), journal, plan)
        received = [next(collecting) for _ in range(10)]
        collecting.close()
        stored = journal.settled(item.request_fingerprint for item in received)
        assert len(stored) == 10
        remaining = list(collect(videos(20), model_at(server), journal, plan))
    assert len(letters(remaining)) == 60
    assert server.request_count <= 60 + 4


class OddModel(LocalModel):
    """A model that returns or raises something odd for the first question of each video."""

    def __init__(self, odd: Reply | Exception) -> None:
        self.odd = odd

    async def respond(self, request: Request) -> Reply:
        if not request.question.question_id.endswith("-1"):
            return await super().respond(request)
        if isinstance(self.odd, Exception):
            raise self.odd
        return self.odd


@pytest.mark.parametrize(
    "odd",
    [
        TypeError("a bug of the provider"),
        Reply(text="\0"),
        Reply(text="B", reasoning=["so"]),  # type: ignore[arg-type]
        Reply(text=5),  # type: ignore[arg-type]
        Reply(text="B", usage=Usage(prompt_tokens=2**63)),
    ],
    ids=["bug", "NUL", "reasoning", "number", "tokens"],
)
def test_an_odd_reply_costs_one_question(tmp_path: Path, odd: Reply | Exception) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=4, max_attempts=1))
    with Journal(tmp_path / "journal") as journal:
        responses = list(collect(videos(5), OddModel(odd), journal, plan))
    failed = [item for item in responses if item.error]
    assert len(responses) == 15
    assert {item.question_id[-2:] for item in failed} == {"-1"}
    assert len(failed) == 5


def test_a_pause_longer_than_the_deadline_fails_its_question_and_is_shown(tmp_path: Path) -> None:
    class Busy(LocalModel):
        requests = 0

        async def respond(self, request: Request) -> Reply:
            self.requests += 1
            if self.requests == 1:
                raise ResponseFailure(
                    FailureKind.RATE_LIMITED, "come back later", retry_after_seconds=3600.0
                )
            return await super().respond(request)

    shown: list[AskingProgress] = []
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=1, deadline_seconds=0.5))
    with Journal(tmp_path / "journal") as journal:
        responses = list(collect(videos(2), Busy(), journal, plan, on_progress=shown.append))
    assert [item.failure for item in responses if item.error] == [FailureKind.RATE_LIMITED]
    assert len(responses) == 6
    assert {0.0, 0.5} == {progress.pause_seconds for progress in shown}


def test_a_wait_for_another_process_is_shown_and_is_not_part_of_the_deadline(
    tmp_path: Path,
) -> None:
    """The deadline of a question begins with its first request."""
    plan = RequestPlan(evaluation="test", limits=Limits(deadline_seconds=0.3))
    (video,), model = videos(1), LocalModel()
    claimed = [planned.fingerprint for planned in planned_requests(video, model.identity, plan)][:2]
    shown: list[AskingProgress] = []

    def show(progress: AskingProgress) -> None:
        shown.append(progress)
        if (
            len([progress for progress in shown if progress.elsewhere]) == 4
        ):  # for longer than the deadline
            other.release(claimed)

    with Journal(tmp_path / "journal") as other, Journal(tmp_path / "journal") as journal:
        other.claim(claimed, datetime.now(UTC), seconds=60)
        responses = list(collect([video], model, journal, plan, on_progress=show))
    assert [item.error for item in responses] == [None] * 3
    assert {progress.elsewhere for progress in shown} == {0, 2}


def test_a_retry_after_the_deadline_fails_with_the_last_reason(
    tmp_path: Path,
) -> None:
    class Overloaded(LocalModel):
        async def respond(self, request: Request) -> Reply:
            if request.question.question_id == "000-1":
                raise ResponseFailure(FailureKind.SERVER_ERROR, "overloaded")
            await asyncio.sleep(0.6)
            return await super().respond(request)

    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=1, deadline_seconds=1.0))
    with Journal(tmp_path / "journal") as journal:
        responses = {
            item.question_id: item for item in collect(videos(1), Overloaded(), journal, plan)
        }
        failed = responses["000-1"]
        attempts = journal.attempts([failed.request_fingerprint])
    assert failed.failure is FailureKind.DEADLINE
    assert "no answer within 1 s; attempt 1 failed with server_error: over" in str(failed.error)
    assert len(attempts) == 1


@pytest.mark.slow
def test_random_faults_neither_lose_nor_repeat_answers(tmp_path: Path) -> None:
    faults = sometimes(0.2, (*TRANSIENT, *ANSWERED), seed=3)
    plan = RequestPlan(
        evaluation="test", limits=Limits(max_concurrency=32), schedule=Schedule.LEADER_FOLLOWER
    )
    prices = Prices(input=1.0, output=2.0)
    with ModelServer(faults=faults, retry_after_seconds=1.0, delay_seconds=0.01) as server:
        responses = ask(tmp_path / "journal", videos(100), model_at(server, prices=prices), plan)
        with Journal(tmp_path / "journal") as journal:
            attempts = journal.attempts(item.request_fingerprint for item in responses)
            spent, _ = journal.costs("test")
    assert len(letters(responses)) == 300
    assert all(item.raw_output for item in responses)
    assert set(server.answered.values()) == {1}
    assert len(attempts) == server.request_count == sum(item.served.attempts for item in responses)
    assert {item.fault for item in server.requests} == {None, *TRANSIENT, *ANSWERED}
    assert spent == pytest.approx(sum(item.served.cost_dollars or 0 for item in responses))


def _fingerprints(model: OpenAICompatibleModel, plan: RequestPlan, count: int) -> list[str]:
    return [
        planned.fingerprint
        for video in videos(count)
        for planned in planned_requests(video, model.identity, plan)
    ]


def _no_frames(video: int) -> FrameSet:
    raise AssertionError(f"the frames of video {video} were read")


def _id(response: Response) -> tuple[str, int]:
    return response.question_id, response.repeat
