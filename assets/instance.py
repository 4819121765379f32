"""The Dagster instance: storage of runs and events, shared by the UI and the command line.

The default is SQLite in `.dagster/`. DAGSTER_HOME sets another home, and VIDEOMME_POSTGRES_URL a
PostgreSQL database. A dagster.yaml that a user wrote in the home is used unchanged.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import dagster as dg
from filelock import FileLock
from upath import UPath

from videomme_pipeline.errors import ConfigurationError, Finding, StorageError
from videomme_pipeline.project.project import HOME_VARIABLE, dagster_home
from videomme_pipeline.storage import postgres
from videomme_pipeline.storage.postgres import POSTGRES_SCHEME, POSTGRES_VARIABLE
from videomme_pipeline.storage.publish import publish, writing
from videomme_pipeline.storage.sqlite import SQLITE_ERRORS, is_damage, refuse_network_disk

Instance: TypeAlias = dg.DagsterInstance

SETTINGS_FILE = "dagster.yaml"
_SETTINGS = Path(__file__).with_name(SETTINGS_FILE)
_OURS = "# The Dagster instance of this project"
"""The start of a dagster.yaml that this module wrote and may overwrite."""


def prepare_home() -> Path:
    """Create or update the home of the instance, and set DAGSTER_HOME for child processes.

    Raises ConfigurationError if PostgreSQL is configured in a way that cannot work.
    """
    home = _home_folder()
    settings = home / SETTINGS_FILE
    current = _SETTINGS.read_text(encoding="utf-8") + _postgres_settings()
    stored = settings.read_text(encoding="utf-8") if settings.exists() else _OURS
    if stored.startswith(_OURS) and stored != current:
        publish(UPath(settings), current.encode())
    os.environ[HOME_VARIABLE] = str(home)
    return home


@contextmanager
def open_instance() -> Iterator[dg.DagsterInstance]:
    """Open the instance for a block.

    Only one process at a time opens a home or a PostgreSQL database: two processes that create its
    tables at the same time can fail, or leave a schema version that Dagster always rejects. The UI
    and its daemon open a home only after `videomme ui` has opened it here.

    Raises ConfigurationError, which says what to do, if the home cannot be used, and StorageError
    if a database cannot be read or written, even in the block, or is on a network file system.
    """
    # Importing them takes more than a second, and the plan of a new project needs neither.
    from alembic.util import CommandError  # noqa: PLC0415
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    home, url = _home_folder(), os.environ.get(POSTGRES_VARIABLE)
    if not url:
        refuse_network_disk(home, f"set {HOME_VARIABLE} or {POSTGRES_VARIABLE}")
    try:
        with _opening(home):
            prepare_home()
            if url:
                from dagster_postgres import utils  # noqa: PLC0415 - an extra

                # Dagster gives up after some seconds. Let it wait for a minute, like the journal.
                utils.retry_pg_connection_fn = lambda connect, **_: postgres.await_connection(
                    connect, DBAPIError
                )
            with postgres.turn(url) if url else nullcontext():
                instance = dg.DagsterInstance.from_config(str(home))
        with instance:
            instance.has_asset_key(dg.AssetKey("warehouse"))  # finds a damaged index before a run
            yield instance
    except CommandError as error:
        raise ConfigurationError(
            f"{home}: Dagster cannot open this home ({error}); move this folder away and run "
            "again; only the history of runs is lost, because data and answers are stored elsewhere"
        ) from error
    except (DBAPIError, sqlite3.Error) as error:
        cause = getattr(error, "orig", error)
        raise (
            postgres.unusable(url, cause) if url else StorageError(_what_failed(home, cause))
        ) from error


def _what_failed(home: Path, cause: Exception) -> str:
    """The error message for SQLite files that are damaged, or cannot be read or written."""
    damaged = [str(file) for file in sorted(home.rglob("*.db")) if _is_damaged(file)]
    if not damaged:
        return (
            f"{home}: Dagster's database failed ({cause}); free some space or check the disk, then "
            "run again: everything that is already stored is kept"
        )
    return (
        f"{', '.join(damaged)}: damaged ({cause}). Dagster stores the history of runs there. "
        f"Restore it from a backup, or move {home} away and run again: data, answers and scores "
        "are stored elsewhere, so nothing is asked again; only the history of runs is lost."
    )


def _is_damaged(database: Path) -> bool:
    try:
        with closing(sqlite3.connect(database)) as connection:
            return bool(connection.execute("pragma quick_check(1)").fetchone() != ("ok",))
    except SQLITE_ERRORS as error:
        return is_damage(error)


def _home_folder() -> Path:
    """The home that DAGSTER_HOME sets, or the default. Raises an error if Dagster cannot use it."""
    home = dagster_home()
    if set("?%") & set(str(home)):  # its databases are URLs
        raise ConfigurationError(
            f"{home}: Dagster cannot use a path with `?` or `%`; set {HOME_VARIABLE} to another "
            "folder"
        )
    return home


def _opening(home: Path) -> AbstractContextManager[object]:
    """A lock, which is taken, so that no other process opens `home` during the block."""
    with writing(home):
        home.mkdir(parents=True, exist_ok=True)
        return FileLock(home / "opening.lock").acquire()


def _postgres_settings() -> str:
    """The part of dagster.yaml about the database. The URL itself stays in the environment."""
    url = os.environ.get(POSTGRES_VARIABLE)
    if not url:
        return ""
    if not url.startswith(POSTGRES_SCHEME):
        raise ConfigurationError(
            f"{POSTGRES_VARIABLE} starts with `{url.partition('//')[0]}//`; "
            f"use {POSTGRES_SCHEME}user:password@host:5432/database"
        )
    if find_spec("dagster_postgres") is None:
        raise ConfigurationError(
            f"{POSTGRES_VARIABLE} is set, but dagster-postgres is not installed; run "
            "pip install 'videomme-pipeline[postgres]'"
        )
    return f"\nstorage:\n  postgres:\n    postgres_url:\n      env: {POSTGRES_VARIABLE}\n"


def check_instance() -> Finding:
    """Open the instance and count its runs, for `videomme doctor`."""
    try:
        with open_instance() as instance:
            runs = instance.get_runs_count()
    except Exception as error:  # noqa: BLE001 - any error of the storage is reported
        return Finding.error("dagster", f"no instance: {error}")
    return Finding.ok("dagster", f"{runs} runs in {os.environ[HOME_VARIABLE]}")
