"""A small real project: made-up Video-MME in the published layout, baselines, real Dagster."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from assets.definitions import chain
from assets.instance import HOME_VARIABLE, POSTGRES_VARIABLE, open_instance
from assets.resources import Project, open_project
from assets.run import refresh_project
from assets.stages.base import BenchmarkStage
from tests.support.builders import write_video
from tests.support.postgres_server import find_postgres, running_postgres
from tests.support.published_data import parquet_bytes, v1_rows, youtube_ids

VIDEOS = ("002", "003", "004")
WITH_SUBTITLES = ("002", "003")
EVALUATIONS: Mapping[str, Mapping[str, Any]] = {
    "few": {"benchmark": "videomme", "model": "constant-A", "sampling": "uniform_n-4"},
    "few-subtitles": {
        "benchmark": "videomme",
        "model": "constant-B",
        "sampling": "uniform_n-4",
        "subtitles": "window-500",
    },
    "more": {"benchmark": "videomme", "model": "longest-option", "sampling": "uniform_n-8"},
    "blind": {"benchmark": "videomme", "model": "random"},
}
ALL = tuple(EVALUATIONS)

WriteProject = Callable[..., Project]


class Copy:
    """A user's own copy of the benchmark: 900 questions' worth of annotations, a few videos."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ids = youtube_ids(900)
        if folder.exists():
            return
        annotations = folder / "videomme" / "test-00000-of-00001.parquet"
        annotations.parent.mkdir(parents=True)
        annotations.write_bytes(parquet_bytes(v1_rows()))
        (folder / "data").mkdir()
        (folder / "subtitle").mkdir()
        for place, video_id in enumerate(VIDEOS):
            write_video(self.video(video_id), frames=30 + 10 * place, width=64, height=48)
        for video_id in WITH_SUBTITLES:
            self.subtitle(video_id).write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n")

    def video(self, video_id: str) -> Path:
        return self.folder / "data" / f"{self._ids[int(video_id) - 1]}.mp4"

    def subtitle(self, video_id: str) -> Path:
        return self.folder / "subtitle" / f"{self._ids[int(video_id) - 1]}.srt"


def write_project_in(root: Path, copy: Copy) -> WriteProject:
    """Write a configuration and open it over one data folder; call again to change it."""

    def write(
        evaluations: Mapping[str, Mapping[str, Any]] = EVALUATIONS, **benchmark: Any
    ) -> Project:
        folder = root / "configuration"
        (folder / "evaluations").mkdir(parents=True, exist_ok=True)
        for path in (folder / "evaluations").glob("*.yaml"):
            path.unlink()
        for name, value in evaluations.items():
            path = folder / "evaluations" / f"{name}.yaml"
            path.write_text(yaml.safe_dump(dict(value)))
        spec = {
            "accept_license": True,
            "source": "folder",
            "folder": str(copy.folder),
            "videos": list(VIDEOS),
        } | benchmark
        (folder / "benchmarks.yaml").write_text(yaml.safe_dump({"videomme": spec}))
        return open_project(folder, str(root / "data"))

    return write


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project of which everything is fresh; tests work on copies of it."""
    root = tmp_path_factory.mktemp("made")
    project = write_project_in(root, Copy(root / "copy"))()
    (root / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(root / "home")) as instance:
        assert refresh_project(project, instance, ALL).behind == []
    return root


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of one test: with everything fresh for a test that asks for `project`."""
    if "made_once" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("made_once"), tmp_path, dirs_exist_ok=True)
    else:
        (tmp_path / "home").mkdir()
    return tmp_path


@pytest.fixture
def copy(root: Path) -> Copy:
    return Copy(root / "copy")


@pytest.fixture
def write_project(root: Path, copy: Copy) -> WriteProject:
    return write_project_in(root, copy)


@pytest.fixture
def project(write_project: WriteProject, made_once: Path) -> Project:
    """A project of which everything is fresh."""
    return write_project()


@pytest.fixture
def instance(root: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(root / "home")) as held:
        yield held


needs_postgres = pytest.mark.skipif(find_postgres() is None, reason="no PostgreSQL server here")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, needs_postgres])]
)
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of an instance, over each storage that the project offers."""
    folder = tmp_path / "empty-home"
    monkeypatch.setenv(HOME_VARIABLE, str(folder))
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        monkeypatch.setenv(POSTGRES_VARIABLE, url)
        with open_instance() as held:  # its tests share one database
            held.wipe()
    return folder


def stage(project: Project, name: str) -> BenchmarkStage:
    """One stage of the chain of a project."""
    return next(s for s in chain(project.benchmarks["videomme"]) if s.name == name)
