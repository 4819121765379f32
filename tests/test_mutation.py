"""`make mutation`: the sample, the table, and a run over a small repository."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.mutation import (
    ROOMS,
    Room,
    RoomResult,
    changes_of,
    copy_of,
    drawn,
    table,
    tried_again,
    try_sample,
)
from tests.support.paths import ROOT

ADD = """
def add(a, b):
    return a + b


def unused(a):
    return a + 1
"""
TEST = (
    "from videomme_pipeline.room.add import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
)
ROOM = Room(code="videomme_pipeline/room", tests=("tests",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a link to the folder of its room, as `assets/` is."""
    root = tmp_path / "repository"
    for name, text in {
        "room/__init__.py": "",
        "room/add.py": ADD,
        "videomme_pipeline/__init__.py": "",
        "tests/test_add.py": TEST,
        "pyproject.toml": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "videomme_pipeline" / "room").symlink_to("../room")
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def test_every_room_and_its_tests_exist() -> None:
    for room in ROOMS.values():
        assert all((ROOT / path).exists() for path in (room.code, *room.tests))


def test_a_sample_depends_on_the_seed_only() -> None:
    changes = {f"change {n}": Path("a.py") for n in range(50)}
    sample = drawn(changes, 10, seed=1)
    assert len(set(sample)) == 10
    assert sample == drawn(dict(reversed(changes.items())), 10, seed=1)
    assert sample != drawn(changes, 10, seed=2)
    assert drawn(changes, 100, seed=1) == sorted(changes)


def test_the_table_counts_a_test_without_end_as_a_kill_and_lists_the_survivors() -> None:
    statuses = {"a": "killed", "b": "timeout", "c": "survived", "d": "no tests"}
    text = table([RoomResult(room="frames", changes=1_000, statuses=statuses)])
    assert "| `frames` | 1,000 | 4 | 2 (50%) | 1 |" in text
    assert text.splitlines()[-2:] == ["frames: c: survived", "frames: d: no tests"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_changes_are_tried_through_a_link(root: Path, tmp_path: Path) -> None:
    folder = copy_of(root, tmp_path / "copy", ROOM)
    changes = changes_of(folder, ROOM.code)
    assert {name.partition("__mutmut")[0] for name in changes} == {
        "videomme_pipeline.room.add.x_add",
        "videomme_pipeline.room.add.x_unused",
    }
    statuses = try_sample(folder, changes, sorted(changes), children=1)
    assert {name: "unused" in name for name in statuses} == {
        name: status == "no tests" for name, status in statuses.items()
    }
    assert "killed" in statuses.values()
    for name in changes:
        again = tried_again(folder, name, ROOM)
        assert again == statuses[name].replace("no tests", "survived")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_second_call_tries_survivors_and_changes_of_new_code(root: Path, tmp_path: Path) -> None:
    def statuses() -> set[str]:
        folder = copy_of(root, tmp_path / "copy", ROOM)
        changes = changes_of(folder, ROOM.code)
        tried = try_sample(folder, changes, sorted(changes), children=1)
        return {status for change, status in tried.items() if "x_add" in change}

    assert statuses() == {"killed"}
    (root / "tests" / "test_add.py").write_text(TEST.replace("== 3", "!= 2"))
    assert statuses() == {"killed"}, "a change that was killed is not tried again"
    (root / "room" / "add.py").write_text(ADD.replace("a + b", "b + a"))
    assert statuses() == {"survived"}
    (root / "tests" / "test_add.py").write_text(TEST)
    assert statuses() == {"killed"}
