"""The Dagster component in a new project of another team, written by `create-dagster`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EVALUATION = "benchmark: smoke\nmodel: longest-option\nsampling: uniform_n-8\n"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A new Dagster project with the component in its folder `defs`."""
    programs = Path(sys.executable).parent
    create = [str(programs / "create-dagster"), "project", "other", "--no-uv-sync"]
    subprocess.run(create, check=True, cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL)
    folder = tmp_path / "other/src/other/defs/videos"
    (folder / "assets/evaluations").mkdir(parents=True)
    (folder / "assets/benchmarks.yaml").write_text("smoke:\n  videos: ['002']\n")
    (folder / "assets/evaluations/longest.yaml").write_text(EVALUATION)
    (folder / "defs.yaml").write_text("type: videomme_pipeline.EvaluationComponent\n")
    return tmp_path / "other"


def dagster(project: Path, *arguments: str) -> str:
    """The output of `dg` in a project."""
    environment = os.environ | {
        "PYTHONPATH": f"{project / 'src'}:{ROOT}",
        "DAGSTER_HOME": str(project / "home"),
    }
    (project / "home").mkdir(exist_ok=True)
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("dg")), *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_another_project_loads_the_assets_and_builds_one(other: Path) -> None:
    dagster(other, "check", "defs")
    dagster(other, "launch", "--assets", 'key:"smoke/questions"')
    (questions,) = (other / "src/other/defs/videos/data/smoke/questions").glob("*.parquet")
    assert questions.stat().st_size > 0
