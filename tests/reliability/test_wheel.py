"""The packages as users get them: installed outside of the checkout, in a new environment."""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import httpx2
import pytest

from tests.support.dagster_ui import DagsterUI
from tests.support.paths import ROOT
from tests.support.ports import free_port

PROJECT = {
    ".gitignore",
    "workspace.yaml",
    *(
        f"assets/{name}.yaml"
        for name in (
            "benchmarks",
            "checkpoints",
            "cluster",
            "models",
            "nightly",
            "runs",
            "samplings",
            "storage",
            "evaluations/first",
        )
    ),
}


def build(source: Path, folder: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *targets]
    subprocess.run(command, check=True, cwd=source, capture_output=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel of the working tree, and that of its source distribution."""
    folder = tmp_path_factory.mktemp("packages")
    build(ROOT, folder / "tree")
    (source,) = (folder / "tree").glob("*.tar.gz")
    shutil.unpack_archive(source, folder)
    build(folder / source.name.removesuffix(".tar.gz"), folder / "sdist", "-t", "wheel")
    (tree,) = (folder / "tree").glob("*.whl")
    (sdist,) = (folder / "sdist").glob("*.whl")
    return tree, sdist


@pytest.fixture(scope="module")
def programs(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment with the wheel, which reads its dependencies from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install"]
    subprocess.run([*install, "--no-deps", "--quiet", str(wheels[1])], check=True)
    return folder / "bin"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.terminate()
        process.wait()


def environment_of(programs: Path) -> dict[str, str]:
    """The environment of a user without a checkout."""
    ours = ("VIDEOMME_", "PYTHON", "DAGSTER_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"PATH": f"{programs}:{os.environ['PATH']}"}


def run(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs / "videomme", *arguments],
        cwd=folder,
        env=environment_of(programs),
        capture_output=True,
        text=True,
        check=False,
    )


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_wheel_and_that_of_the_source_distribution_have_the_same_files(
    wheels: tuple[Path, Path],
) -> None:
    tree, sdist = (ZipFile(path) for path in wheels)
    names = [name for name in tree.namelist() if not name.endswith("RECORD")]
    assert {name: tree.read(name) for name in names} == {name: sdist.read(name) for name in names}
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {
        "videomme_pipeline"
    }
    assert "videomme_pipeline/assets/definitions.py" in names
    assert not [name for name in names if "offline" in name]


@pytest.mark.slow
def test_an_empty_folder_becomes_a_project_that_runs(programs: Path, tmp_path: Path) -> None:
    assert "videomme init" in run(programs, tmp_path, "status").stderr
    assert run(programs, tmp_path, "init").returncode == 0
    assert files_in(tmp_path) == PROJECT
    assert not {"failed", "Error"} & set(run(programs, tmp_path, "doctor").stdout.split())

    finished = run(programs, tmp_path, "run")
    assert finished.returncode == 0, finished.stderr
    assert "\tfirst\t9 of 72\t" in finished.stdout
    assert finished.stderr.splitlines()[-1].startswith("Dagster UI   videomme ui")
    assert "Everything is fresh" in run(programs, tmp_path, "run").stderr


@pytest.mark.slow
def test_the_ui_of_a_new_project_loads_its_definitions(
    programs: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    run(programs, tmp_path, "init")
    port = free_port()
    command = [str(programs / "videomme"), "ui", "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment_of(programs))
    started.append(process)
    ui = DagsterUI(f"http://127.0.0.1:{port}", process)
    while not ui.is_up():
        assert process.poll() is None
        time.sleep(0.2)
    query = "{repositoriesOrError {... on RepositoryConnection {nodes {location {name}}}}}"
    url = f"http://127.0.0.1:{port}/graphql"
    assert '"name":"videomme"' in httpx2.post(url, json={"query": query}, timeout=300).text


@pytest.mark.slow
def test_a_second_init_adds_what_is_missing_and_changes_no_file(
    programs: Path, tmp_path: Path
) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    (tmp_path / "notes.txt").write_text("mine\n")
    run(programs, tmp_path, "init")
    models = tmp_path / "assets/models.yaml"
    models.write_text("mine:\n  base_url: http://localhost:8000/v1\n")
    (tmp_path / "assets/runs.yaml").unlink()
    finished = run(programs, tmp_path, "init", "--demo")
    assert finished.returncode == 0
    assert "Wrote assets/runs.yaml" in finished.stderr
    assert "Wrote assets/models.yaml" not in finished.stderr
    assert models.read_text().startswith("mine:")
    assert {(tmp_path / name).read_text() for name in (".gitignore", "notes.txt")} == {"mine\n"}
    assert "assets/evaluations/smoke-embedded.yaml" in files_in(tmp_path)


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_named(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "assets").write_text("a file where the folder should be")
    finished = run(programs, tmp_path, "init")
    assert finished.returncode == 1
    assert finished.stderr.startswith("Error: ")
    assert "assets" in finished.stderr


@pytest.mark.slow
def test_the_workspace_of_a_new_project_is_that_of_the_repository(
    programs: Path, tmp_path: Path
) -> None:
    run(programs, tmp_path, "init")
    assert (tmp_path / "workspace.yaml").read_text() == (ROOT / "workspace.yaml").read_text()
