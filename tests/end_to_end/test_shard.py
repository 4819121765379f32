"""Shards: several processes build the videos and frames of one evaluation without each other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import QuickCommand, run_quickly
from tests.support.projects import Copy, write_project_in
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.stages.shard import Shard
from videomme_pipeline.storage.layout import Store

SHARDS = 2
ONLY = ("run", "--only", "videos,frames")


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 10**12)), st.integers(1, 20))
def test_every_video_is_in_one_shard(sizes: dict[str, int], count: int) -> None:
    parts = [Shard(number, count).part_of(sizes) for number in range(1, count + 1)]
    assert sorted(video for part in parts for video in part) == sorted(sizes)


def test_shards_have_similar_sizes() -> None:
    sizes = {f"{number:03}": 100 + number for number in range(64)}
    loads = [sum(sizes[video] for video in Shard(n, 4).part_of(sizes)) for n in (1, 2, 3, 4)]
    assert max(loads) - min(loads) <= max(sizes.values())


@pytest.mark.parametrize("text", ["", "3", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "²/4"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected part/parts"):
        Shard.parse(text)


@pytest.mark.slow
def test_shards_together_build_what_one_run_builds(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    copy = Copy(tmp_path / "copy")
    for root in (whole, parts):
        write_project_in(root, copy)()
        (root / "home").mkdir()
    finished = run_quickly(whole, "run")
    assert finished.status == 0, finished.err

    shards = [
        QuickCommand(parts, *ONLY, "--shard", f"{number}/{SHARDS}")
        for number in range(1, SHARDS + 1)
    ]
    for shard in shards:
        finished = shard.finish()
        assert finished.status == 0, finished.err
        assert "Built " in finished.err
    store = Store.at(parts / "data")
    assert not store.journal.exists()
    assert not list((parts / "home").iterdir()), "Dagster was not opened"
    stored, expected = (
        {
            path.relative_to(root / "data"): path.read_bytes()
            for path in (root / "data" / "frames").rglob("*.parquet")
        }
        for root in (parts, whole)
    )
    assert stored == expected
    names, expected_names = (
        sorted(path.name for path in (root / "data" / "videomme" / "videos").rglob("*.parquet"))
        for root in (parts, whole)
    )
    assert names == expected_names

    finished = run_quickly(parts, "run")
    assert finished.status == 0, finished.err
    (built,) = (line for line in finished.err.splitlines() if line.startswith("Built "))
    assert "videomme/frames" not in built
    assert "videomme/videos" not in built


def test_a_shard_without_its_videos_says_how_to_get_them(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    write_project_in(tmp_path, copy)()
    copy.video("003").unlink()
    finished = run_quickly(tmp_path, *ONLY, "--shard", "1/2")
    assert finished.status == 1
    assert "1 of 3 videos are missing (003)" in finished.err
    assert "videomme run --only videos" in finished.err
    alone = run_quickly(tmp_path, *ONLY)
    assert alone.status == 1
    assert "Built " in alone.err
    assert "003" in alone.err


def test_a_benchmark_without_questions_does_not_stop_another(tmp_path: Path) -> None:
    write_project_in(tmp_path, Copy(tmp_path / "copy"))()
    with (tmp_path / "configuration" / "benchmarks.yaml").open("a") as file:
        file.write("lvbench: {accept_license: true, source: folder, folder: /nowhere}\n")
    other = "{benchmark: lvbench, model: constant-A, sampling: uniform_n-4}\n"
    (tmp_path / "configuration" / "evaluations" / "another.yaml").write_text(other)
    finished = run_quickly(tmp_path, *ONLY)
    assert finished.status == 1
    assert "lvbench/questions" in finished.err
    assert "6 videomme/frames" in finished.err


def test_other_stages_are_refused(tmp_path: Path) -> None:
    write_project_in(tmp_path, Copy(tmp_path / "copy"))()
    for options in (("--only", "scores"), ("--shard", "1/2")):
        finished = run_quickly(tmp_path, "run", *options)
        assert finished.status == 1
        assert "expected videos or frames" in finished.err
