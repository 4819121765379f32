"""Requests, and the fingerprints that identify them in the journal."""

from collections.abc import Sequence

import pytest

from tests.support.made_up_requests import prompt, question, videos
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import Decoding
from videomme_pipeline.responses.requests import (
    RequestPlan,
    planned_requests,
    request_fingerprint,
    video_fingerprint,
)

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
    assert {item.num_frames for item in planned} == {2}


def test_a_model_that_needs_no_frames_has_none_in_its_fingerprints() -> None:
    short, long = (videos(1, 1, frames=frames)[0] for frames in (2, 4))
    first, second = (
        planned_requests(video, IDENTITY, PLAN, needs_frames=False) for video in (short, long)
    )
    assert first[0].num_frames == 0
    assert first[0].fingerprint == second[0].fingerprint


def test_fingerprints_equal_those_in_existing_journals() -> None:
    """With other fingerprints, every stored question would be asked again."""
    (planned,) = planned_requests(videos(1, 1)[0], IDENTITY, PLAN)
    assert planned.fingerprint == "2dfa234442837278b544061c"


def test_everything_that_can_change_an_answer_changes_the_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = question(1, 1)
    plan = RequestPlan(evaluation="test")

    def fingerprint_of(
        name: str = "served",
        plan: RequestPlan = plan,
        frames: Sequence[str] = ("a", "b"),
        target: Question = target,
        repeat: int = 0,
    ) -> str:
        video_part = video_fingerprint({"name": name}, plan, frames)
        return request_fingerprint(video_part, target, prompt(question(1, 1)), repeat)

    changed = [
        fingerprint_of(name="other"),
        fingerprint_of(plan=RequestPlan(evaluation="test", observation="2026-11-21")),
        fingerprint_of(plan=RequestPlan(evaluation="test", decoding=Decoding(seed=1))),
        fingerprint_of(frames=["b", "a"]),
        fingerprint_of(repeat=1),
        fingerprint_of(target=question(1, 2)),
    ]
    assert len({fingerprint_of(), *changed}) == 7
    original = fingerprint_of()
    assert (
        fingerprint_of(plan=RequestPlan(evaluation="renamed", limits=Limits(concurrency=1)))
        == original
    )
    monkeypatch.setattr("videomme_pipeline.responses.requests.RESPONSE_VERSION", 99)
    assert fingerprint_of() != original
