"""A small real project: made-up Video-MME in the published layout, baselines, real Dagster.

Contains builders, and fixtures that a `conftest.py` imports by name.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.postgres_server import drop_journal, find_postgres, running_postgres
from tests.support.published_data import parquet_bytes, v1_rows, youtube_ids
from tests.support.shared_files import build_once, session_folder
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import HOME_VARIABLE, Project, open_project
from videomme_pipeline.responses.estimate import CostEstimate
from videomme_pipeline.stages.chain import chain
from videomme_pipeline.stages.plan import plan_project
from videomme_pipeline.stages.refresh import estimate_costs
from videomme_pipeline.stages.stage import BenchmarkStage
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

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
EVERYTHING = {
    "videomme/questions": 1,
    "videomme/videos": 3,
    "videomme/frames": 6,
    "videomme/subtitles": 3,
    "videomme/prompts": 12,
    "videomme/responses": 12,
    "videomme/scores": 4,
    "warehouse": 1,
    "report_page": 1,
}
"""Number of partitions of each asset of the built project."""
SERVED: Mapping[str, Any] = {
    "benchmark": "videomme",
    "model": "served",
    "sampling": "uniform_n-4",
}

WriteProject = Callable[..., Project]
WriteServed = Callable[..., Project]


class Copy:
    """A user's own copy of the benchmark: annotations of 900 videos, three of which exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ids = youtube_ids(900)
        if folder.exists():
            return
        self.annotations.parent.mkdir(parents=True)
        self.annotations.write_bytes(parquet_bytes(v1_rows()))
        (folder / "data").mkdir()
        (folder / "subtitle").mkdir()
        for number, video_id in enumerate(VIDEOS):
            write_video(self.video(video_id), frames=30 + 10 * number, width=64, height=48)
        for video_id in WITH_SUBTITLES:
            self.subtitle(video_id).write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n")

    @property
    def annotations(self) -> Path:
        return self.folder / "videomme" / "test-00000-of-00001.parquet"

    def youtube_id(self, video_id: str) -> str:
        return self._ids[int(video_id) - 1]

    def video(self, video_id: str) -> Path:
        return self.folder / "data" / f"{self.youtube_id(video_id)}.mp4"

    def subtitle(self, video_id: str) -> Path:
        return self.folder / "subtitle" / f"{self.youtube_id(video_id)}.srt"


def write_project_in(root: Path, copy: Copy) -> WriteProject:
    """Return a function that writes a configuration and opens it. Another call changes it."""

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
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a completely fresh project, built once per test run. Tests use copies of it."""
    return build_once(session_folder(tmp_path_factory, "projects") / "built", _build_project)


def _build_project(root: Path) -> None:
    project = write_project_in(root, Copy(root / "copy"))()
    (root / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(root / "home")) as instance:
        assert refresh_project(project, instance, ALL).not_fresh == []


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Folder of one test. It contains a fresh project if the test uses `project`."""
    if "built_once" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("built_once"), tmp_path, dirs_exist_ok=True)
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
def project(write_project: WriteProject, built_once: Path) -> Project:
    """A project in which everything is fresh."""
    return write_project()


@pytest.fixture
def instance(root: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(root / "home")) as instance:
        yield instance


needs_postgres = pytest.mark.skipif(find_postgres() is None, reason="no PostgreSQL server here")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, needs_postgres])]
)
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty home folder of a Dagster instance, once per supported storage."""
    folder = tmp_path / "empty-home"
    monkeypatch.setenv(HOME_VARIABLE, str(folder))
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        monkeypatch.setenv(POSTGRES_VARIABLE, url)
        with open_instance() as instance:  # tests share one database
            instance.wipe()
        drop_journal(url)
    return folder


def expected_costs(project: Project, evaluations: Sequence[str]) -> list[CostEstimate]:
    """The estimated costs of a run of `evaluations`."""
    return estimate_costs(plan_project(project, evaluations))


def stage(project: Project, name: str) -> BenchmarkStage:
    """Stage `name` of the project."""
    return next(s for s in chain(project, "videomme") if s.name == name)


@pytest.fixture
def write_served(root: Path, write_project: WriteProject) -> WriteServed:
    """Return a function that writes and opens a project whose model `served` has a base URL."""

    def write_served(
        base_url: str,
        evaluations: Mapping[str, Mapping[str, Any]] = {"served": SERVED},
        videos: Sequence[str] = ("002",),
        **model: Any,
    ) -> Project:
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        models = {"served": {"base_url": base_url} | model}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        return write_project(evaluations, videos=list(videos))

    return write_served
