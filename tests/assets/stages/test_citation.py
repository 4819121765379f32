"""Citation checks, from a real project to the Dagster check, the view and the command line."""

import shutil
from contextlib import closing
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from tests.support.builders import write_video
from tests.support.model_server import ModelServer
from tests.support.projects import ALL, Copy, WriteServed
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.stages.checks import CITATION
from videomme_pipeline.errors import Status
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.findings.run import BLOCKED
from videomme_pipeline.stages.plan import plan_project
from videomme_pipeline.storage.results import Results
from videomme_pipeline.warehouse.database import connect, findings_of, query
from videomme_pipeline.warehouse.evidence import citation_findings


def statuses(project: Project, evaluation: str) -> dict[str, str]:
    """The status of each check of an evaluation."""
    rows = findings_of(project.store, "videomme")
    return {row.check_name: row.status for row in rows if row.evaluation == evaluation}


def dagster_check(instance: dg.DagsterInstance) -> dg.AssetCheckEvaluation:
    """The newest citation check of all scores."""
    key = dg.AssetCheckKey(dg.AssetKey(["videomme", "scores"]), CITATION)
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert record.evaluation is not None
    return record.evaluation


def test_a_subset_is_the_only_warning_of_a_correct_score(
    project: Project, instance: dg.DagsterInstance
) -> None:
    assert statuses(project, "few-subtitles") == {
        "answers": Status.OK,
        "release": Status.WARNING,
        "subtitles": Status.UNKNOWN,
        "media": Status.OK,
        "sameness": Status.OK,
        "warnings": Status.OK,
    }
    check = dagster_check(instance)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "few, release: 9 questions on 3 videos: a subset" in (check.description or "")


@pytest.mark.slow
def test_a_video_that_changed_since_scoring_blocks_the_older_scores(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    write_video(copy.video("003"), frames=44, width=64, height=48)
    refresh_project(project, instance, ["few"])
    media = {name: statuses(project, name)["media"] for name in ALL}
    assert media == {
        "few": Status.OK,
        "few-subtitles": BLOCKED,
        "more": BLOCKED,
        "blind": Status.OK,  # it does not depend on the video
    }
    whole = dagster_check(instance)
    assert (whole.passed, whole.severity) == (False, dg.AssetCheckSeverity.ERROR)
    with connect(project.store) as connection:
        select = "select citation, citation_checks from leaderboard where evaluation = 'more'"
        assert query(connection, select) == [{"citation": "blocked", "citation_checks": "media"}]


@pytest.mark.slow
def test_scores_without_the_file_about_their_videos_are_completed_without_asking(
    project: Project, instance: dg.DagsterInstance
) -> None:
    stored_file(project.store, "evaluated_videos", "videomme", "few").unlink()
    assert statuses(project, "few")["media"] == Status.UNKNOWN
    journal = project.store.journal.read_bytes()
    assert refresh_project(project, instance, ALL).built == {"videomme/scores": 1}
    assert project.store.journal.read_bytes() == journal
    assert statuses(project, "few")["media"] == Status.OK
    assert all(state.freshness == "fresh" for state in plan_project(project, ALL))


@pytest.mark.slow
def test_an_endpoint_that_drops_frames_blocks_the_score(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer(tokens_per_image=500, image_limit=1) as server:
        project = write_served(server.base_url, tokens_per_frame=500)
        assert refresh_project(project, instance, ["served"]).not_fresh == []
    status = statuses(project, "served")
    assert status["frames"] == Status.OK
    assert status["prompt_tokens"] is BLOCKED


def test_findings_do_not_depend_on_the_order_of_rows_in_tables(
    project: Project, tmp_path: Path
) -> None:
    shutil.copy(project.store.warehouse, tmp_path / "copy.duckdb")
    with closing(duckdb.connect(str(tmp_path / "copy.duckdb"))) as connection:
        before = [*citation_findings(connection, Results(project.store))]
        for table in ("questions", "scored_questions", "evaluated_videos", "videos"):
            connection.execute(f"create temp table rows as from {table} order by all desc")
            connection.execute(f"truncate {table}")
            connection.execute(f"insert into {table} from rows")
            connection.execute("drop table rows")
        assert [*citation_findings(connection, Results(project.store))] == before
    assert {row.status for row in before if row.check_name == "media"} == {Status.OK}
