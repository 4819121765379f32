"""An evaluation of one duration: what is built, asked, reported and shown."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pytest

from tests.support.builders import write_video
from tests.support.model_server import ModelServer
from tests.support.projects import SERVED, Copy, WriteProject, WriteServed, stage
from tests.support.stored_events import materializations
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.runner import DATA_VERSION_TAG, NOT_SELECTED
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.stages.explain import Explanation
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect, findings_of, query

SHORT, MEDIUM = "002", "302"
MEDIUM_ONLY: Mapping[str, Any] = {**SERVED, "duration": "medium"}
EVALUATIONS = {"served": SERVED, "medium": MEDIUM_ONLY}


@pytest.mark.slow
def test_an_evaluation_of_one_duration_asks_only_about_those_videos(
    write_served: WriteServed, copy: Copy, instance: dg.DagsterInstance
) -> None:
    write_video(copy.video(MEDIUM), frames=40, width=64, height=48)
    with ModelServer() as server:
        project = write_served(server.base_url, EVALUATIONS, videos=(SHORT, MEDIUM))
        refreshed = refresh_project(project, instance, list(EVALUATIONS))
        assert refreshed.not_fresh == []
        assert refreshed.built["videomme/responses"] == 3
        assert server.request_count == 6, "answers about the medium video are asked once"
        for name in ("videos", "frames", "prompts", "responses"):
            assert [item.video for item in stage(project, name).partitions(["medium"])] == [MEDIUM]

        rows = read_rows(stored_file(project.store, "scores", "videomme", "medium"), ScoredQuestion)
        assert [row.example_id for row in rows] == [f"video_{MEDIUM}_q{n}" for n in (1, 2, 3)]
        with connect(project.store) as connection:
            named_alike = query(
                connection,
                "select count(*) as n from scored_questions "
                "join inputs using (benchmark, question_id, example_id)",
            )
            assert named_alike == [{"n": 9}]
            leaderboard = query(
                connection,
                "select evaluation, questions, benchmark_questions from leaderboard order by all",
            )
        assert [tuple(row.values()) for row in leaderboard] == [
            ("medium", 3, 2700),
            ("served", 6, 2700),
        ]
        findings = {
            (item.evaluation, item.check_name): item.summary
            for item in findings_of(project.store, "videomme")
        }
        assert findings["medium", "answers"] == "3 questions are answered once"
        assert findings["medium", "release"].startswith(
            "3 questions on 1 videos: a subset (duration: medium), "
        )

        event = _materialize(project, instance, "responses", f"medium|{SHORT}")
        assert (event.tags or {})[DATA_VERSION_TAG] == NOT_SELECTED
        assert server.request_count == 6, "the UI cannot make an evaluation ask about other videos"
        assert {state.freshness for state in plan_project(project)} == {Freshness.FRESH}

        edited = write_served(
            server.base_url, EVALUATIONS | {"medium": SERVED}, videos=(SHORT, MEDIUM)
        )
        states = plan_project(edited, ["medium"])
        stale = {state.name for state in states if state.freshness is not Freshness.FRESH}
        assert {f"videomme/responses medium|{SHORT}", "videomme/scores medium"} <= stale
        scores = next(state for state in states if state.name == "videomme/scores medium")
        reasons = [str(reason) for reason in Explanation(states).reasons(scores)]
        assert "changed setting: duration: medium → none" in reasons


def test_a_duration_that_no_selected_video_has_concerns_this_evaluation_only(
    write_project: WriteProject, project: object, instance: dg.DagsterInstance
) -> None:
    del project
    wrong = write_project({"few": {**SERVED, "model": "constant-A", "duration": "long"}})
    assert stage(wrong, "responses").partitions() == []
    scores = stage(wrong, "scores")
    with pytest.raises(NotReadyError, match=r"few: `duration: long` selects none of the 3 videos"):
        scores.target(*scores.partitions())


def _materialize(
    project: Any, instance: dg.DagsterInstance, asset: str, key: str
) -> dg.AssetMaterialization:
    """The event of a run of one partition, as the UI starts it."""
    result = (
        build_definitions(project)
        .resolve_implicit_global_asset_job_def()
        .execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["videomme", asset])],
            partition_key=key,
        )
    )
    (event,) = materializations(instance, result.run_id)
    assert event.asset_materialization is not None
    return event.asset_materialization
