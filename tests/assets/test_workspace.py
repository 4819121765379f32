"""Two projects with the same benchmark in one Dagster workspace, which share the history."""

from pathlib import Path

import dagster as dg
import pytest

from tests.support.projects import Copy, WriteProject, write_project_in
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.triggers.up_to_date import launchpad
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.project import Project
from videomme_pipeline.stages.explain import matching
from videomme_pipeline.stages.plan import Freshness, counts, plan_project

BLIND = {"blind": {"benchmark": "videomme", "model": "constant-A"}}
LABS = {"lab_a": ["002", "003"], "lab_b": ["004"]}
FRESH = Freshness.FRESH


@pytest.fixture
def projects(tmp_path: Path, copy: Copy) -> dict[str, Project]:
    """Two projects with different videos of the same benchmark."""
    written = {}
    for name, videos in LABS.items():
        write: WriteProject = write_project_in(tmp_path / name, copy)
        write(BLIND)
        (tmp_path / name / "configuration/runs.yaml").write_text(f"code_location: {name}\n")
        written[name] = write(BLIND, videos=videos)
    return written


@pytest.mark.slow
def test_each_project_builds_its_own_assets(
    projects: dict[str, Project], instance: dg.DagsterInstance
) -> None:
    for project in projects.values():
        assert refresh_project(project, instance, ["blind"]).not_fresh == []
    for name, project in projects.items():
        states = plan_project(project)
        shown = counts(states)
        assert shown["videomme/videos"] == {FRESH: len(LABS[name])}
        assert {freshness for count in shown.values() for freshness in count} == {FRESH}
        assert len(matching(states, "videomme/responses")) == len(LABS[name])
        videos = instance.get_dynamic_partitions(f"{name}/videomme_videos")
        assert sorted(videos) == LABS[name]
        (run,) = instance.get_runs(
            dg.RunsFilter(tags={".dagster/repository": f"__repository__@{name}"})
        )
        assert run.is_success
        assert f"/locations/{name}/jobs/" in launchpad(project, [])


def test_no_asset_or_group_has_the_name_of_one_of_another_project(
    projects: dict[str, Project],
) -> None:
    for name, project in projects.items():
        graph = build_definitions(project).resolve_asset_graph()
        for node in graph.asset_nodes:
            assert node.key.path[0] == name
            assert node.group_name in {f"{name}_videomme", f"{name}_results"}
            assert node.parent_keys <= graph.get_all_asset_keys()


def test_a_name_that_is_no_word_is_refused(tmp_path: Path, copy: Copy) -> None:
    project = write_project_in(tmp_path, copy)(BLIND)
    (tmp_path / "configuration/runs.yaml").write_text("code_location: lab/a\n")
    with pytest.raises(ConfigurationError, match=r"runs\.yaml.*code_location"):
        build_definitions(project)
