"""The Dagster instance: storage of runs and events, shared by the UI and the command line.

By default SQLite in `.dagster/`; DAGSTER_HOME names another home, and VIDEOMME_POSTGRES_URL a
PostgreSQL database. If the home has a dagster.yaml that a user wrote, only that file counts.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
from upath import UPath

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.store import publish
from videomme_pipeline.videos.integrity import Finding, Verdict

DEFAULT_HOME = ".dagster"
HOME_VARIABLE = "DAGSTER_HOME"
POSTGRES_VARIABLE = "VIDEOMME_POSTGRES_URL"
POSTGRES_SCHEME = "postgresql+psycopg2://"
_SETTINGS = Path(__file__).with_name("dagster.yaml")
_OURS = "# The Dagster instance of this project"
"""The start of a dagster.yaml that was copied from here and may be updated."""


def prepare_home() -> Path:
    """Create or update the home of the instance, and set it in the environment for children.

    Raises:
        ConfigurationError: if PostgreSQL is configured in a way that cannot work.
    """
    home = Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).resolve()
    settings = home / "dagster.yaml"
    wanted = _SETTINGS.read_text() + _postgres_settings(os.environ.get(POSTGRES_VARIABLE))
    found = settings.read_text() if settings.exists() else _OURS
    if found.startswith(_OURS) and found != wanted:
        publish(UPath(settings), wanted.encode())
    os.environ[HOME_VARIABLE] = str(home)
    return home


def open_instance() -> dg.DagsterInstance:
    """Open the instance; close it after use (`with open_instance() as instance`)."""
    return dg.DagsterInstance.from_config(str(prepare_home()))


def _postgres_settings(url: str | None) -> str:
    """The part of dagster.yaml for the database. Its URL stays in the environment."""
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
    except Exception as error:  # noqa: BLE001 - whatever the storage raises is the finding
        return Finding(check="dagster", verdict=Verdict.FAILED, message=f"no instance: {error}")
    return Finding(
        check="dagster", verdict=Verdict.OK, message=f"{runs} runs in {os.environ[HOME_VARIABLE]}"
    )
