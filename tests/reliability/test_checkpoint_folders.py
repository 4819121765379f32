"""Odd folders among the checkpoints of one training run: the others are still evaluated."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from upath import UPath

from tests.support.training_runs import (
    look_twice,
    open_with_runs,
    write_checkpoint_folder,
    write_templates,
)
from videomme_pipeline.project import checkpoints
from videomme_pipeline.scoring.verdicts import read_checkpoints


def _incomplete(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).mkdir()


def _complete(name: str | bytes) -> Callable[[Path], None]:
    return lambda run: write_checkpoint_folder(run / os.fsdecode(name))


def _link_to_root(run: Path) -> None:
    (run / "checkpoint-30").symlink_to("/")


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "temporary": (_incomplete("checkpoint-20.tmp"), "has the same training step 20"),
    "copy": (_incomplete("checkpoint-20 (copy)"), ""),
    "zeros": (_incomplete("checkpoint-020"), "has the same training step 20"),
    "20 digits": (_complete(f"checkpoint-{'1' * 20}"), "more than 18 digits"),
    "no UTF-8": (_complete(b"checkpoint-\xff-30"), "\\udcff-30 is left out"),
    "link": (_link_to_root, "is a link to a folder elsewhere"),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_folder_is_left_out_with_one_sentence(tmp_path: Path, odd: str) -> None:
    write, sentence = ODD[odd]
    write_templates(tmp_path / "configuration")
    entries = {}
    for name in ("odd", "other"):
        write_checkpoint_folder(tmp_path / name / "checkpoint-20")
        entries[name] = {"pattern": f"{tmp_path}/{name}/checkpoint-*", "template": "short"}
    write(tmp_path / "odd")
    project = open_with_runs(tmp_path / "configuration", **entries)
    look = look_twice(project)
    assert {row.run for row in read_checkpoints(project.store)} == {"odd", "other"}
    assert {row.step for row in read_checkpoints(project.store)} == {20}
    if sentence:
        (problem,) = look.problems
        assert sentence in problem
        problem.encode()


def test_of_two_complete_folders_with_one_step_none_counts_until_step_names_one(
    tmp_path: Path,
) -> None:
    write_templates(tmp_path / "configuration")
    for name in ("checkpoint-20", "checkpoint-20.bak"):
        write_checkpoint_folder(tmp_path / "run" / name)
    entry = {"pattern": f"{tmp_path}/run/*", "template": "short"}
    project = open_with_runs(tmp_path / "configuration", run=entry)
    (problem,) = look_twice(project).problems
    assert "checkpoint-20.bak are left out: they have the same training step 20" in problem
    assert not read_checkpoints(project.store)
    named = {**entry, "step": "checkpoint-{step}"}
    project = open_with_runs(tmp_path / "configuration", run=named)
    assert not look_twice(project).problems
    assert [row.folder for row in read_checkpoints(project.store)] == [
        str(tmp_path / "run" / "checkpoint-20")
    ]


@pytest.mark.parametrize("key", ["pattern", "complete"])
@pytest.mark.parametrize("value", ["", "/"])
def test_a_pattern_of_nothing_leaves_out_only_its_training_run(
    tmp_path: Path, key: str, value: str
) -> None:
    write_templates(tmp_path / "configuration")
    write_checkpoint_folder(tmp_path / "run" / "checkpoint-20")
    good = {"pattern": f"{tmp_path}/run/checkpoint-*", "template": "short"}
    runs = {"bad": {**good, key: value}, "good": good}
    project = open_with_runs(tmp_path / "configuration", **runs)
    (problem,) = look_twice(project).problems
    assert "training run bad is left out: checkpoints.yaml: " in problem
    assert [row.run for row in read_checkpoints(project.store)] == ["good"]


def test_names_of_files_may_be_any_bytes(tmp_path: Path) -> None:
    write_templates(tmp_path / "configuration")
    folder = tmp_path / "run" / "checkpoint-20"
    write_checkpoint_folder(folder)
    (folder / os.fsdecode(b"weights\xff")).touch()
    entry = {"pattern": f"{tmp_path}/run/checkpoint-*", "template": "short"}
    project = open_with_runs(tmp_path / "configuration", run=entry)
    assert not look_twice(project).problems
    assert len(read_checkpoints(project.store)) == 1


def test_a_look_lists_only_the_files_of_complete_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes of this machine are folders with numbers and many files."""
    write_templates(tmp_path / "configuration")
    listed = list[UPath]()
    monkeypatch.setattr(checkpoints, "list_objects", listed.append)
    entry = {"pattern": "/proc/*", "template": "short"}
    look_twice(open_with_runs(tmp_path / "configuration", run=entry))
    assert listed == []
