"""Groups that are asked as one conversation, against real HTTP servers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.made_up_requests import letters, videos
from tests.support.model_server import Fault, ModelServer, always, first_time, letter_of
from videomme_pipeline.errors import VideoMissingError
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Reply
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import (
    RequestPlan,
    VideoRequests,
    pending_requests,
    settle_stored,
)
from videomme_pipeline.responses.response import Response

LIMITS = Limits(concurrency=4, max_attempts=3, deadline_seconds=60)


def conversations(count: int, questions: int = 4) -> list[VideoRequests]:
    return [replace(video, is_conversation=True) for video in videos(count, questions)]


def ask(
    journal: Path, requests: Sequence[VideoRequests], *servers: ModelServer, **plan: Any
) -> list[Response]:
    urls = tuple(server.base_url for server in servers)
    spec = EndpointSpec(name="served", base_url=urls, limits=LIMITS)
    settings = RequestPlan(evaluation="test", limits=LIMITS, **plan)
    with Journal(journal) as opened:
        return list(collect(requests, build_model(spec, {}), opened, settings))


def roles_and_texts(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The role and text of each message of a request. A picture is the text `picture`."""
    return [
        (message["role"], text)
        for message in body["messages"]
        for text in (
            [part.get("text", "picture") for part in message["content"]]
            if isinstance(message["content"], list)
            else [message["content"]]
        )
    ]


def text_of(requests: VideoRequests, number: int) -> str:
    return requests.questions[number - 1][1].text


def test_a_turn_has_the_frames_once_and_the_earlier_answers(tmp_path: Path) -> None:
    (video,) = conversations(1, 3)
    questions = [(asked, replace(prompt, system="Answer.")) for asked, prompt in video.questions]
    asked, prompt = questions[0]
    questions[0] = asked, replace(prompt, before_frames="0 s", after_frame=("", "1 s"))
    with ModelServer() as server:
        responses = ask(tmp_path / "journal", [replace(video, questions=questions)], server)
    texts = [text_of(video, number) for number in (1, 2, 3)]
    opening = [
        ("system", "Answer."),
        *(("user", text) for text in ("0 s", "picture", "picture", "1 s", texts[0])),
    ]
    second = [("assistant", letter_of(texts[0])), ("user", texts[1])]
    third = [("assistant", letter_of(texts[1])), ("user", texts[2])]
    received = [roles_and_texts(request.body) for request in server.requests]
    assert received == [opening, opening + second, opening + second + third]
    assert [response.raw_output for response in responses] == list(map(letter_of, texts))
    assert {response.num_frames for response in responses} == {2}


def test_stored_turns_are_not_asked_again_and_the_first_is_a_single_question(
    tmp_path: Path,
) -> None:
    with ModelServer() as server:
        ask(tmp_path / "journal", videos(2, 4), server)
        assert server.request_count == 8
        asked = ask(tmp_path / "journal", conversations(2), server, repeats=2)
        assert server.request_count == 8 + 2 * 3 + 2 * 4, "the first turns were asked before"
        again = ask(tmp_path / "journal", conversations(2), server, repeats=2)
        assert server.request_count == 22
    assert letters(again) == letters(asked)
    assert len(again) == 16


def test_a_new_answer_or_prompt_of_a_turn_asks_what_comes_after_it(tmp_path: Path) -> None:
    (video,) = conversations(1)
    question, prompt = video.questions[1]
    changed = (question, replace(prompt, text=f"{prompt.text}\nThink."))
    other = replace(video, questions=[video.questions[0], changed, *video.questions[2:]])
    with ModelServer() as server:
        ask(tmp_path / "journal", [video], server)
        ask(tmp_path / "journal", [other], server)
        assert server.request_counts[text_of(video, 1)] == 1
        assert [server.request_counts[text_of(video, n)] for n in (3, 4)] == [2, 2]
        ask(tmp_path / "journal", [video], server)
        assert server.request_count == 4 + 3, "the first conversation is still stored"


def test_the_key_of_a_turn_contains_the_earlier_answers() -> None:
    def key_after(*answers: str) -> str:
        (video,) = conversations(1)
        spec = EndpointSpec(name="served")
        (turn,) = pending_requests(video, spec, RequestPlan(evaluation="test"))
        for answer in answers:
            turn.settle(turn.response_to(Reply(text=answer), None))
            assert turn.next_turn is not None
            turn = turn.next_turn
        return turn.fingerprint

    keys = [key_after(*answers) for answers in ("", "A", "B", "AB", "BB", "ABC", "BBC")]
    assert len(set(keys)) == 7
    assert key_after("A", "B") == keys[3]


def test_turns_after_a_failed_turn_are_asked_by_the_next_run(tmp_path: Path) -> None:
    requests = conversations(2)
    failing = text_of(requests[0], 2)
    with ModelServer(
        faults=lambda text, _: Fault.BAD_REQUEST if text == failing else None
    ) as server:
        responses = {r.question_id: r for r in ask(tmp_path / "journal", requests, server)}
        assert server.request_count == 2 + 4
        errors = {name: r.error for name, r in responses.items() if r.error}
        reason = "not asked: asked after a failed turn (000-2)"
        assert errors.pop("000-2", "").startswith("rejected: ")
        assert errors == {"000-3": reason, "000-4": reason}
        assert responses["000-3"].failure is FailureKind.NOT_ASKED
        assert responses["000-3"].raw_output is None
        server.faults = lambda _text, _asked: None
        again = ask(tmp_path / "journal", requests, server)
        assert server.request_count == 6 + 3
    assert {response.error for response in again} == {None}
    assert len(letters(again)) == 8


def test_a_turn_is_retried_alone(tmp_path: Path) -> None:
    with ModelServer(faults=first_time(Fault.SERVER_ERROR)) as server:
        responses = ask(tmp_path / "journal", conversations(2), server)
    assert {(response.error, response.served.attempts) for response in responses} == {(None, 2)}
    assert set(server.request_counts.values()) == {2}


def test_a_refusal_ends_a_conversation_for_good(tmp_path: Path) -> None:
    (video,) = conversations(1, 3)
    spec = EndpointSpec(name="served", limits=LIMITS)
    with ModelServer(faults=always(Fault.REFUSAL)) as server:
        for _ in range(2):
            responses = ask(tmp_path / "journal", [video], server)
            assert [r.failure for r in responses] == [FailureKind.REFUSED] + 2 * [
                FailureKind.NOT_ASKED
            ]
            assert server.request_count == 1
    with Journal(tmp_path / "journal") as journal:
        plan = RequestPlan(evaluation="test")
        stored, unsettled = settle_stored(pending_requests(video, spec, plan), journal)
    assert (len(stored), unsettled) == (3, [])


def test_a_conversation_stays_at_one_endpoint(tmp_path: Path) -> None:
    with ModelServer(delay_seconds=0.02) as left, ModelServer(delay_seconds=0.02) as right:
        ask(tmp_path / "journal", conversations(8), left, right)
        asked = [
            Counter(text.split("video ")[1][0] for text in s.request_counts) for s in (left, right)
        ]
    assert all(asked)
    assert set(asked[0].values()) == set(asked[1].values()) == {4}
    assert asked[0].keys().isdisjoint(asked[1])


def test_a_conversation_ends_before_another_one_begins(tmp_path: Path) -> None:
    """A small engine caches the frames of the last request only."""
    with ModelServer() as server:
        spec = EndpointSpec(name="served", base_url=server.base_url, limits=Limits(concurrency=1))
        with Journal(tmp_path / "journal") as journal:
            plan = RequestPlan(evaluation="test", limits=spec.limits)
            list(collect(conversations(6), build_model(spec, {}), journal, plan))
        asked = [request.question.split("video ")[1][0] for request in server.requests]
    assert [video for video, _ in groupby(asked)] == sorted(set(asked))


def test_frames_that_cannot_be_read_fail_every_turn(tmp_path: Path) -> None:
    def missing() -> FrameSet:
        raise VideoMissingError("000", "no file")

    (video,) = conversations(1)
    with ModelServer() as server:
        responses = ask(tmp_path / "journal", [replace(video, load_frames=missing)], server)
    assert [response.failure for response in responses] == [
        FailureKind.FRAMES,
        *[FailureKind.NOT_ASKED] * 3,
    ]
    assert server.request_count == 0


def test_the_text_of_a_turn_is_counted_with_its_history(tmp_path: Path) -> None:
    """The tokens of the text show how many of the prompt tokens are for frames."""
    (video,) = conversations(1, 2)
    with ModelServer() as server:
        spec = EndpointSpec(
            name="served", base_url=server.base_url, tokens_per_frame=85, limits=LIMITS
        )
        assert spec.counts_texts
        with Journal(tmp_path / "journal") as journal:
            plan = RequestPlan(evaluation="test", limits=LIMITS)
            responses = list(collect([video], build_model(spec), journal, plan))
    lengths = [len(roles_and_texts(request.body)) for request in server.requests]
    assert sorted(lengths) == [1, 3, 3, 5], "each turn with its two pictures and without them"
    assert [response.warning for response in responses] == [None, None]
