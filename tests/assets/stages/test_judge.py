"""A judge in an evaluation file changes the scores and nothing upstream."""

import io
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
import yaml
from rich.console import Console

from tests.support.model_server import Fault, ModelServer
from tests.support.projects import WriteProject, expected_costs
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project, refresh_stale
from videomme_pipeline.reports.terminal.runs import show_costs
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.stages.plan import Freshness
from videomme_pipeline.stages.refresh import RefreshResult
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect, query

JUDGE_PROMPT = "Someone was asked"
EVALUATION = {"benchmark": "videomme", "model": "wordy", "judge": {"model": "small"}}
QUESTIONS = 9


def answer(question: str) -> str:
    return "B" if question.startswith(JUDGE_PROMPT) else "They move on."


def asked(server: ModelServer) -> Counter[str]:
    return Counter(
        "judge" if request.question.startswith(JUDGE_PROMPT) else "model"
        for request in server.requests
    )


@pytest.mark.slow
def test_a_judge_reads_each_unreadable_answer_once_and_failures_leave_scores_stale(
    write_project: WriteProject, instance: dg.DagsterInstance, root: Path
) -> None:
    is_down = True

    def faults(question: str, _asked_before: int) -> Fault | None:
        return Fault.BAD_REQUEST if is_down and question.startswith(JUDGE_PROMPT) else None

    with ModelServer(answer=answer, faults=faults) as server:
        folder = root / "configuration"
        folder.mkdir()
        models = {name: {"base_url": server.base_url} for name in ("wordy", "small")}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        project = write_project({"mine": {**EVALUATION, "judge": None}})
        assert refresh_project(project, instance, ["mine"]).not_fresh == []
        assert asked(server) == {"model": QUESTIONS}

        project = write_project({"mine": EVALUATION})
        (not_fresh,) = (
            state
            for state in refresh_project(project, instance, ["mine"]).not_fresh
            if state.stage.name == "scores"
        )
        assert "judge" in not_fresh.reason
        assert asked(server) == {"model": QUESTIONS, "judge": QUESTIONS}

        is_down = False
        refreshed = refresh_project(project, instance, ["mine"])
        assert refreshed.not_fresh == []
        assert refreshed.built["videomme/scores"] == 1
        assert refreshed.built["videomme/responses"] == 0
        assert refresh_project(project, instance, ["mine"]).run_id is None
        assert asked(server) == {"model": QUESTIONS, "judge": 2 * QUESTIONS}

    rows = read_rows(stored_file(project.store, "scores", "videomme", "mine"), ScoredQuestion)
    assert {row.rule for row in rows} == {"judge"}
    assert not any(row.outcome is Outcome.UNREADABLE for row in rows)
    with connect(project.store) as connection:
        (row,) = query(connection, "select * from leaderboard")
    assert (row["judge"], row["judge_letters"], row["judge_failed"]) == ("small", QUESTIONS, 0)
    assert row["accuracy_without_judge"] == 0
    assert row["accuracy"] == sum(row.is_correct for row in rows) / QUESTIONS


@pytest.mark.slow
def test_model_and_judge_share_the_cost_limit_of_a_run(
    write_project: WriteProject, instance: dg.DagsterInstance, root: Path
) -> None:
    with ModelServer(answer=answer) as server:
        folder = root / "configuration"
        folder.mkdir()
        entry = {
            "base_url": server.base_url,
            "prices": {"input": 0.0, "output": 100_000.0},  # three tokens are 0.30 dollars
            "limits": {"concurrency": 1},
        }
        (folder / "models.yaml").write_text(yaml.safe_dump({"wordy": entry, "small": entry}))
        project = write_project({"mine": EVALUATION}, videos=["002"])

        def run(max_dollars: float | None) -> RefreshResult:
            return refresh_stale(project, instance, ["mine"], max_dollars)

        stopped = run(0.5)
        assert asked(server) == {"model": 1}, (
            "the rest of the limit is too small for a second request"
        )
        assert str(stopped.stopped_by).startswith("mine: stopped at $0.3000 of $0.5000")
        sink = io.StringIO()
        show_costs(Console(file=sink), expected_costs(project, ["mine"]))
        lines = [line.split("\t") for line in sink.getvalue().splitlines()[2:]]
        assert [(line[0], line[3]) for line in lines] == [("mine", "2"), ("mine@judge", "1 to 3")]

        stopped = run(1.4)
        assert asked(server) == {"model": 3, "judge": 2}
        assert str(stopped.stopped_by).startswith("mine@judge: stopped at $1.2000 of $1.4000")
        assert not [state for state in stopped.not_fresh if state.freshness is Freshness.FAILED]
        rows = read_rows(stored_file(project.store, "scores", "videomme", "mine"), ScoredQuestion)
        assert [str(row.judge_error)[:9] for row in rows if row.judge_error] == ["not asked"]
        (left,) = expected_costs(project, ["mine"])
        assert (left.evaluation, left.requests_low, left.requests) == ("mine@judge", 1, 1)

        assert run(None).not_fresh == []
        assert asked(server) == {"model": 3, "judge": 3}
    assert expected_costs(project, ["mine"]) == []
