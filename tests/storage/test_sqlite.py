"""The SQLite files of a project: any number of processes may create one at the same time."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.storage.sqlite import open_database, use_write_ahead_log

OPENED_AT_ONCE = 8


def test_a_new_file_can_be_opened_many_times_at_once(tmp_path: Path) -> None:
    together = Barrier(OPENED_AT_ONCE)

    def open_together(path: Path) -> tuple[str]:
        together.wait(timeout=60)
        with closing(sqlite3.connect(path)) as connection:
            use_write_ahead_log(connection, timeout_seconds=60)
            mode: tuple[str] = connection.execute("pragma journal_mode").fetchone()
            return mode

    with ThreadPoolExecutor(OPENED_AT_ONCE) as threads:
        for number in range(50):
            paths = [tmp_path / f"{number}.sqlite"] * OPENED_AT_ONCE
            assert set(threads.map(open_together, paths)) == {("wal",)}


def test_a_file_that_stays_locked_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as blocker,
        closing(sqlite3.connect(path, timeout=0)) as connection,
    ):
        blocker.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_write_ahead_log(connection, timeout_seconds=0.05)
        blocker.execute("rollback")
        use_write_ahead_log(connection, timeout_seconds=0.05)
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)


def test_a_new_file_and_its_log_have_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        Journal(tmp_path / "journal.sqlite").close()
        connection = open_database(
            tmp_path / "a.sqlite",
            lambda new: new.execute("create table if not exists t (x)").close(),
            timeout_seconds=1,
            synchronous="normal",
        )
        with closing(connection):
            files = list(tmp_path.iterdir())
            assert {path.suffix for path in files} >= {".sqlite", ".sqlite-wal", ".sqlite-shm"}
            assert {path.stat().st_mode & 0o777 for path in files} == {0o664}
    finally:
        os.umask(before)
