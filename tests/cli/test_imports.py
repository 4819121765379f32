"""Commands import only the packages that they use, because imports take most of their time."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

import pytest
import yaml

from tests.support.model_server import ModelServer
from tests.support.paths import GOLDEN, ROOT
from tests.support.scored_rows import questions_of, v1_evaluation
from tests.support.stored_files import made_up_file, show_made_up, write_made_up
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store

RUN = """
import atexit, gc, sys
@atexit.register
def report():
    searches = sum(generation["collections"] for generation in gc.get_stats()[1:])
    print(f"searches {searches}, frozen {gc.get_freeze_count() > 100_000}", file=sys.stderr)
for package in sys.argv.pop(1).split():
    sys.modules[package] = None  # every import of it fails
from videomme_pipeline.cli.app import main
main()
"""
SLOW = (("compare", "one", "two"), ("cache", "ls"), ("cache", "gc", "--dry-run"), ("export", "one"))
WITHOUT_DAGSTER = (
    *(pytest.param(command, marks=pytest.mark.slow) for command in SLOW),
    ("score", str(GOLDEN / "scores" / "v1_responses.json"), "--judge", "small"),
)
PAIRED = ("gate", "compare")
"""Commands of two files."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command on a data folder with the scores of two evaluations."""
    store = Store.at(tmp_path / "data")
    for seed, name in enumerate(("one", "two")):
        rows = v1_evaluation(seed, evaluation=name)
        write_made_up(made_up_file(store, "scores", "videomme", name), rows, ScoredQuestion)
        show_made_up(store, "videomme", name)
    write_made_up(made_up_file(store, "questions", "videomme"), questions_of(rows), Question)
    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "benchmarks.yaml").write_text("smoke:\nvideomme:\n")
    evaluation = {"benchmark": "videomme", "model": "constant-A", "sampling": "uniform_n-4"}
    (folder / "evaluations").mkdir()
    for name in ("one", "two"):
        (folder / "evaluations" / f"{name}.yaml").write_text(yaml.safe_dump(evaluation))

    def run(
        *arguments: str, without: str, models: object = None
    ) -> subprocess.CompletedProcess[str]:
        (folder / "models.yaml").write_text(yaml.safe_dump(models or {}))
        folders = {
            "VIDEOMME_CONFIGURATION": str(folder),
            "VIDEOMME_DATA": str(tmp_path / "data"),
            "DAGSTER_HOME": str(tmp_path / "home"),
        }
        return subprocess.run(
            [sys.executable, "-c", RUN, without, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | folders,
        )

    return run


@pytest.mark.parametrize("command", WITHOUT_DAGSTER, ids=itemgetter(0))
def test_a_command_runs_without_dagster(run: Run, command: tuple[str, ...]) -> None:
    with ModelServer(answer=lambda _: "A") as server:
        ended = run(*command, without="dagster", models={"small": {"base_url": server.base_url}})
        assert ("--judge" in command) == (server.request_count > 0)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_two_files_are_scored_where_dagster_pyav_and_duckdb_are_not_installed(
    tmp_path: Path,
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.fullmatch(r"(av|_?duckdb|dagster\w*)([-.].*)?", path.name):
            (packages / path.name).symlink_to(path)
    file = str(GOLDEN / "scores" / "v1_responses.json")
    start = "from videomme_pipeline.cli.app import main; main()"
    statuses = {"score": 0, "audit": 1, "gate": 3, "compare": 0}
    for command, status in statuses.items():
        ended = subprocess.run(
            [sys.executable, "-S", "-c", start, command, file, *[file] * (command in PAIRED)],
            env={"PYTHONPATH": f"{packages}:{ROOT}", "PATH": ""},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stdout == "") == (status, False), ended.stderr


@pytest.mark.slow
def test_a_query_needs_no_package_that_builds_what_it_reads(run: Run) -> None:
    query = ("sql", "select count(*) from leaderboard")
    assert run(*query, without="dagster").returncode == 0
    ended = run(*query, without="altair dagster openai scipy.special sqlalchemy")
    assert ended.returncode == 0, ended.stderr


def test_help_needs_no_large_package(run: Run) -> None:
    ended = run("--help", without="dagster duckdb jinja2 numpy pyarrow pydantic")
    assert ended.returncode == 0, ended.stderr


def test_the_first_plan_needs_no_package_that_stores_draws_or_computes_scores(
    run: Run, tmp_path: Path
) -> None:
    definitions = "videomme_pipeline.assets.definitions"
    without = f"altair av duckdb {definitions} filelock jinja2 openai scipy sqlalchemy"
    ended = run("run", "--dry-run", without=without)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_a_plan_does_not_search_its_modules_for_garbage(run: Run) -> None:
    ended = run("status", without="altair")
    assert re.search(r"searches [012], frozen True$", ended.stderr.strip()), ended.stderr


@pytest.mark.parametrize("command", ["run", pytest.param("nightly", marks=pytest.mark.slow)])
def test_a_plan_is_announced_before_dagster_is_imported(run: Run, command: str) -> None:
    ended = run(command, without="dagster")
    assert ended.stderr.startswith("Planning…\n")
    needs_dagster = command != "status"
    assert ("dagster" in ended.stderr) == needs_dagster
