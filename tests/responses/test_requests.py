"""Requests, and the fingerprints that identify them in the journal."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.made_up_requests import prompt, question, videos
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Generation, Reply, ResponseFailure
from videomme_pipeline.responses.requests import PendingRequest, RequestPlan, planned_requests

PLAN = RequestPlan(evaluation="test")
IDENTITY = {"name": "served"}


def test_each_question_is_planned_once_per_repeat() -> None:
    (video,) = videos(1, 2)
    plan = RequestPlan(evaluation="test", repeats=2)
    planned = planned_requests(video, IDENTITY, plan)
    assert [(item.question.question_id, item.repeat) for item in planned] == [
        ("000-1", 0),
        ("000-2", 0),
        ("000-1", 1),
        ("000-2", 1),
    ]
    assert len({item.fingerprint for item in planned}) == 4


def test_a_model_that_needs_no_frames_has_none_in_its_fingerprints() -> None:
    short, long = (videos(1, 1, frames=frames)[0] for frames in (2, 4))
    first, second = (
        planned_requests(video, IDENTITY, PLAN, needs_frames=False) for video in (short, long)
    )
    assert first[0].fingerprint == second[0].fingerprint


def test_fingerprints_equal_those_in_existing_journals() -> None:
    """With other fingerprints, every stored question would be asked again."""
    (planned,) = planned_requests(videos(1, 1)[0], IDENTITY, PLAN)
    assert planned.fingerprint == "2dfa234442837278b544061c"


def test_everything_that_can_change_an_answer_changes_the_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (video,) = videos(1, 1)

    def fingerprint_of(
        name: str = "served",
        plan: RequestPlan = PLAN,
        frames: Sequence[str] = ("a", "b"),
        number: int = 1,
        text: str = "",
        repeat: int = 0,
    ) -> str:
        asked = prompt(question(1, 1))
        changed = replace(
            video,
            questions=[(question(1, number), replace(asked, text=asked.text + text))],
            frame_digests=frames,
        )
        planned = planned_requests(changed, {"name": name}, replace(plan, repeats=2))
        return planned[repeat].fingerprint

    changed = [
        fingerprint_of(name="other"),
        fingerprint_of(plan=RequestPlan(evaluation="test", observation="2026-11-21")),
        fingerprint_of(plan=RequestPlan(evaluation="test", generation=Generation(seed=1))),
        fingerprint_of(frames=["b", "a"]),
        fingerprint_of(repeat=1),
        fingerprint_of(number=2),
        fingerprint_of(text="!"),
    ]
    assert len({fingerprint_of(), *changed}) == 8
    original = fingerprint_of()
    assert (
        fingerprint_of(plan=RequestPlan(evaluation="renamed", limits=Limits(concurrency=1)))
        == original
    )
    monkeypatch.setattr("videomme_pipeline.responses.requests.RESPONSE_VERSION", 99)
    assert fingerprint_of() != original


def test_an_attempt_keeps_the_body_of_its_reply() -> None:
    (planned,) = planned_requests(videos(1, 1)[0], IDENTITY, PLAN)
    pending = PendingRequest.of(planned, PLAN, "served", num_frames=2)
    pending.add_attempt(Reply(text="A", body='{"choices": []}'), datetime.now(UTC), 0.5)
    (attempt,) = pending.attempts
    assert (attempt.body, attempt.status, attempt.failure) == ('{"choices": []}', 200, None)


def test_a_response_has_its_last_reply_and_latency_and_all_attempts_have_its_names() -> None:
    (planned,) = planned_requests(videos(1, 1)[0], IDENTITY, PLAN)
    pending = PendingRequest.of(planned, PLAN, "served", num_frames=2)
    failure = ResponseFailure(kind=FailureKind.TIMEOUT, message="no reply")
    assert pending.response_to(failure, None).served.latency_seconds is None
    pending.add_attempt(failure, datetime.now(UTC), 3.0)
    pending.add_attempt(Reply(text="A"), datetime.now(UTC), 0.5)
    reply = Reply(text="A", usage_json='{"prompt_tokens": 3}')
    response = pending.response_to(reply, datetime.now(UTC))
    assert (response.raw_output, response.usage_json) == ("A", '{"prompt_tokens": 3}')
    assert (response.served.attempts, response.served.latency_seconds) == (2, 0.5)
    rows = [attempt.row(response) for attempt in pending.attempts]
    assert [row.latency_seconds for row in rows] == [3.0, 0.5]
    names = {(r.benchmark, r.evaluation, r.video_id, r.question_id, r.repeat) for r in rows}
    assert names == {
        (response.benchmark, "test", response.video_id, planned.question.question_id, 0)
    }
