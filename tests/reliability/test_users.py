"""Two users and one data folder: it can be shared, or one sentence says what to set."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.commands import Finished, run
from tests.support.paths import ROOT
from tests.support.projects import EVALUATIONS, Copy, write_project_in

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


@pytest.fixture
def root() -> Iterator[Path]:
    """A project that every user may read, outside of the folder of pytest, which is private."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        write_project_in(root, Copy(root / "copy"))({"blind": EVALUATIONS["blind"]}, videos=["002"])
        yield root


def share(folder: Path, mode: int) -> None:
    """Create a folder that belongs to the first user and the common group."""
    folder.mkdir()
    os.chown(folder, USERS["first"], GROUP)
    folder.chmod(mode)


def run_as(user: str, root: Path, *arguments: str, umask: str, data: str = "data") -> Finished:
    """Run a command as another user, who has a home folder of their own."""
    home = root / user
    if not home.exists():
        home.mkdir()
        os.chown(home, USERS[user], USERS[user])
    command = " ".join([*identity_of(user), str(python_of_all_users())])
    return run(
        root,
        *arguments,
        shell=f'umask {umask} && exec {command} "$0" "$@"',
        PYTHONPATH=os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
        HOME=str(home),
        DAGSTER_HOME=str(home / "dagster"),
        VIDEOMME_DATA=str(root / data),
    )


def error_of(ended: Finished) -> str:
    """The one sentence of a command that failed."""
    assert ended.status == 1, ended
    assert "Traceback" not in ended.err
    (error,) = [line for line in ended.err.splitlines() if line.startswith("Error: ")]
    return error


@needs_users
@pytest.mark.slow
def test_a_group_shares_a_data_folder_with_a_common_umask(root: Path) -> None:
    share(root / "data", 0o2770)
    first = run_as("first", root, "run", umask="002")
    assert "1 report_page" in first.err, first
    (root / "data" / "videomme" / "scores" / "blind.parquet").unlink()
    second = run_as("second", root, "run", umask="002")
    assert (second.status, "1 report_page" in second.err) == (0, True), second
    assert "responses: 0 of" not in second.err, "the second user asked again"
    private = [
        str(path.relative_to(root))
        for path in (root / "data").rglob("*")
        if path.stat().st_mode & 0o060 != 0o060
    ]
    assert private == []


@needs_users
@pytest.mark.slow
def test_a_folder_of_another_user_is_one_sentence(root: Path) -> None:
    share(root / "data", 0o2770)
    assert run_as("first", root, "run", umask="022").status == 0
    for command in (["run"], ["report"]):
        error = error_of(run_as("second", root, *command, umask="022"))
        assert "cannot write (Permission denied)" in error
        assert "`chmod -R g+rwXs`" in error
        assert "`umask 002`" in error
    assert run_as("second", root, "status", umask="022").status == 0


SLOW_COMMANDS = [
    pytest.param(command, marks=pytest.mark.slow)
    for command in (["run"], ["doctor"], ["report"], ["cache", "ls"])
]


@needs_users
@pytest.mark.parametrize("command", [["status"], *SLOW_COMMANDS])
def test_a_folder_that_may_not_be_listed_is_one_sentence(root: Path, command: list[str]) -> None:
    share(root / "data", 0o700)
    ended = run_as("second", root, *command, umask="022")
    assert (ended.status, "Traceback" in ended.err) == (1, False), ended
    assert "Permission denied" in ended.err or "not writable; set VIDEOMME_DATA" in ended.out


@pytest.mark.parametrize("command", [["status"], *SLOW_COMMANDS])
@pytest.mark.parametrize("link", ["data", "data/videomme"])
def test_a_folder_that_is_a_link_to_itself_is_one_sentence(
    root: Path, command: list[str], link: str
) -> None:
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to((root / link).name)
    ended = run(root, *command)
    assert "Traceback" not in ended.err
    if command in (["status"], ["run"]):
        assert "Too many levels of symbolic links" in error_of(ended)


@pytest.mark.slow
def test_a_folder_of_reports_that_is_a_link_to_itself_is_one_sentence(root: Path) -> None:
    (root / "data").mkdir()
    (root / "data" / "reports").symlink_to("reports")
    assert "Too many levels of symbolic links" in error_of(run(root, "run"))


@pytest.mark.slow
@needs_users
def test_a_project_in_the_folder_of_another_user_is_refused_in_one_sentence(root: Path) -> None:
    assert error_of(run_as("first", root, "init", umask="022")) == (
        f"Error: {root}: no file can be written here; change to a folder of your own"
    )
