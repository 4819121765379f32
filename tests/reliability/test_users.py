"""Two users and one data folder: it can be shared, or one sentence says what to set."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.projects import EVALUATIONS, Copy, write_project_in
from tests.support.users import error_of, needs_users, run_as, share


@pytest.fixture
def root() -> Iterator[Path]:
    """A project that every user may read, outside of the folder of pytest, which is private."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        write_project_in(root, Copy(root / "copy"))({"blind": EVALUATIONS["blind"]}, videos=["002"])
        yield root


@needs_users
@pytest.mark.slow
def test_a_group_shares_a_data_folder_with_a_common_umask(root: Path) -> None:
    share(root / "data", 0o2770)
    first = run_as("first", root, "run", umask="002")
    assert "1 report_page" in first.err, first
    (scores,) = (root / "data" / "videomme" / "scores").glob("blind/*.parquet")
    scores.unlink()
    second = run_as("second", root, "run", umask="002")
    assert (second.status, "Built 1 videomme/scores." in second.err) == (0, True), second
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
        assert ("name a file elsewhere with --output" in error) == (command == ["report"])
    assert run_as("second", root, "status", umask="022").status == 0


@needs_users
@pytest.mark.slow
def test_a_copy_that_cannot_be_written_is_read(root: Path) -> None:
    assert run(root, "run").status == 0
    shutil.copytree(root / "data", root / "copied", copy_function=shutil.copyfile)
    (root / "copied" / "local" / "videomme.duckdb").unlink()
    for path in (root / "copied", *(root / "copied").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    results = root / "results.json"
    environment = {"VIDEOMME_DATA": str(root / "copied"), "umask": "022"}
    results.write_text(run_as("second", root, "export", "blind", **environment).out)
    results.chmod(0o644)
    page = str(root / "second" / "page.html")
    for command in (
        ("scores",),
        ("compare", "blind", "blind"),
        ("compare", "blind", str(results)),
        ("audit", "blind"),
        ("sql", "select * from leaderboard"),
        ("report", "--output", page),
    ):
        ended = run_as("second", root, *command, **environment)
        assert "Traceback" not in ended.err
        assert "Error" not in ended.err, ended
        expected = int(command[0] == "audit" and "1 error" in ended.out)
        assert ended.status == expected, ended
    assert "cannot be written; this command builds it in" in ended.err


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
    (root / "data" / "local").mkdir(parents=True)
    (root / "data" / "local" / "reports").symlink_to("reports")
    assert "Too many levels of symbolic links" in error_of(run(root, "run"))


@pytest.mark.slow
@needs_users
def test_a_project_in_the_folder_of_another_user_is_refused_in_one_sentence(root: Path) -> None:
    assert error_of(run_as("first", root, "init", umask="022")) == (
        f"Error: {root}: no file can be written here; change to a folder of your own"
    )
