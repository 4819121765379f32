"""Runs from the command line: their error messages, and what they leave to other runs."""

from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.projects import WriteProject
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.processes import PARTITION_TAG
from videomme_pipeline.assets.run import builds, run_nightly
from videomme_pipeline.errors import ConfigurationError, NotReadyError
from videomme_pipeline.project.project import Project
from videomme_pipeline.stages.plan import plan_project

TRACKED = {"since": "2026-11-01", "evaluations": {"few": {}}}


@pytest.mark.parametrize(
    ("nightly", "evaluations", "date", "message"),
    [
        (TRACKED, ["more"], "2026-11-02", "evaluation more is not tracked; add it under"),
        (TRACKED, ["few", "fwe"], "2026-11-02", "evaluation fwe is not tracked; add it under"),
        ({}, [], "2026-11-02", "no evaluation is tracked; write the lines `since: 2026-"),
        (
            {},
            ["few"],
            "2026-11-02",
            "no evaluation is tracked; write the lines `since: 2026-",
        ),
        (TRACKED, ["few"], "2026-10-31", "no nightly run on 2026-10-31: choose a date from "),
        (TRACKED, ["few"], "soon", "no nightly run on soon: choose a date from 2026-11-01"),
    ],
)
def test_an_impossible_nightly_run_raises_an_error_that_names_the_file(
    write_project: WriteProject,
    instance: dg.DagsterInstance,
    nightly: dict[str, Any],
    evaluations: list[str],
    date: str,
    message: str,
) -> None:
    project = write_project()
    file = project.configuration.folder / "nightly.yaml"
    file.write_text(yaml.safe_dump(nightly))
    with pytest.raises(ConfigurationError) as caught:
        run_nightly(project, instance, evaluations, date)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_the_error_for_a_missing_reference_names_the_command_that_builds_it(
    write_project: WriteProject, project: Project, instance: dg.DagsterInstance
) -> None:
    (project.configuration.folder / "nightly.yaml").write_text(yaml.safe_dump(TRACKED))
    stored_file(project.store, "scores", "videomme", "few").unlink()
    with pytest.raises(
        NotReadyError, match=r"few: its reference, .* does not exist; run .* run few"
    ):
        run_nightly(write_project(), instance, ["few"], "2026-11-02")


@pytest.mark.parametrize(
    ("run", "variants"),
    [
        (dg.DagsterRun("refresh_stale", run_config={"evaluations": ["blind"]}), {"blind"}),
        (
            dg.DagsterRun("race", run_config={"baseline": "few", "candidate": "blind"}),
            {"few", "blind", "uniform_n-4"},
        ),
        (dg.DagsterRun("checkpoint", tags={PARTITION_TAG: "unknown|1"}), set()),
        (
            dg.DagsterRun(
                "__ASSET_JOB",
                asset_selection=frozenset({dg.AssetKey(["videomme", "prompts"])}),
                tags={PARTITION_TAG: "more|002"},
            ),
            {"more"},
        ),
    ],
)
def test_a_run_builds_what_its_evaluations_need(
    project: Project, run: dg.DagsterRun, variants: set[str]
) -> None:
    built = [state for state in plan_project(project) if builds(run, state)]
    assert {state.partition.variant for state in built} - {None} == variants
