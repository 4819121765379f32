"""Automation requests the results after new scores."""

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from tests.support.projects import WriteProject
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import Project

FEW = {"few": {"benchmark": "videomme", "model": "constant-A", "sampling": "uniform_n-4"}}


class Daemon:
    """Evaluates the conditions of a project one after the other, as the sensor does."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self.definitions = build_definitions(project)
        self._instance = instance
        self._cursor: AssetDaemonCursor | None = None

    def requested(self) -> set[tuple[str, str | None]]:
        evaluated = dg.evaluate_automation_conditions(
            self.definitions, instance=self._instance, cursor=self._cursor
        )
        self._cursor = evaluated.cursor
        return {
            (request.asset_key.to_user_string(), request.partition_key)
            for result in evaluated.results
            if isinstance(result.key, dg.AssetKey)
            for request in result.true_subset.expensively_compute_asset_partitions()
        }


@pytest.mark.slow
def test_new_scores_request_the_results_although_other_scores_are_missing(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    new = {"benchmark": "videomme", "model": "random"}
    refresh_project(write_project(FEW | {"new": new}), instance, ["few"])
    project = write_project({"few": FEW["few"] | {"reader": "official_v1"}, "new": new})
    daemon = Daemon(project, instance)
    daemon.requested()
    assert daemon.requested() == set()
    job = daemon.definitions.resolve_implicit_global_asset_job_def()
    scores = [dg.AssetKey(["videomme", "scores"])]
    assert job.execute_in_process(
        instance=instance, asset_selection=scores, partition_key="few"
    ).success
    assert {("warehouse", None), ("report_page", None)} <= daemon.requested()
