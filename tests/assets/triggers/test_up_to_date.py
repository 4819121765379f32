"""The check `up_to_date` shows what the planner would build, whatever Dagster itself knows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import dagster as dg
import pytest
import yaml

from tests.support.model_server import ModelServer
from tests.support.projects import (
    ALL,
    EVALUATIONS,
    SERVED,
    VIDEOS,
    Copy,
    WriteProject,
    WriteServed,
    stage,
)
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.keys import asset_key
from videomme_pipeline.assets.processes import PROCESS_TAG, RunProcess
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB
from videomme_pipeline.assets.triggers.up_to_date import UP_TO_DATE, up_to_date_sensor
from videomme_pipeline.project.nightly.tracked import refused_files
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.stages.chain import all_stages


def tick(project: Project, instance: dg.DagsterInstance) -> dict[str, dg.AssetCheckEvaluation]:
    """Evaluate the sensor, store its results as the daemon does, and return them by asset."""
    with dg.build_sensor_context(instance=instance) as context:
        evaluated = up_to_date_sensor(project)(context)
    reported = evaluated.asset_events if isinstance(evaluated, dg.SensorResult) else []
    results = [event for event in reported if isinstance(event, dg.AssetCheckEvaluation)]
    for event in results:
        instance.report_runless_asset_event(event)
    return {event.asset_key.path[-1]: event for event in results}


@pytest.mark.slow
def test_the_check_follows_files_and_settings_that_dagster_does_not_know(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    first = tick(project, instance)
    assert {asset for asset, result in first.items() if not result.passed} == set()
    assert len(first) == 9
    assert tick(project, instance) == {}, "nothing changed"

    frames = stage(project, "frames")
    lost = frames.path_of(frames.target(frames.parse_key("uniform_n-4|002")))
    lost.unlink()
    (changed,) = tick(project, instance).values()
    assert changed.asset_key == asset_key(frames)
    # Constant models get no frames, so no scores name the file.
    assert changed.description == "1 of 6 not fresh: never built (1)"
    assert "uniform_n-4|002" in str(changed.metadata["not_fresh"])
    assert changed.target_materialization_data is not None, "or the UI shows it in gray"

    edited = {**EVALUATIONS, "few": {**EVALUATIONS["few"], "reader": "official_v1"}}
    write_project(edited)
    changes = {asset: result.description for asset, result in tick(project, instance).items()}
    assert changes == {
        "scores": "1 of 4 not fresh: changed setting: reader: careful → official_v1 (1)",
        "warehouse": "1 of 1 not fresh: upstream (1)",
        "report_page": "1 of 1 not fresh: upstream (1)",
    }
    refresh_project(project.reopened(), instance, ALL)
    assert {asset: result.passed for asset, result in tick(project, instance).items()} == {
        "frames": True,
        "scores": True,
        "warehouse": True,
        "report_page": True,
    }


class Ticks:
    """Ticks of the sensor of a project, each with the cursor of the one before."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self._sensor, self._instance = up_to_date_sensor(project), instance
        self._cursor: str | None = None

    def has_planned(self) -> bool:
        with dg.build_sensor_context(instance=self._instance, cursor=self._cursor) as context:
            result = self._sensor(context)
            self._cursor = context.cursor
        text = str(result.skip_message) if isinstance(result, dg.SkipReason) else ""
        return not text.startswith("nothing has changed")


def test_a_tick_plans_only_after_a_change(
    project: Project, copy: Copy, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(project, instance)
    planned = [ticks.has_planned() for _ in range(3)]  # the first plan hashes the videos
    assert (planned[0], planned[-1]) == (True, False)
    copy.video("002").touch()
    assert ticks.has_planned()


@pytest.mark.slow
def test_every_change_that_a_plan_depends_on_is_seen(
    project: Project, copy: Copy, write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    frames = stage(project, "frames")
    file = Path(str(frames.path_of(frames.target(frames.parse_key("uniform_n-4|002")))))
    page, content = project.store.report(), file.read_bytes()
    setting = project.configuration.folder / "runs.yaml"
    prompt = project.configuration.folder / "evaluations" / "own.txt"
    prompt.write_text("{{ question }} {{ options }}", encoding="utf-8")
    with ModelServer(reports={"/version": {"version": "1"}}) as server:
        evaluations = {**EVALUATIONS, "served": {**SERVED, "prompt": prompt.name}}
        served = write_served(server.base_url, evaluations, VIDEOS, profile="vllm")
        changes: dict[str, Callable[[], object]] = {
            "a deleted file": file.unlink,
            "a new file": lambda: file.write_bytes(content),
            "a changed video": copy.video("002").touch,
            "a changed subtitle file": copy.subtitle("002").touch,
            "a changed page": page.touch,
            "a setting": lambda: setting.write_text("stale: error"),
            "a prompt": lambda: prompt.write_text("{{ options }} {{ question }}"),
            "another server": lambda: server.reports.update({"/version": {"version": "2"}}),
            "an event": lambda: instance.report_runless_asset_event(dg.AssetMaterialization("a")),
        }
        ticks = Ticks(served, instance)
        assert ticks.has_planned()
        for name, change in changes.items():
            # A plan that has hashed a changed file is followed by another one.
            assert [ticks.has_planned(), ticks.has_planned()][-1] is False, name
            change()
            assert ticks.has_planned(), name


def test_a_dead_run_is_ended(project: Project, instance: dg.DagsterInstance) -> None:
    @dg.job
    def idle() -> None:
        """Nothing."""

    run = instance.create_run_for_job(idle)
    dead = replace(RunProcess.here(run_id=run.run_id), started=1.0)
    instance.add_run_tags(run.run_id, {PROCESS_TAG: dead.as_json()})
    tick(project, instance)
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE


def test_a_benchmark_without_evaluations_has_nothing_to_build(
    project: Project, instance: dg.DagsterInstance
) -> None:
    path = project.configuration.folder / "benchmarks.yaml"
    path.write_text(f"{path.read_text(encoding='utf-8')}smoke:\n", encoding="utf-8")
    with_smoke = project.reopened()
    others = [other for other in all_stages(with_smoke) if other.group == "smoke"]
    assert [other.label for other in others] == ["smoke/questions", "smoke/videos"]
    with dg.build_sensor_context(instance=instance) as context:
        evaluated = up_to_date_sensor(with_smoke)(context)
    assert isinstance(evaluated, dg.SensorResult)
    shown = {event.asset_key: event for event in evaluated.asset_events}
    for other in others:
        result = shown[asset_key(other)]
        assert isinstance(result, dg.AssetCheckEvaluation)
        assert (result.passed, result.description) == (True, "0 fresh")


def test_the_check_runs_after_its_asset(project: Project, instance: dg.DagsterInstance) -> None:
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(["videomme", "scores"])],
        partition_key="few",
    )
    checks = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert checks[UP_TO_DATE] is True
    assert set(tick(project, instance)) == {*CODE_VERSIONS, "warehouse", "report_page"} - {"scores"}


def test_a_check_that_was_planned_and_never_ran_is_reported_again(
    project: Project, instance: dg.DagsterInstance
) -> None:
    tick(project, instance)
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    scores = asset_key(stage(project, "scores"))
    instance.create_run_for_job(job, asset_selection=frozenset([scores]))
    assert set(tick(project, instance)) == {"scores"}
    assert tick(project, instance) == {}


def test_files_that_cannot_be_used_are_in_the_check_of_scores(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    tick(project, instance)
    edited = write_project({**EVALUATIONS, "typo": {**EVALUATIONS["few"], "promt": "lmms_eval"}})
    (edited.configuration.folder / "nightly.yaml").write_text("evaluations: {nobody: {}}\n")
    (changed,) = tick(project, instance).values()
    assert (changed.asset_key.path[-1], changed.passed) == ("scores", False)
    assert changed.description is not None
    assert changed.description.startswith("4 fresh; this file is not used: ")
    assert "unknown key `promt`" in changed.description
    assert "nightly.yaml: `since` is missing" in changed.description
    assert build_definitions(edited.reopened()).resolve_job_def(REFRESH_JOB)
    write_project()
    (edited.configuration.folder / "nightly.yaml").unlink()
    assert [result.passed for result in tick(project, instance).values()] == [True]


def test_a_file_that_cannot_be_used_is_in_the_check_of_its_benchmark_alone(
    project: Project, write_project: WriteProject
) -> None:
    bad = {"typo": {**EVALUATIONS["few"], "promt": "lmms_eval"}, "other": {"benchmark": "nothing"}}
    configuration = write_project({**EVALUATIONS, **bad}).configuration
    named = {"videomme": ["other.yaml", "typo.yaml"], "videomme_v2": ["other.yaml"]}
    for benchmark, files in named.items():
        refused = refused_files(configuration, benchmark)
        assert [Path(problem.split(":")[0]).name for problem in refused] == files


def test_the_link_of_the_check_has_the_stale_evaluations_of_the_benchmark(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    tick(project, instance)
    write_project({**EVALUATIONS, "few": {**EVALUATIONS["few"], "reader": "official_v1"}})
    changed = tick(project, instance)
    for name in ("scores", "warehouse"):
        link = unquote(str(changed[name].metadata["to_do"].value))
        assert link.endswith(f"config=evaluations: [{'few' if name == 'scores' else ''}]")


@pytest.mark.slow
def test_a_template_of_checkpoints_that_was_never_run_is_not_stale(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    tick(project, instance)
    served = {**EVALUATIONS["few"], "sampling": "uniform_n-2"}
    edited = write_project({**EVALUATIONS, "template": served})
    assert not all(result.passed for result in tick(project, instance).values())
    runs = edited.configuration.folder / "checkpoints.yaml"
    runs.write_text("mine: {pattern: /nowhere/checkpoint-*, template: template}\n")
    assert all(result.passed for result in tick(project, instance).values())
    assert refresh_project(edited.reopened(), instance, ["template"]).not_fresh == []
    (runs.parent / "evaluations" / "template.yaml").write_text(
        yaml.safe_dump({**served, "reader": "official_v1"})
    )
    assert not all(result.passed for result in tick(project, instance).values())


@pytest.mark.slow
def test_samplings_without_an_evaluation_are_not_refreshed(
    project: Project, instance: dg.DagsterInstance
) -> None:
    folder = project.configuration.folder
    (folder / "samplings.yaml").write_text("videomme: [uniform_n-2]")
    frames = stage(project.reopened(), "frames")
    result = tick(project, instance)["frames"]
    assert (result.passed, result.metadata["fresh"].value) == (True, 6)
    job = build_definitions(project.reopened()).resolve_job_def(REFRESH_JOB)
    assert job.execute_in_process(instance=instance, run_config={"evaluations": []}).success
    added = [partition for partition in frames.partitions() if partition.variant == "uniform_n-2"]
    assert len(added) == 3
    assert not any(frames.has(partition, frames.fingerprint(partition)) for partition in added)


@pytest.mark.parametrize(
    ("setting", "severity"),
    [("", dg.AssetCheckSeverity.ERROR), ("stale: warning", dg.AssetCheckSeverity.WARN)],
)
def test_the_severity_is_a_setting(
    project: Project, instance: dg.DagsterInstance, setting: str, severity: dg.AssetCheckSeverity
) -> None:
    (project.configuration.folder / "runs.yaml").write_text(setting)
    frames = stage(project, "frames")
    frames.path_of(frames.target(frames.parse_key("uniform_n-4|002"))).unlink()
    changed = tick(project.reopened(), instance)["frames"]
    assert (changed.passed, changed.severity) == (False, severity)
