"""`videomme compare` and `score --against` with results files, outside a project."""

import json
from pathlib import Path

import pytest

from tests.support.cli import videomme
from tests.support.paths import GOLDEN

RESULTS = GOLDEN / "results"
LOG = RESULTS / "inspect.json"


@pytest.fixture
def worse(tmp_path: Path) -> Path:
    """The first epoch of the log, with a wrong first answer instead of the right one."""
    log = json.loads(LOG.read_text())
    log["samples"] = [sample for sample in log["samples"] if sample["epoch"] == 1]
    log["samples"][0]["output"]["choices"][0]["message"]["content"] = "A"
    path = tmp_path / "worse.log"
    path.write_text(json.dumps(log))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("compare", str(LOG), "WORSE", "--json"),
        ("score", "WORSE", "--against", str(LOG), "--report", "json"),
    ],
    ids=["compare", "score"],
)
def test_b_is_compared_with_a(
    worse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = videomme(*(str(worse) if word == "WORSE" else word for word in command)).json
    assert (found["evaluation_a"], found["evaluation_b"]) == (str(LOG), str(worse))
    assert found["accuracy"]["difference"]["mean"] == pytest.approx(-1 / 6)
    assert (found["won"], found["lost"]) == ([], ["001-1"])
    assert found["changed_settings"] == []


def test_the_terminal_shows_the_same_direction(worse: Path) -> None:
    shown = videomme("compare", str(LOG), str(worse)).out
    assert "Accuracy B − A  -16.7 points" in shown
    assert "1 correct only in A, 0 correct only in B" in shown
