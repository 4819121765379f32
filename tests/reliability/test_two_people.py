"""Two people with two homes and two configurations share one data folder."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import CONCURRENCY, write_served_project
from tests.support.model_server import ModelServer
from tests.support.projects import SERVED
from tests.support.users import needs_users, run_as, share, start_as
from videomme_pipeline.storage.layout import LOCAL

UMASK = "002"
SUBTITLES = {**SERVED, "subtitles": "window-500"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(delay_seconds=0.1, answer=lambda _: "The answer is B.") as server:
        yield server


@pytest.fixture
def root(server: ModelServer) -> Iterator[Path]:
    """One data folder of a group, and a configuration for each of the two people."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        write_served_project(root, server)
        shutil.rmtree(root / "configuration" / "evaluations")
        for person in ("first", "second"):
            shutil.copytree(root / "configuration", root / f"{person}-configuration")
        share(root / "data", 0o2770)
        yield root


def configuration(root: Path, person: str) -> Mapping[str, str]:
    return {"VIDEOMME_CONFIGURATION": str(root / f"{person}-configuration")}


def evaluate(root: Path, person: str, **evaluations: Mapping[str, Any]) -> None:
    """Write the evaluations of a person."""
    folder = root / f"{person}-configuration" / "evaluations"
    folder.mkdir(exist_ok=True)
    for name, evaluation in evaluations.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(dict(evaluation)))


@needs_users
@pytest.mark.slow
def test_two_people_add_evaluations_run_copy_and_lose_their_rights(
    root: Path, server: ModelServer
) -> None:
    evaluate(root, "first", plain=SERVED)
    evaluate(root, "second", again=SERVED, subtitles=SUBTITLES)
    started = [
        start_as(person, root, "run", umask=UMASK, **configuration(root, person))
        for person in ("first", "second")
    ]
    first, second = [command.finish() for command in started]
    assert (first.status, second.status) == (0, 0), (first.err[-300:], second.err[-300:])
    # Two of the three videos have subtitles, so three questions are the same on both tracks.
    assert server.request_count == 15

    copied = root / "copy" / "of" / "data"
    copied.parent.mkdir(parents=True)
    share(copied, 0o2770)
    shutil.copytree(root / "data", copied, ignore=shutil.ignore_patterns(LOCAL), dirs_exist_ok=True)
    for person in ("first", "second"):
        there = {**configuration(root, person), "VIDEOMME_DATA": str(copied)}
        planned = run_as(person, root, "run", "--dry-run", umask=UMASK, **there)
        assert planned.status == 0, planned.err
        assert "videomme/" not in planned.out, "only local files are missing"
    assert server.request_count == 15

    evaluate(root, "second", more={**SERVED, "sampling": "uniform_n-8"})
    running = start_as("second", root, "run", umask=UMASK, **configuration(root, "second"))
    assert running.wait_until(lambda: server.request_count >= 17)
    (root / "data").chmod(0o700)
    ended = running.finish()
    assert ended.status == 1
    assert "Traceback" not in ended.err, ended.err
    assert "Permission denied" in ended.err
    (root / "data").chmod(0o2770)

    asked = server.request_count
    again = run_as("second", root, "run", umask=UMASK, **configuration(root, "second"))
    assert again.status == 0, again.err
    assert server.request_count - 15 <= 9 + CONCURRENCY, asked
    verified = run_as("first", root, "run", "--verify", umask=UMASK, **configuration(root, "first"))
    assert verified.status == 0, verified.err
