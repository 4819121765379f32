"""Raising any number of a stage's code version makes its partitions stale, for every stage."""

import pytest

from tests.support.projects import WriteProject, stage
from videomme_pipeline.frames import cache
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import WHOLE
from videomme_pipeline.project.state.versions import CODE_VERSIONS, code_version
from videomme_pipeline.stages.shared import ReportPage, Warehouse
from videomme_pipeline.stages.stage import SharedStage


def fingerprints(project: Project, name: str) -> set[str]:
    """The current fingerprint of every partition of a stage."""
    built = stage(project, name)
    project.benchmarks["videomme"].invalidate()
    return {built.fingerprint(partition) for partition in built.partitions()}


@pytest.mark.parametrize(
    ("name", "position"),
    [
        (name, position)
        for name, numbers in CODE_VERSIONS.items()
        for position in range(len(numbers))
        if name != "frames"
    ],
)
def test_every_number_of_a_code_version_is_in_the_fingerprints(
    project: Project,
    write_project: WriteProject,
    name: str,
    position: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised = tuple(n + (i == position) for i, n in enumerate(CODE_VERSIONS[name]))
    before, shown = fingerprints(project, name), stage(project, name).code_version
    monkeypatch.setitem(CODE_VERSIONS, name, raised)
    after = fingerprints(write_project(), name)
    assert before.isdisjoint(after)
    assert stage(project, name).code_version != shown


@pytest.mark.parametrize("constant", ["PLANNER_VERSION", "PICTURE_VERSION"])
def test_both_code_versions_of_frames_are_in_the_fingerprint(
    project: Project, write_project: WriteProject, constant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CODE_VERSIONS["frames"] == (cache.PLANNER_VERSION, cache.PICTURE_VERSION)
    before = fingerprints(project, "frames")
    monkeypatch.setattr(cache, constant, getattr(cache, constant) + 1)
    after = fingerprints(write_project(), "frames")
    assert before.isdisjoint(after)


@pytest.mark.parametrize("shared", [Warehouse, ReportPage])
def test_the_code_version_of_a_shared_stage_is_in_the_fingerprint(
    project: Project, shared: type[SharedStage], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shared(project).target(WHOLE)
    monkeypatch.setattr(shared, "code_version", "raised")
    after = shared(project).target(WHOLE)
    assert before.fingerprint != after.fingerprint


def test_every_stage_of_a_benchmark_shows_its_code_version(project: Project) -> None:
    shown = {name: code_version(name) for name in CODE_VERSIONS}
    assert {name: stage(project, name).code_version for name in CODE_VERSIONS} == shown
