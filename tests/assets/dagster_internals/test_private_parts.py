"""Private parts of Dagster that this project uses. A test fails if an upgrade changes one."""

import ast
from importlib.metadata import version
from inspect import signature

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import DagsterEventType, StepMaterializationData
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.base import EventLogStorage

from tests.support.paths import ROOT
from tests.support.projects import WriteProject
from videomme_pipeline.assets.dagster_internals import origin_of
from videomme_pipeline.assets.processes import run_here
from videomme_pipeline.project.runs.settings import CODE_LOCATION

PRIVATE_MODULE = ROOT / "assets" / "dagster_internals.py"


def test_the_installed_minor_version_is_the_tested_one() -> None:
    assert version("dagster").startswith("1.13.")


def test_only_one_module_imports_private_parts() -> None:
    others = [
        path.relative_to(ROOT).as_posix()
        for folder in ("assets", "videomme_pipeline")
        for path in (ROOT / folder).rglob("*.py")
        if path.resolve() != PRIVATE_MODULE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster._")
    ]
    assert others == []


def test_storing_a_batch_takes_the_events() -> None:
    (_self, events) = signature(EventLogStorage.store_event_batch).parameters
    assert events == "events"
    (_self, event) = signature(SqlEventLogStorage._event_to_row).parameters
    assert event == "event"


def test_a_materialization_event_is_built_from_these_fields() -> None:
    assert list(signature(StepMaterializationData).parameters)[:1] == ["materialization"]
    assert DagsterEventType.ASSET_MATERIALIZATION.value == "ASSET_MATERIALIZATION"
    used = {
        "event_type_value",
        "job_name",
        "step_handle",
        "node_handle",
        "step_kind_value",
        "logging_tags",
        "event_specific_data",
        "message",
    }
    assert used <= set(signature(dg.DagsterEvent).parameters)


def test_the_metadata_key_of_observed_sources_is_unchanged() -> None:
    assert SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION == "__source_asset_observation__"


@pytest.mark.parametrize("name", ["error_info", "level", "user_message", "run_id", "dagster_event"])
def test_a_log_entry_has_the_fields_that_this_project_sets(name: str) -> None:
    assert name in signature(dg.EventLogEntry).parameters


def test_a_run_of_the_command_line_belongs_to_the_code_location_of_the_ui(
    write_project: WriteProject,
) -> None:
    @dg.job(executor_def=dg.in_process_executor)
    def idle() -> None:
        """Nothing."""

    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    name = location["python_module"]["location_name"]
    origin = origin_of(idle, CODE_LOCATION)
    assert (origin.location_name, origin.job_name) == (name, "idle")
    definitions = dg.Definitions(jobs=[idle])
    with dg.DagsterInstance.ephemeral() as instance:
        run_id = run_here(write_project({}), instance, definitions, "idle")
        in_the_ui = dg.RunsFilter(tags={".dagster/repository": f"__repository__@{name}"})
        (run,) = instance.get_runs(in_the_ui)
    assert (run.run_id, run.is_success, run.remote_job_origin) == (run_id, True, origin)
