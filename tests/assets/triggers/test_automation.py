"""Automation requests the partitions downstream of new data, and none after a rerun."""

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from tests.support.builders import write_video
from tests.support.projects import Copy, WriteProject
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import Project

FEW = {"few": {"benchmark": "videomme", "model": "constant-A", "sampling": "uniform_n-4"}}
VIDEOS = dg.AssetKey(["videomme", "videos"])


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


def run_again(daemon: Daemon, instance: dg.DagsterInstance, video: str) -> None:
    job = daemon.definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(
        instance=instance, asset_selection=[VIDEOS], partition_key=video
    ).success


@pytest.mark.slow
def test_new_bytes_request_downstream_partitions_and_a_rerun_requests_none(
    write_project: WriteProject, copy: Copy, instance: dg.DagsterInstance
) -> None:
    project = write_project(FEW)
    refresh_project(project, instance, ["few"])
    daemon = Daemon(project, instance)
    daemon.requested()
    assert daemon.requested() == set()
    run_again(daemon, instance, "002")
    assert daemon.requested() == set(), "the data is the same"
    write_video(copy.video("002"), frames=33, width=64, height=48)
    run_again(daemon, instance, "002")
    requested = daemon.requested()
    assert ("videomme/frames", "uniform_n-4|002") in requested
    assert {key.rpartition("|")[2] for _, key in requested if key and "|" in key} == {"002"}


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
