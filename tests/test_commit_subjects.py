"""The check of commit subjects accepts `area: imperative summary` and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commit_subjects import MAX_CHARACTERS, problem
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    "subject",
    [
        "frames: seek to the wanted keyframe, not the one before",
        "models/endpoint: pass the key of a server",
        "cli: feed `read` from a pipe",
        "tests: address the server by name",
        "release: 1.0.0rc1",
    ],
)
def test_an_area_and_an_order_are_accepted(subject: str) -> None:
    assert problem(subject) is None


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("A turn in PostgreSQL ends", "write `area: imperative summary`"),
        ("wip", "write `area: imperative summary`"),
        ("frames: seek to the keyframe.", "without a period"),
        ("frames: the keyframe is found", "`the` is no imperative"),
        ("frames: fixes a seek", "`fixes` is no imperative"),
        ("frames: fixed a seek", "`fixed` is no imperative"),
        ("frames: fixing a seek", "`fixing` is no imperative"),
        ("frames: " + "seek " * 20 + "on", f"at most {MAX_CHARACTERS} fit"),
    ],
)
def test_other_subjects_are_refused_with_the_reason(subject: str, reason: str) -> None:
    assert reason in str(problem(subject))


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("frames: seek to the keyframe\n\nwith a body\n", 0),
        ("Merge branch 'main' into frames\n", 0),
        ("Frames are found\n", 1),
    ],
)
def test_the_hook_checks_the_message_in_a_file(message: str, status: int, tmp_path: Path) -> None:
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text(message)
    command = [sys.executable, "-m", "tests.support.commit_subjects", str(path)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == status
