"""Damaged files: whatever can be rebuilt is rebuilt, and nothing ends in a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.run import refresh_project
from tests.support.projects import ALL
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.store import Store, read_rows

Damage = Callable[[Path], None]


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def hole(path: Path) -> None:
    """Replace the middle half with zeros."""
    data = path.read_bytes()
    quarter = len(data) // 4
    path.write_bytes(data[:quarter] + bytes(2 * quarter) + data[3 * quarter :])


def removed(path: Path) -> None:
    path.unlink()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def unreadable(path: Path) -> None:
    """Replace the file with a link to itself, which even root cannot read."""
    path.unlink()
    path.symlink_to(path.name)


DAMAGES = (half, hole, removed, folder, unreadable)
TABLES: dict[str, Callable[[Store], Any]] = {
    "questions": lambda store: store.questions("videomme"),
    "video row": lambda store: store.video("videomme", "002"),
    "packet index": lambda store: store.packet_files()[0],
    "frames": lambda store: store.frame_files()[0],
    "subtitles": lambda store: store.variant_files("subtitles")[0],
    "prompts": lambda store: store.prompts("videomme", "few", "002"),
    "responses": lambda store: store.responses("videomme", "few", "002"),
    "attempts": lambda store: store.attempts("videomme", "few", "002"),
    "scores": lambda store: store.scores("videomme", "few"),
}

OTHERS: dict[str, Callable[[Store], Any]] = {
    "hashes.sqlite": lambda store: store.hashes,
    "DuckDB file": lambda store: store.warehouse,
    "report page": lambda store: store.report(),
}


def file_of(store: Store, kind: str) -> Path:
    """The path of one stored file of a kind."""
    return Path(str((TABLES | OTHERS)[kind](store)))


def test_a_run_rebuilds_what_every_run_reads(
    project: Project, instance: dg.DagsterInstance, caplog: pytest.LogCaptureFixture
) -> None:
    store = project.store
    scores = read_rows(store.scores("videomme", "few"), ScoredQuestion)
    for kind, damage in {"questions": hole, "video row": half, "report page": half}.items():
        damage(file_of(store, kind))
    project = open_project(project.configuration.folder, str(store.root))
    refreshed = refresh_project(project, instance, ALL)
    assert refreshed.not_fresh == []
    assert set(refreshed.built) == {"videomme/questions", "videomme/videos", "report_page"}
    assert read_rows(store.scores("videomme", "few"), ScoredQuestion) == scores
    for file in ("questions.parquet", "002.parquet", "index.html"):
        assert len([line for line in caplog.messages if f"/{file}: " in line]) == 1
    assert refresh_project(project, instance, ALL).run_id is None
