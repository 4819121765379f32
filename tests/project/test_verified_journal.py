"""The journal is verified by every command after which the user relies on stored data."""

from pathlib import Path

import pytest

from tests.support.cli import use, videomme
from tests.support.journal_rows import answer, attempt, committed
from videomme_pipeline.responses.journal import Journal


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal of a project with 200 answers and one evaluation that asks no endpoint."""
    evaluations = tmp_path / "configuration" / "evaluations"
    evaluations.mkdir(parents=True)
    (tmp_path / "configuration" / "benchmarks.yaml").write_text("smoke:\n")
    (evaluations / "blind.yaml").write_text("benchmark: smoke\nmodel: random\n")
    use(monkeypatch, tmp_path)
    path = tmp_path / "data" / "local" / "journal.sqlite"
    path.parent.mkdir(parents=True)
    with Journal(path) as opened:
        for number in range(200):
            name = f"request-{number}"
            committed(opened.record(attempt(name), answer(name)))
    return path


def halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_damaged_journal_stops_run_verify(journal: Path) -> None:
    halve(journal)
    ended = videomme("run", "--verify")
    assert (ended.status, "the journal is damaged" in ended.err) == (1, True), ended.err
    planned = videomme("run", "--verify", "--dry-run")
    assert (planned.status, "Restore it from a backup" in planned.err) == (1, True)


def test_doctor_verifies_the_journal(journal: Path) -> None:
    checks = {finding["check"]: finding for finding in videomme("doctor", "--json").json}
    assert checks["journal"]["status"] == "ok"
    halve(journal)
    ended = videomme("doctor", "--json")
    (finding,) = [finding for finding in ended.json if finding["check"] == "journal"]
    assert (ended.status, finding["status"]) == (1, "error")
    assert "the journal is damaged" in finding["summary"]


def test_a_project_without_a_journal_has_no_finding_about_it(journal: Path) -> None:
    for file in journal.parent.glob("journal.sqlite*"):
        file.unlink()
    assert "journal" not in {finding["check"] for finding in videomme("doctor", "--json").json}
    assert not journal.exists()


def test_the_journal_of_the_project_is_never_copied_into_itself(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = journal.parent.parent.parent
    (project / "another.sqlite").symlink_to(journal)
    monkeypatch.chdir(project)
    for data in ("data", str(project / "data")):
        monkeypatch.setenv("VIDEOMME_DATA", data)
        for source in ("data/local/journal.sqlite", str(journal), "another.sqlite"):
            failed = videomme("cache", "journal", source).failed_with
            assert "this is the journal of the project already" in failed
    assert journal.exists()
