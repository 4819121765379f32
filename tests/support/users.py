"""Other users of this machine, for tests that run as root."""

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import pytest

from tests.support.commands import Command, ProcessResult
from tests.support.paths import ROOT

GROUP = 60_001
USERS = {"first": 60_001, "second": 60_002}


def identity_of(user: str) -> list[str]:
    """The command that runs a program as another user."""
    number = USERS[user]
    return ["setpriv", f"--reuid={number}", f"--regid={number}", f"--groups={GROUP}"]


@cache
def python_of_all_users() -> str | None:
    """An interpreter that other users may run, too, or None. That of root may be in its home."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return None
    starts_another = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    )
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        command = [*identity_of("second"), program, "-c", starts_another]
        if subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0:
            return program
    return None


needs_users = pytest.mark.skipif(
    python_of_all_users() is None, reason="needs root, setpriv, and a Python that all users may run"
)


def share(folder: Path, mode: int) -> None:
    """Create a folder that belongs to the first user and the common group."""
    folder.mkdir()
    os.chown(folder, USERS["first"], GROUP)
    folder.chmod(mode)


def start_as(user: str, root: Path, *arguments: str, umask: str, **environment: str) -> Command:
    """Start a command as another user, who has a home folder of their own."""
    home = root / user
    if not home.exists():
        home.mkdir()
        os.chown(home, USERS[user], USERS[user])
    command = " ".join([*identity_of(user), str(python_of_all_users())])
    return Command(
        root,
        *arguments,
        shell=f'umask {umask} && exec {command} "$0" "$@"',
        PYTHONPATH=os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
        HOME=str(home),
        DAGSTER_HOME=str(home / "dagster"),
        **environment,
    )


def run_as(user: str, root: Path, *arguments: str, umask: str, **environment: str) -> ProcessResult:
    """Run a command as another user to its end."""
    return start_as(user, root, *arguments, umask=umask, **environment).finish()


def error_of(ended: ProcessResult) -> str:
    """The one sentence of a command that failed."""
    assert ended.status == 1, ended
    assert "Traceback" not in ended.err
    (error,) = [line for line in ended.err.splitlines() if line.startswith("Error: ")]
    return error
