"""Odd surroundings: a command works in them, or ends with one sentence and works afterwards."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support.commands import ProcessResult, run
from tests.support.paths import ROOT
from tests.support.projects import EVALUATIONS, Copy, write_project_in

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""A locale without any letter outside ASCII."""
ANOTHER_FILE_SYSTEM = Path("/dev/shm")


def write_project(root: Path) -> None:
    """Write a project of one video, with and without frames. No request leaves the process."""
    evaluations = {name: EVALUATIONS[name] for name in ("few-subtitles", "blind")}
    write_project_in(root, Copy(root / "copy"))(evaluations, videos=["002"])


def check_that_it_worked(ended: ProcessResult) -> None:
    assert ended.status == 0, ended
    assert "1 report_page" in ended.err
    assert "videomme\tfew-subtitles\t3 of 2,700\t" in ended.out


def test_text_is_utf8_in_every_locale(tmp_path: Path) -> None:
    ended = run(tmp_path, "read", stdin='{"response": "B, größer 😀"}\n', **ASCII)
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out)["response"] == "B, größer 😀"


@pytest.mark.slow
def test_a_run_works_in_an_ascii_locale(tmp_path: Path) -> None:
    write_project(tmp_path)
    ended = run(tmp_path, "run", PYTHONWARNDEFAULTENCODING="1", **ASCII)
    check_that_it_worked(ended)
    ours = [line for line in ended.err.splitlines() if "EncodingWarning" in line]
    assert [line for line in ours if "/videomme_pipeline/" in line] == []


@pytest.mark.slow
def test_a_run_works_in_folders_with_odd_names(tmp_path: Path) -> None:
    root = tmp_path / "a b #c 'd' ü 😀"
    write_project(root)
    check_that_it_worked(run(root, "run"))


@pytest.mark.slow
def test_a_run_works_with_a_strict_umask_no_tmpdir_and_data_on_another_disk(tmp_path: Path) -> None:
    write_project(tmp_path)
    with tempfile.TemporaryDirectory(dir=ANOTHER_FILE_SYSTEM) as other:
        missing = str(tmp_path / "missing")
        ended = run(tmp_path, "run", shell="umask 077", TMPDIR=missing, VIDEOMME_DATA=other)
        check_that_it_worked(ended)
        for folder in (Path(other), tmp_path / "home"):
            files = [path for path in folder.rglob("*") if path.is_file()]
            assert files
            assert [path for path in files if path.stat().st_mode & 0o077] == []


@pytest.mark.slow
def test_a_run_without_memory_for_charts_says_so_in_their_place(tmp_path: Path) -> None:
    write_project(tmp_path)
    check_that_it_worked(run(tmp_path, "run", shell=f"ulimit -v {4 * 2**20}"))
    events = (tmp_path / "home" / "history" / "runs" / "index.db").read_bytes()
    assert b"the chart cannot be drawn" in events


@pytest.mark.slow
@pytest.mark.parametrize("kibibytes", [64, 400])
def test_a_full_disk_is_one_sentence_and_the_next_run_works(tmp_path: Path, kibibytes: int) -> None:
    write_project(tmp_path)
    full = run(tmp_path, "run", shell=f"ulimit -f {kibibytes}")
    assert full.status == 1
    assert "Traceback" not in full.err
    assert full.err.count("Error:") == 1
    check_that_it_worked(run(tmp_path, "run"))
    shutil.rmtree(tmp_path / "data")


@pytest.mark.slow
def test_stored_results_and_files_can_be_read_on_systems_other_than_linux(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert run(tmp_path, "run").status == 0

    def elsewhere(*arguments: str) -> ProcessResult:
        ended = run(
            tmp_path, *arguments, PYTHONPATH=f"{ROOT / 'tests/support/without_linux'}:{ROOT}"
        )
        assert ended.status == 0, ended
        return ended

    (tmp_path / "results.json").write_text(elsewhere("export", "blind").out, encoding="utf-8")
    assert "Overall\tall\t33.3\t" in elsewhere("score", "results.json", "--skip_missing").out
    assert "blind" in elsewhere("compare", "blind", "blind").out
    elsewhere("report", "--output", "page.html")
    assert "blind" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "blind" in elsewhere("sql", "select evaluation from leaderboard").out
