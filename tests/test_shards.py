"""Shards of the tests: together they are all tests, and they take about the same time."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import ROOT
from tests.support.shards import distribute, mixed, parse, recorded

NAMES = st.sets(st.text("abc", min_size=1), max_size=20)


@given(NAMES, st.dictionaries(st.text("abc", min_size=1), st.floats(0.1, 900)), st.integers(1, 6))
def test_every_file_is_in_exactly_one_shard(
    files: set[str], seconds: dict[str, float], count: int
) -> None:
    shards = distribute(files, seconds, count)
    assert sorted(file for shard in shards for file in shard) == sorted(files)
    assert shards == distribute(sorted(files, reverse=True), seconds, count)
    assert all(sorted(mixed(shard, seconds)) == sorted(shard) for shard in shards)


def test_the_longest_files_are_in_different_shards() -> None:
    seconds = {"a": 100.0, "b": 90.0, "c": 80.0, "d": 30.0, "e": 20.0, "f": 10.0}
    shards = distribute(seconds, seconds, 3)
    assert shards == [["a", "f"], ["b", "e"], ["c", "d"]]


def test_long_files_take_turns_with_shorter_ones() -> None:
    seconds = {"a": 100.0, "b": 90.0, "c": 80.0, "d": 70.0, "e": 60.0, "f": 50.0}
    assert mixed([*seconds], seconds) == ["a", "c", "d", "b", "e", "f"]


@pytest.mark.parametrize("slow", [True, False])
def test_recorded_seconds_are_those_of_files_that_exist(slow: bool) -> None:
    assert [file for file in recorded(slow=slow) if not (ROOT / file).is_file()] == []


def collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    folder = str(Path("tests") / "storage")
    ended = subprocess.run(
        [*command, *options, folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {line for line in ended.stdout.splitlines() if "::" in line}


@pytest.mark.slow
def test_two_shards_are_all_tests() -> None:
    first, second = (collected("--shard", shard) for shard in ("1/2", "2/2"))
    assert first
    assert second
    assert not first & second
    assert first | second == collected()


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1", "one/4"])
def test_a_shard_that_does_not_exist_is_an_error(shard: str) -> None:
    with pytest.raises(pytest.UsageError, match="write 1/4 for the first of four parts"):
        parse(shard)


@pytest.mark.slow
def test_a_shard_that_does_not_exist_ends_the_command() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        collected("--shard", "0/4")
    assert "write 1/4 for the first of four parts" in failed.value.stderr


def test_the_everyday_run_ends_with_the_last_slow_runs(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    runs = [f"2026-11-2{day} shard {day}/4 passed at 0a1b2c{day}" for day in range(1, 7)]
    (tmp_path / ".ci" / "slow-runs").write_text("\n".join(runs) + "\n")
    for name, program in {"make": "echo a test failed; exit 2", "chromium": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    ended = subprocess.run(
        [tmp_path / ".ci" / "run"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout.splitlines()[-4:] == runs[-4:]
