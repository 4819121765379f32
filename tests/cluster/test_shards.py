"""The files of `deploy/` that split videos over processes, run as by their engines."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.commands import VIDEOMME, environment_of
from tests.support.paths import ROOT
from tests.support.projects import Copy, write_project_in
from tests.support.slurm import CAN_RUN, slurm

SHARDS = 2
FRAME_SETS = 6

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of three videos, and a folder with the command `videomme`."""
    root = tmp_path / "a project"
    write_project_in(root, Copy(tmp_path / "copy"))()
    (root / "bin").mkdir()
    (root / "bin" / "videomme").symlink_to(VIDEOMME)
    return root


def variables(root: Path) -> dict[str, str]:
    path = os.pathsep.join((str(root / "bin"), os.environ["PATH"]))
    return {**os.environ, **environment_of(root), "PATH": path}


def assert_all_frames(root: Path, output: str) -> None:
    assert len(list((root / "data" / "frames").rglob("*.parquet"))) == FRAME_SETS, output
    for number in range(1, SHARDS + 1):
        assert f"Videos of shard {number}/{SHARDS}: " in output


def test_the_pods_of_the_indexed_job_build_all_frames(root: Path) -> None:
    job = yaml.safe_load((ROOT / "deploy" / "frames-job.yaml").read_text(encoding="utf-8"))["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (line,) = container["args"]
    assert f'/{job["completions"]}"' in line
    line = line.replace(f'/{job["completions"]}"', f'/{SHARDS}"').replace("my-evaluation", "")
    output = ""
    for index in range(SHARDS):
        finished = subprocess.run(
            [*container["command"], line],
            cwd=root,
            env=variables(root) | {"JOB_COMPLETION_INDEX": str(index)},
            capture_output=True,
            text=True,
            check=False,
        )
        output += finished.stderr
        assert finished.returncode == 0, output
    assert_all_frames(root, output)


@pytest.mark.skipif(shutil.which("parallel") is None, reason="needs GNU parallel")
def test_processes_of_gnu_parallel_build_all_frames(root: Path) -> None:
    line = f"seq {SHARDS} | parallel videomme run --only videos,frames --shard {{}}/{SHARDS}"
    finished = subprocess.run(
        ["sh", "-c", line],
        cwd=root,
        env=variables(root),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert_all_frames(root, finished.stderr)


@pytest.mark.cluster
@pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root")
def test_the_tasks_of_a_slurm_array_build_all_frames(root: Path, tmp_path: Path) -> None:
    script = root / "frames.sbatch"
    shutil.copy(ROOT / "deploy" / "frames.sbatch", script)
    (tmp_path / "slurm").mkdir()
    with slurm(tmp_path / "slurm") as environment:
        array = ["--array", f"1-{SHARDS}", "--output", "log-%a.txt", "--wait"]
        finished = subprocess.run(
            ["sbatch", *array, str(script)],
            cwd=root,
            env=variables(root) | environment | {"PATH": variables(root)["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
    output = "".join(path.read_text() for path in root.glob("log-*.txt"))
    assert finished.returncode == 0, finished.stderr + output
    assert_all_frames(root, output)
