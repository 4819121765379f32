"""The data folder: its listing, garbage, and the disk budget of frames."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.cli import use, videomme
from tests.support.projects import ALL, EVALUATIONS, VIDEOS, Copy, WriteProject
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.stages.data_folder import CacheEntry, DataFolder, remove
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.videos.sound import SOUND_VERSION

FEW = {name: EVALUATIONS[name] for name in ("few", "few-subtitles", "blind")}
"""All evaluations except `more`, the only one with 8 frames."""


def kinds(project: Project, *samplings: str) -> Counter[str]:
    """The number of garbage files by the first word of the reason."""
    return Counter(item.why.split()[0] for item in DataFolder(project).garbage(samplings))


def age(project: Project, days: int = 40) -> None:
    """Let every stored file look as if it was written some days ago."""
    written = time.time() - days * 86_400
    for path in Path(project.store.root.path).rglob("*.parquet"):
        os.utime(path, (written, written))


def forget(project: Project, name: str) -> None:
    """Remove the scores of an evaluation, as `cache gc --forget` does."""
    DataFolder(project).forget(name)


def shelf(project: Project, name: str) -> CacheEntry:
    (only,) = [shelf for shelf in DataFolder(project).shelves() if shelf.name == name]
    return only


def test_every_file_is_listed_with_the_evaluations_that_use_it(project: Project) -> None:
    shelves = DataFolder(project).shelves()
    frames = shelf(project, "uniform_n-4")
    assert (frames.kind, frames.videos, frames.files) == ("frames", 3, 3)
    assert frames.named_by == ("few", "few-subtitles")
    assert shelf(project, "uniform_n-4.window-500").named_by == ("few-subtitles",)
    stored = [path for path in project.store.path().rglob("*.parquet") if "copy" not in str(path)]
    assert sum(shelf.files for shelf in shelves) == len(stored)
    assert sum(shelf.bytes for shelf in shelves) == sum(path.stat().st_size for path in stored)


def test_used_files_are_not_garbage(project: Project) -> None:
    assert kinds(project) == {}


@pytest.mark.slow
def test_removing_garbage_makes_nothing_stale(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    fewer = write_project(FEW)
    assert kinds(fewer) == {}, "a young file is kept, because a setting may be switched back"
    age(fewer)
    assert kinds(fewer) == {"frames": 3}, (
        "the last scores of the evaluation name their inputs, and a baseline gets no frames"
    )
    forget(fewer, "more")
    assert kinds(fewer) == {"frames": 3, "prompts": 3}
    remove(DataFolder(fewer).garbage())
    refresh_project(fewer, instance, list(FEW))
    assert {s.freshness for s in plan_project(fewer)} == {Freshness.FRESH}
    assert stored_file(fewer.store, "responses", "videomme", "more", "002").exists(), (
        "answers are results"
    )
    again = refresh_project(write_project(), instance, ALL)
    assert (again.built["videomme/frames"], again.built["videomme/responses"]) == (3, 0)


def test_a_sampling_in_samplings_yaml_is_not_garbage(
    project: Project, write_project: WriteProject
) -> None:
    path = project.configuration.folder / "samplings.yaml"
    path.write_text(yaml.safe_dump({"videomme": ["uniform_n-8"]}))
    age(project)
    forget(write_project(FEW), "more")
    assert kinds(write_project(FEW)) == {"prompts": 3}
    assert shelf(write_project(FEW), "uniform_n-8").named_by == ("samplings.yaml",)


@pytest.mark.slow
def test_frames_of_replaced_video_content_are_garbage(
    project: Project, copy: Copy, instance: dg.DagsterInstance
) -> None:
    content = project.benchmarks["videomme"].snapshot.content_hash("003")
    publish(project.store.sound(content, SOUND_VERSION), b"RIFF")
    write_video(copy.video("003"), frames=44, width=64, height=48)
    refresh_project(project, instance, ALL)
    age(project)
    assert kinds(project)["frames"] == 2, "no scores were computed from frames: these are baselines"


def test_used_frames_are_garbage_only_if_their_sampling_is_named(project: Project) -> None:
    assert kinds(project, "uniform_n-4") == {"frames": 3}
    with pytest.raises(ConfigurationError, match="did you mean `uniform_n-4`"):
        DataFolder(project).garbage(["uniform_n4"])


def test_a_mistake_in_an_evaluation_file_is_an_error(
    project: Project, write_project: WriteProject
) -> None:
    broken = write_project(FEW | {"broken": {"benchmark": "videomme", "modle": "random"}})
    with pytest.raises(ConfigurationError, match="did you mean `model`"):
        DataFolder(broken).garbage()


def limited(project: Project, **limits: Any) -> Project:
    (project.configuration.folder / "storage.yaml").write_text(yaml.safe_dump(limits))
    return open_project(project.configuration.folder, str(project.store.root))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_frames_gigabytes": 1e-6}, "allows `max_frames_gigabytes: 1e-06`"),
        ({"min_free_gigabytes": 1e9}, "keeps `min_free_gigabytes: 1e+09`"),
    ],
)
def test_frames_beyond_the_disk_budget_are_not_stored(
    write_project: WriteProject,
    instance: dg.DagsterInstance,
    limits: dict[str, float],
    message: str,
) -> None:
    few = {"few": EVALUATIONS["few"]}
    project = limited(write_project(few), **limits)
    stopped = refresh_project(project, instance, ["few"])
    reasons = [s.reason for s in stopped.not_fresh if s.name.startswith("videomme/frames")]
    stored = len(project.store.files("frames"))  # with those that were decoded at the same time
    assert len(reasons) == len(VIDEOS) - stored >= 1
    assert all(message in reason and "videomme cache gc" in reason for reason in reasons)
    unlimited = limited(write_project(few), min_free_gigabytes=0)
    assert refresh_project(unlimited, instance, ["few"]).not_fresh == []


@pytest.mark.slow
def test_the_cache_commands_list_and_remove_files(
    project: Project, write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, project.configuration.folder.parent)
    header, first, *_ = videomme("cache", "ls").out.splitlines()
    assert header.split("\t") == ["kind", "name", "videos", "files", "size", "used_by"]
    assert first.split("\t")[:3] == ["attempts", "blind", "3"]
    write_project(FEW)

    def shown(*options: str) -> set[str]:
        return {row["evaluation"] for row in videomme("scores", *options, "--json").json["scores"]}

    assert shown("videomme") == set(FEW), "the file of `more` is gone"
    assert shown("videomme", "--all") == set(ALL)
    age(project)
    planned = videomme("cache", "gc", "--forget", "more", "--dry-run")
    assert "Would forget more" in planned.err
    assert len(project.store.files("frames")) == 6
    assert "Freed " in videomme("cache", "gc", "--forget", "more").err
    assert len(project.store.files("frames")) == 3
    command = ("cache", "gc", "--sampling", "uniform_n-4")
    refused = videomme(*command, stdin="n\n")
    assert refused.status == 1
    assert "used by few, few-subtitles" in refused.err
    assert len(project.store.files("frames")) == 3
    assert videomme(*command, "--yes").status == 0
    assert project.store.files("frames") == []


def test_damaged_files_are_garbage_unless_they_are_results(project: Project) -> None:
    store = project.store
    scores = Path(stored_file(store, "scores", "videomme", "few").path)
    damaged = scores.with_name("few.parquet.corrupt")
    damaged.write_bytes(b"x")
    kept = store.observation("videomme", "few", "2026-11-20.parquet.corrupt").parent
    kept.mkdir(parents=True)
    (kept / "2026-11-20.parquet.corrupt").write_bytes(b"a result, which nothing can rebuild")
    garbage = DataFolder(project).garbage()
    assert {Path(item.path.path) for item in garbage} == {damaged}
    remove(garbage)
    assert not damaged.exists()
    assert DataFolder(project).garbage() == []
