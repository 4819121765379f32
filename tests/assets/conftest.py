"""A small real project: a few smoke videos, baselines and an ephemeral Dagster instance."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from assets.resources import Project, open_project

SHORT_VIDEOS = ("002", "004", "009")
EVALUATIONS: Mapping[str, Mapping[str, Any]] = {
    "few": {"benchmark": "smoke", "model": "constant-A", "sampling": "uniform_n-4"},
    "few-subtitles": {
        "benchmark": "smoke",
        "model": "constant-B",
        "sampling": "uniform_n-4",
        "subtitles": "window-500",
    },
    "more": {"benchmark": "smoke", "model": "longest-option", "sampling": "uniform_n-8"},
    "blind": {"benchmark": "smoke", "model": "random"},
}

WriteProject = Callable[..., Project]


def write_configuration(
    folder: Path,
    evaluations: Mapping[str, Mapping[str, Any]] = EVALUATIONS,
    benchmarks: Mapping[str, Any] | None = None,
) -> Path:
    """A configuration folder with these files; what was there before is replaced."""
    (folder / "evaluations").mkdir(parents=True, exist_ok=True)
    for path in (folder / "evaluations").glob("*.yaml"):
        path.unlink()
    for name, value in evaluations.items():
        (folder / "evaluations" / f"{name}.yaml").write_text(yaml.safe_dump(dict(value)))
    benchmarks = benchmarks or {"smoke": {"videos": list(SHORT_VIDEOS)}}
    (folder / "benchmarks.yaml").write_text(yaml.safe_dump(dict(benchmarks)))
    return folder


@pytest.fixture
def write_project(tmp_path: Path, shared_media: Path) -> WriteProject:
    """Write a configuration and open it over one data folder; call again to change it."""

    def write(**changes: Any) -> Project:
        data = tmp_path / "data"
        media = data / "smoke" / "media"
        if not media.exists():
            media.mkdir(parents=True)
            for file in shared_media.iterdir():
                (media / file.name).hardlink_to(file)
        folder = write_configuration(tmp_path / "configuration", **changes)
        return open_project(folder, str(data))

    return write


@pytest.fixture(scope="session")
def shared_media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke videos of these tests, drawn once a session."""
    from videomme_pipeline.annotations import smoke  # noqa: PLC0415 - loads libav, for those who draw

    folder = tmp_path_factory.mktemp("media")
    for video_id in SHORT_VIDEOS:
        smoke.make_video(video_id, folder)
    return folder


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as held:
        yield held
