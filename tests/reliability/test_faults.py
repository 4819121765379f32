"""Endpoints that misbehave: an odd reply costs one attempt, and no failure becomes an answer."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.made_up_requests import letters, request, videos
from tests.support.model_server import (
    ANSWERED,
    TRANSIENT,
    Fault,
    FaultPlan,
    ModelServer,
    always,
    letter_of,
    sometimes,
)
from tests.support.odd_replies import FAILURES, REJECTIONS, UNUSUAL_ANSWERS, OddReply
from videomme_pipeline.errors import ModelError, VideoMMEError
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import ResponseFailure
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response

COMPLETION = {"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}], "model": "m"}
LIMITS = {"max_response_bytes": 1 << 20, "deadline_seconds": 300, "max_concurrency": 32}
ALL: tuple[Fault | OddReply, ...] = (*TRANSIENT, *ANSWERED, *FAILURES, *UNUSUAL_ANSWERS)


def model_at(server: ModelServer) -> OpenAICompatibleModel:
    spec = {
        "name": "served",
        "base_url": server.base_url,
        "prices": {"input": 1, "output": 2},
        "limits": LIMITS,
    }
    return OpenAICompatibleModel(EndpointSpec.model_validate(spec), api_key="key")


def ask(server: ModelServer, journal_path: Path, video_count: int) -> list[Response]:
    model = model_at(server)
    plan = RequestPlan(evaluation="test", limits=model.spec.limits)
    with Journal(journal_path) as journal:
        return list(collect(videos(video_count), model, journal, plan))


async def result_of(model: OpenAICompatibleModel) -> str | VideoMMEError:
    """The text or the error of one request."""
    try:
        return (await model.respond(request())).text
    except (ResponseFailure, ModelError) as error:
        return error


def results_of(replies: Sequence[OddReply]) -> dict[str, str | VideoMMEError]:
    """The text or the error of one request for each of `replies`, by name."""

    async def respond_to_all(server: ModelServer) -> dict[str, str | VideoMMEError]:
        model = model_at(server)
        results: dict[str, str | VideoMMEError] = {}
        # An attempt fails before it arrives if it uses the connection that was just closed.
        while server.request_count < len(replies):
            number, result = server.request_count, await result_of(model)
            if server.request_count > number:
                results[replies[number].name] = result
        await model.close()
        return results

    with ModelServer(faults=lambda _, asked_before: replies[asked_before]) as server:
        return asyncio.run(respond_to_all(server))


def check(faults: FaultPlan, video_count: int, journal_path: Path) -> Counter[str]:
    """Ask everything twice, and return the number of requests by the name of their fault."""
    with ModelServer(faults=faults, retry_after_seconds=0.2) as server:
        responses = ask(server, journal_path, video_count)
        first_requests = server.request_count
        again = ask(server, journal_path, video_count)
        assert server.request_count == first_requests, "the second run asks nothing"
    assert letters(again) == letters(responses)
    texts = {
        question.question_id: text.text
        for v in videos(video_count)
        for question, text in v.questions
    }
    assert {item.question_id: item.raw_output for item in responses} == {
        name: letter_of(text) for name, text in texts.items()
    }
    assert set(server.answered.values()) == {1}, "no question is answered twice"
    with Journal(journal_path) as journal:
        attempts = journal.attempts(item.request_fingerprint for item in responses)
    assert len(attempts) >= first_requests, "every request is recorded"
    return Counter(
        fault.name if isinstance(fault, OddReply) else str(fault)
        for received in server.requests
        if (fault := received.fault) is not None
    )


@pytest.mark.slow
def test_a_reply_without_an_answer_is_a_failure_that_is_retried() -> None:
    for name, result in results_of(FAILURES).items():
        assert isinstance(result, ResponseFailure), name
        assert result.kind.is_transient, name
        assert len(str(result)) < 1_000, name


def test_a_rejection_is_neither_an_answer_nor_retried() -> None:
    for name, result in results_of(REJECTIONS).items():
        is_final = isinstance(result, ModelError)
        assert is_final or (isinstance(result, ResponseFailure) and not result.kind.is_transient), (
            name
        )


def test_an_unusual_reply_with_an_answer_is_an_answer() -> None:
    letters = results_of(UNUSUAL_ANSWERS)
    assert letters == dict.fromkeys(letters, letter_of(request().prompt.text))


def damaged(data: bytes, position: float, removed: int, inserted: bytes) -> bytes:
    """`data` with some bytes at a place between 0 and 1 replaced."""
    start = int(len(data) * position)
    return data[:start] + inserted + data[start + removed :]


PIECES = (b"\r\n", b"\r\n\r\n", b": ", b"Content-Length: 5\r\n", b"HTTP/1.1 429 X\r\n")
RESPONSES = st.binary(max_size=200) | st.builds(
    damaged,
    st.sampled_from([reply.build(COMPLETION) for reply in UNUSUAL_ANSWERS]),
    st.floats(0, 1),
    st.integers(0, 20),
    st.binary(max_size=20) | st.sampled_from(PIECES),
)


@pytest.mark.parametrize("count", [30, pytest.param(400, marks=pytest.mark.slow)])
def test_every_sequence_of_bytes_is_an_answer_or_a_failure(count: int) -> None:
    sent = [b""]
    reply = OddReply("made up", lambda _: sent[-1], is_answer=False)
    with ModelServer(faults=always(reply)) as server, asyncio.Runner() as runner:
        model = model_at(server)

        @settings(max_examples=count)
        @given(RESPONSES)
        def check_one(response: bytes) -> None:
            sent.append(response)
            result = runner.run(result_of(model))
            assert isinstance(result, (str, ResponseFailure, ModelError))

        check_one()
        runner.run(model.close())


def test_every_third_request_fails_in_another_way(tmp_path: Path) -> None:
    counts = check(sometimes(0.3, ALL, seed=1), 20, tmp_path / "journal")
    assert len(counts) > 10


@pytest.mark.slow
def test_600_questions_are_answered_once_although_20_percent_of_requests_fail(
    tmp_path: Path,
) -> None:
    counts = check(sometimes(0.2, ALL, seed=7), 200, tmp_path / "journal")
    print(f"\n{counts.total()} faults of {len(counts)} kinds: {counts}")  # noqa: T201
    assert len(counts) > 75


@pytest.mark.slow
def test_every_failure_twice_before_the_answer(tmp_path: Path) -> None:
    texts = sorted(prompt.text for video in videos(25) for _, prompt in video.questions)

    def plan(question: str, asked_before: int) -> OddReply | None:
        return FAILURES[texts.index(question) % len(FAILURES)] if asked_before < 2 else None

    assert len(check(plan, 25, tmp_path / "journal")) == len(FAILURES)
