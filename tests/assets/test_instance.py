"""The instance: which dagster.yaml applies, and the first opening of a home."""

import sqlite3
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import pytest

from videomme_pipeline.assets.instance import open_instance, prepare_home
from videomme_pipeline.errors import ConfigurationError, StorageError
from videomme_pipeline.project.project import HOME_VARIABLE
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    return tmp_path / "home"


def test_a_changed_setting_takes_effect_and_a_file_of_ones_own_is_left_alone(home: Path) -> None:
    prepare_home()
    settings = home / "dagster.yaml"
    written = settings.read_text()
    settings.write_text(written.replace("max_concurrent_runs: 4", "max_concurrent_runs: 7"))
    prepare_home()
    assert settings.read_text() == written
    settings.write_text("# mine\ntelemetry:\n  enabled: false\n")
    prepare_home()
    assert settings.read_text().startswith("# mine")


def test_one_variable_selects_postgres(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql+psycopg2://me:secret@host/dagster")
    prepare_home()
    text = (home / "dagster.yaml").read_text()
    assert f"env: {POSTGRES_VARIABLE}" in text
    assert "secret" not in text
    monkeypatch.delenv(POSTGRES_VARIABLE)
    prepare_home()
    assert "postgres" not in (home / "dagster.yaml").read_text()
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://host/dagster")
    with pytest.raises(ConfigurationError, match=r"use postgresql\+psycopg2://"):
        prepare_home()


def _count_runs(together: Barrier) -> int:
    together.wait()
    with open_instance() as instance:
        return instance.get_runs_count()


@pytest.mark.slow
def test_processes_that_open_a_new_home_at_the_same_time_do_not_break_it(home: Path) -> None:
    processes = get_context("forkserver")
    processes.set_forkserver_preload(["videomme_pipeline.assets.instance"])
    with processes.Manager() as manager, ProcessPoolExecutor(4, processes) as pool:
        together = manager.Barrier(4)
        assert list(pool.map(_count_runs, [together] * 4)) == [0, 0, 0, 0]


def test_a_home_that_dagster_rejects_is_an_error_that_says_what_to_do(home: Path) -> None:
    with open_instance():
        pass
    with closing(sqlite3.connect(home / "history" / "runs.db")) as runs:
        runs.execute("insert into alembic_version values ('5771160a95ad')")
        runs.commit()
    with pytest.raises(ConfigurationError, match="move this folder away"), open_instance():
        pass


def test_a_home_with_a_damaged_database_is_an_error_that_says_what_is_lost(home: Path) -> None:
    with open_instance() as instance:
        instance.get_runs_count()
    runs = home / "history" / "runs.db"
    if not runs.exists():
        pytest.skip("the runs are in PostgreSQL")
    runs.write_bytes(b"not a database" * 1000)
    with (
        pytest.raises(StorageError, match="only the history of runs is lost"),
        open_instance() as instance,
    ):
        instance.get_runs_count()


@pytest.mark.parametrize("name", ["a?b", "a%20b"])
def test_a_home_with_a_path_that_dagster_cannot_use_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / name))
    with pytest.raises(ConfigurationError, match="set DAGSTER_HOME to another"), open_instance():
        pass
    assert list(tmp_path.iterdir()) == []
