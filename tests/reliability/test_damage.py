"""Damaged files: whatever can be rebuilt is rebuilt, and nothing ends in a traceback.

The slow part damages each kind of stored file in each way. Its cases are the table in
`docs/reliability.md`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.support.cli import use, videomme
from tests.support.projects import ALL, EVALUATIONS, WriteProject
from tests.support.stored_files import shown_scores, stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows

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
    "questions": lambda store: stored_file(store, "questions", "videomme"),
    "video row": lambda store: stored_file(store, "videos", "videomme", video="002"),
    "packet index": lambda store: store.files("packets")[0],
    "frames": lambda store: store.files("frames")[0],
    "subtitles": lambda store: store.variant_files("subtitles")[0],
    "prompts": lambda store: stored_file(store, "prompts", "videomme", "few", "002"),
    "responses": lambda store: stored_file(store, "responses", "videomme", "few", "002"),
    "attempts": lambda store: stored_file(store, "attempts", "videomme", "few", "002"),
    "scores": lambda store: stored_file(store, "scores", "videomme", "few"),
}

OTHERS: dict[str, Callable[[Store], Any]] = {
    "hashes.sqlite": lambda store: store.hashes,
    "DuckDB file": lambda store: store.warehouse,
    "report page": lambda store: store.report(),
}


GROUPS = [
    ("questions", "packet index", "subtitles", "responses"),
    ("video row", "frames", "prompts", "scores"),
    ("attempts", *OTHERS),
]
"""Kinds whose files are damaged together. None is made directly from another one of its group."""


def file_of(store: Store, kind: str) -> Path:
    """The path of one stored file of a kind."""
    return Path(str((TABLES | OTHERS)[kind](store)))


@pytest.mark.slow
def test_a_run_rebuilds_tables_that_every_run_reads(
    project: Project, instance: dg.DagsterInstance, caplog: pytest.LogCaptureFixture
) -> None:
    store = project.store
    scores = read_rows(stored_file(store, "scores", "videomme", "few"), ScoredQuestion)
    names = []
    for kind, damage in {"questions": hole, "video row": half, "report page": half}.items():
        path = file_of(store, kind)
        names.append(path.name)
        damage(path)
    project = open_project(project.configuration.folder, str(store.root))
    refreshed = refresh_project(project, instance, ALL)
    assert refreshed.not_fresh == []
    assert set(refreshed.built) == {"videomme/questions", "videomme/videos", "report_page"}
    assert read_rows(stored_file(store, "scores", "videomme", "few"), ScoredQuestion) == scores
    for name in names:
        assert len([line for line in caplog.messages if f"/{name}: " in line]) == 1
    assert refresh_project(project, instance, ALL).run_id is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"]
)
def test_the_error_for_a_damaged_dagster_database_says_what_to_do(
    project: Project, root: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    use(monkeypatch, root)
    scores = shown_scores(project.store)
    half(root / "home" / file)
    stored_file(project.store, "scores", "videomme", "few").unlink()
    message = videomme("run").failed_with
    assert f"{root / 'home' / file}: damaged (" in message
    assert f"move {root / 'home'} away and run again" in message
    (root / "home").rename(root / "old-home")
    again = videomme("run")
    assert again.status == 0
    assert "Built " in again.err
    assert shown_scores(project.store) == scores


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kinds", GROUPS, ids=lambda kinds: kinds[0])
def test_every_damaged_file_is_rebuilt_without_asking_a_model(
    project: Project,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kinds: Sequence[str],
    damage: Damage,
) -> None:
    use(monkeypatch, root)
    store = project.store
    scores = shown_scores(store)
    paths = [file_of(store, kind) for kind in kinds]
    for path in paths:
        damage(path)
    status = videomme("status")
    assert status.status == 0
    run = videomme("run", "--verify")
    assert run.status == 0
    again = videomme("run")
    assert again.status == 0
    assert "Everything is fresh" in again.err
    assert shown_scores(store) == scores
    output = f"{status.err}{run.err}{caplog.text}"
    # The DuckDB file is only built again, and the log of the hashes may still contain them all.
    quiet = {file_of(store, "DuckDB file"), file_of(store, "hashes.sqlite")}
    assert damage is removed or all(path.name in output for path in paths if path not in quiet)


@pytest.mark.slow
def test_a_damaged_evaluation_does_not_stop_another(
    project: Project,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    write_project: WriteProject,
) -> None:
    use(monkeypatch, root)
    store = project.store
    for kind in ("scores", "responses", "prompts"):
        hole(file_of(store, kind))  # of the evaluation `few`
    changed = {**EVALUATIONS, "blind": {**EVALUATIONS["blind"], "repeats": 2}}
    write_project(changed)
    run = videomme("run", "blind")
    assert "1 videomme/scores" in run.err
    assert "report_page" in run.err
    assert videomme("run").status == 0
    assert "Everything is fresh" in videomme("run").err
