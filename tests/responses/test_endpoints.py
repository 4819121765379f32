"""A model at several endpoints: videos stay at one, and move if it is down."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.made_up_requests import letters, videos
from tests.support.model_server import ModelServer
from videomme_pipeline.errors import CostLimitError
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure
from videomme_pipeline.responses.collect import AskingProgress, collect
from videomme_pipeline.responses.endpoints import OPEN_SECONDS, Affinity, Endpoint, Endpoints
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.limits import FIRST_CONCURRENCY, Budget
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response

CLOSED = ResponseFailure(FailureKind.CONNECTION, "the port is closed")
ANSWER = Reply(text="A")


@dataclass
class Clock:
    """A clock that the test sets."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def endpoints_of(count: int, clock: Clock, max_dollars: float | None = None) -> Endpoints:
    spec = EndpointSpec.model_validate({"name": "m", "base_url": "http://127.0.0.1:9/v1"})
    members = {f"endpoint {number}": build_model(spec, {}) for number in range(count)}
    return Endpoints(members, Limits(), Budget(max_dollars, 0.0), clock)


async def send(affinity: Affinity, result: Reply | ResponseFailure | None = None) -> Endpoint:
    """The endpoint that gets a question of a video, and answers with `result`."""
    async with affinity.admit(object(), is_follower=False) as admission:
        admission.result = result
    return admission.endpoint


async def titles_of(endpoints: Endpoints, count: int) -> list[str]:
    """The endpoints of so many videos that are asked at the same time."""
    with ExitStack() as videos:
        return [
            (await send(videos.enter_context(endpoints.affinity(3)))).title for _ in range(count)
        ]


async def test_videos_are_spread_evenly() -> None:
    titles = await titles_of(endpoints_of(3, Clock()), 12)
    assert set(Counter(titles).values()) == {4}


async def test_all_questions_of_a_video_use_one_endpoint() -> None:
    endpoints = endpoints_of(3, Clock())
    with endpoints.affinity(3) as affinity:
        first = await send(affinity)
        with endpoints.affinity(3):
            assert await send(affinity) is first


async def test_a_video_moves_when_its_endpoint_is_down_and_the_endpoint_gets_work_again() -> None:
    clock = Clock()
    endpoints = endpoints_of(2, clock)
    with endpoints.affinity(3) as affinity:
        first = await send(affinity, ANSWER)
        await send(affinity, CLOSED)
        assert await send(affinity, CLOSED) is first, "one failure can be an idle connection"
        assert await send(affinity) is not first
        assert first.title not in await titles_of(endpoints, 5)
        clock.seconds = OPEN_SECONDS
        assert first.limit.allowed == 1
        assert first.title in await titles_of(endpoints, 5)
        first.record(object(), CLOSED)
        assert first.is_down, "one failure is enough for an endpoint that was down"
        clock.seconds += OPEN_SECONDS
        assert not first.is_down
        assert first.title in await titles_of(endpoints, 5)


async def test_a_video_leaves_an_endpoint_that_is_down_however_late_it_is_asked_again() -> None:
    clock = Clock()
    with endpoints_of(2, clock).affinity(3) as affinity:
        first = await send(affinity, ANSWER)
        for _ in range(2):
            await send(affinity, CLOSED)
        clock.seconds = 60 * OPEN_SECONDS
        assert await send(affinity) is not first


async def test_an_endpoint_that_never_answered_gets_only_the_question_that_failed() -> None:
    endpoints = endpoints_of(1, Clock())
    failed, other = object(), object()
    with endpoints.affinity(3) as affinity:
        async with affinity.admit(failed, is_follower=False) as admission:
            admission.result = CLOSED
        waiting = asyncio.create_task(send(affinity))
        async with affinity.admit(failed, is_follower=False) as again:
            await asyncio.sleep(0)
            assert again.endpoint.limit.in_flight == 1
            assert not again.endpoint.allows(other)
            again.result = ANSWER
        assert await waiting is admission.endpoint
        assert admission.endpoint.allows(other)


@pytest.mark.parametrize("kind", [FailureKind.CONNECTION, FailureKind.MALFORMED])
async def test_questions_move_from_an_endpoint_that_never_answered(kind: FailureKind) -> None:
    failure = ResponseFailure(kind, "no model")
    endpoints = endpoints_of(2, Clock())
    failed = object()
    with endpoints.affinity(3) as affinity:
        async with affinity.admit(failed, is_follower=False) as admission:
            admission.result = failure
        waiting = asyncio.create_task(send(affinity))
        await asyncio.sleep(0)
        async with affinity.admit(failed, is_follower=False) as admission:
            admission.result = failure
        assert await waiting is not admission.endpoint


async def test_the_only_endpoint_is_never_down() -> None:
    endpoints = endpoints_of(1, Clock())
    with endpoints.affinity(3) as affinity:
        endpoint = await send(affinity, ANSWER)
        for _ in range(5):
            await send(affinity, CLOSED)
        assert not endpoint.is_down
        assert endpoint.limit.allowed == FIRST_CONCURRENCY


async def test_the_cost_of_a_failure_counts_against_the_budget() -> None:
    endpoints = endpoints_of(1, Clock(), max_dollars=1.0)
    refusal = Reply(text="", cost_dollars=0.7)
    with endpoints.affinity(2) as affinity:
        await send(affinity, ResponseFailure(FailureKind.REFUSED, "no", reply=refusal))
        with pytest.raises(CostLimitError):
            await send(affinity)


@dataclass
class Pool:
    """Three servers of one model. The second one can be stopped and started again."""

    servers: list[ModelServer] = field(default_factory=list)
    stopped: ModelServer | None = None

    def __post_init__(self) -> None:
        self.servers = [ModelServer(delay_seconds=0.02).__enter__() for _ in range(3)]

    @property
    def spec(self) -> EndpointSpec:
        urls = [server.base_url for server in self.servers[:3]]
        limits = {"concurrency": 2}
        entry = {"name": "served", "base_url": urls, "profile": "vllm", "limits": limits}
        return EndpointSpec.model_validate(entry)

    def stop(self) -> None:
        self.stopped = self.servers[1]
        self.stopped.__exit__(None, None, None)

    def start_again(self) -> None:
        assert self.stopped is not None
        again = ModelServer(port=self.stopped.port, delay_seconds=0.02).__enter__()
        self.servers.append(again)

    def end(self) -> None:
        for server in self.servers:
            if server is not self.stopped:
                server.__exit__(None, None, None)

    @property
    def answered(self) -> Counter[str]:
        """Number of answers to each question."""
        return sum((server.answered for server in self.servers), Counter[str]())


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.end()


def ask(
    pool: Pool, journal_path: Path, count: int, actions: Mapping[int, Callable[[], None]]
) -> list[Response]:
    """Ask about `count` videos. Call an action once so many questions are answered."""
    left = sorted(actions.items())

    def on_progress(progress: AskingProgress) -> None:
        while left and progress.answered >= left[0][0]:
            left.pop(0)[1]()

    spec = pool.spec
    plan = RequestPlan(evaluation="test", limits=spec.limits)
    with Journal(journal_path) as journal:
        model = build_model(spec, {})
        responses = collect(videos(count), model, journal, plan, on_progress=on_progress)
        return list(responses)


def test_each_video_is_asked_at_one_endpoint_and_all_endpoints_are_used(
    pool: Pool, tmp_path: Path
) -> None:
    responses = ask(pool, tmp_path / "journal", 12, {})
    assert len(letters(responses)) == 36
    asked = [{question.split(",")[0] for question in s.answered} for s in pool.servers]
    assert sum(map(len, asked)) == 12, "each video is at one endpoint"
    assert all(asked)


@pytest.mark.slow
def test_nothing_is_lost_or_answered_twice_when_an_endpoint_stops_and_starts_again(
    pool: Pool, tmp_path: Path
) -> None:
    actions = {30: pool.stop, 60: pool.start_again}
    responses = ask(pool, tmp_path / "journal", 100, actions)
    assert len(letters(responses)) == 300
    assert all(response.raw_output for response in responses)
    assert set(pool.answered.values()) == {1}
    assert pool.servers[3].answered, "it gets questions again"


def test_a_pool_is_the_same_model_as_each_of_its_endpoints(pool: Pool) -> None:
    spec = pool.spec
    member = EndpointSpec(name="served", base_url="http://elsewhere/v1", profile=spec.profile)
    assert build_model(spec, {}).identity == member.identity == build_model(member, {}).identity
    assert spec.fingerprint == member.fingerprint
