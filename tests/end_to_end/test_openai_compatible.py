"""The whole chain against an endpoint: made-up Video-MME, real frames, real HTTP, real Dagster."""

import base64
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import dagster as dg
import pytest

from tests.support.model_server import Fault, ModelServer, letter_of
from tests.support.projects import SERVED, WriteServed
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.frames.extract import FrameJob, FrameResult, extract_here
from videomme_pipeline.processes.tasks import LocalWorkers, Workers
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows

FAULTS = (Fault.RATE_LIMITED, Fault.SERVER_ERROR, Fault.MALFORMED_JSON)
LIMITS = {"max_attempts": 3, "deadline_seconds": 20}
BOTH = {"served": SERVED, "blind": {"benchmark": "videomme", "model": "random"}}


def scored(project: Project, evaluation: str) -> list[ScoredQuestion]:
    return read_rows(stored_file(project.store, "scores", "videomme", evaluation), ScoredQuestion)


def images(body: dict[str, Any]) -> list[bytes]:
    parts = body["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.removeprefix("data:image/jpeg;base64,")) for url in urls]


@pytest.mark.slow
def test_faulty_requests_are_retried_and_no_answered_question_is_asked_again(
    write_served: WriteServed, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter(FAULTS)
    planned: dict[str, Fault] = {}

    def fault(question: str, asked_before: int) -> Fault | None:
        if asked_before:
            return None
        return planned.setdefault(question, next(faults))

    monkeypatch.setenv("SERVED_KEY", "secret")
    with ModelServer(faults=fault, retry_after_seconds=0.1) as server:
        project = write_served(server.base_url, limits=LIMITS, api_key_env="SERVED_KEY")
        assert refresh_project(project, instance, ["served"]).not_fresh == []
        assert Counter(planned.values()) == dict.fromkeys(FAULTS, 1)
        assert set(server.request_counts.values()) == {2}, "each question failed once"
        assert set(server.answered.values()) == {1}
        for received in server.requests:
            assert received.headers["authorization"] == "Bearer secret"
            frames = images(received.body)
            assert len(frames) == 4
            assert all(frame.startswith(b"\xff\xd8") for frame in frames)
        rows = scored(project, "served")
        assert {row.raw_output for row in rows} <= set("ABCD")
        assert sorted(str(row.raw_output) for row in rows) == sorted(map(letter_of, planned))
        assert all(row.outcome in (Outcome.CORRECT, Outcome.INCORRECT) for row in rows)
        requests = server.request_count
        moved = server.base_url.replace("127.0.0.1", "localhost")
        again = refresh_project(write_served(moved, limits=LIMITS), instance, ["served"])
        assert again.run_id is None
        assert server.request_count == requests


def _extract_in_this_process(
    jobs: Sequence[FrameJob], *, store: Store, workers: Workers
) -> Generator[FrameResult]:
    """Extract without child processes, because they would not have the version that a test sets."""
    assert isinstance(workers, LocalWorkers)
    return (extract_here(job, store=store) for job in jobs)


@pytest.mark.slow
def test_questions_are_asked_again_only_if_the_images_change(
    write_served: WriteServed, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as server:
        refresh_project(write_served(server.base_url), instance, ["served"])
        assert server.request_count == 3

        monkeypatch.setattr("videomme_pipeline.frames.cache.PLANNER_VERSION", 99)
        monkeypatch.setattr("videomme_pipeline.stages.frames.extract", _extract_in_this_process)
        project = write_served(server.base_url)
        again = refresh_project(project, instance, ["served"])
        assert again.not_fresh == []
        assert {again.built[f"videomme/{name}"] for name in ("frames", "responses")} == {1}
        assert server.request_count == 3, "the images are the same, so the journal answers"

        other = {"served": {**SERVED, "sampling": "uniform_n-4.jpeg-50"}}
        assert (
            refresh_project(write_served(server.base_url, other), instance, ["served"]).not_fresh
            == []
        )
    assert server.request_count == 6
    before, after = (images(server.requests[index].body) for index in (0, -1))
    assert set(before).isdisjoint(after)


@pytest.mark.slow
def test_a_server_that_is_down_fails_only_its_evaluation_until_the_next_run(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer() as stopped:
        port = stopped.port
    both = ["served", "blind"]
    refreshed = refresh_project(write_served(stopped.base_url, BOTH, limits=LIMITS), instance, both)
    project = write_served(stopped.base_url, BOTH, limits=LIMITS)
    reasons = {state.name: state.reason for state in refreshed.not_fresh}
    assert stopped.base_url in reasons["videomme/responses served|002"]
    assert not any("blind" in name for name in reasons)
    assert {row.outcome for row in scored(project, "served")} == {Outcome.FAILED}
    assert all(row.error for row in scored(project, "served"))
    assert Outcome.FAILED not in {row.outcome for row in scored(project, "blind")}
    logged = [entry.user_message for entry in instance.all_logs(str(refreshed.run_id))]
    assert "no request was answered in " in reasons["videomme/responses served|002"]
    sent = [text for text in logged if ", all requests of these answers: " in text]
    assert [text.partition(",")[0] for text in sent] == ["blind"], "no numbers without an answer"
    with ModelServer(port=port) as server:
        second = refresh_project(write_served(server.base_url, BOTH, limits=LIMITS), instance, both)
        assert second.not_fresh == []
        assert server.request_count == 3
    assert second.built["videomme/frames"] == 0
    assert second.built["videomme/responses"] == 1
    assert Outcome.FAILED not in {row.outcome for row in scored(project, "served")}


@pytest.mark.slow
def test_a_missing_key_is_reported_and_no_request_is_sent(
    write_served: WriteServed, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY_THAT_IS_NOT_SET", raising=False)
    with ModelServer() as server:
        project = write_served(server.base_url, api_key_env="A_KEY_THAT_IS_NOT_SET")
        refreshed = refresh_project(project, instance, ["served"])
        assert server.request_count == 0
    reasons = {state.name: state.reason for state in refreshed.not_fresh}
    reason = reasons["videomme/responses served|002"]
    assert "the environment variable A_KEY_THAT_IS_NOT_SET is not set" in reason
    assert "export A_KEY_THAT_IS_NOT_SET=" in reason
