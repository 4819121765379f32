"""The Dagster instance: where runs and events are kept, the same for the UI and the command line.

SQLite in `.dagster/` unless DAGSTER_HOME names another home, whose own dagster.yaml then rules.
"""

import os
import shutil
from pathlib import Path

import dagster as dg

DEFAULT_HOME = ".dagster"
HOME_VARIABLE = "DAGSTER_HOME"
_SETTINGS = Path(__file__).with_name("dagster.yaml")


def prepare_home() -> Path:
    """The instance's home, made ready and set in the environment for this process's children."""
    home = Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).resolve()
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        shutil.copyfile(_SETTINGS, settings)
    os.environ[HOME_VARIABLE] = str(home)
    return home


def open_instance() -> dg.DagsterInstance:
    """The instance at home; close it after use (`with open_instance() as instance`)."""
    return dg.DagsterInstance.from_config(str(prepare_home()))
