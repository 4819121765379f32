"""`kill -9` at any moment: the next run gives the same tables, and nothing is left over."""

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml
from filelock import FileLock

from tests.support.commands import (
    CONCURRENCY,
    ProcessResult,
    QuickCommand,
    members_of,
    run_quickly,
    runs_of,
)
from tests.support.dagster_ui import wait_until
from tests.support.model_server import ModelServer
from tests.support.projects import SERVED, Copy, write_project_in
from videomme_pipeline.assets.processes import end_dead_runs

KILLS = 16
CHANGING = {"answered_at", "latency_seconds", "attempts"}
"""Columns that depend on when and how often a question was asked."""

Moment = Callable[[], bool]


@dataclass(kw_only=True)
class Figures:
    """Counts over all kills."""

    finished_before: int = 0
    requests: int = 0
    repeated: int = 0
    most_repeated: int = 0
    extracted_again: int = 0


class Kills:
    """Fresh projects with the same videos and endpoint, whose runs are killed."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.figures = Figures()
        self._folder, self._server = folder, server
        self._copy = Copy(folder / "copy")
        undisturbed = self._project("undisturbed")
        run_quickly(undisturbed, "status")
        self.seconds = successful(undisturbed).seconds
        self._tables, self._needed = tables_of(undisturbed), server.request_count

    def kill(self, name: str, moment_of: Callable[[Path, ModelServer], Moment]) -> None:
        """Kill a run of a fresh project at a moment, run it again, and check the result."""
        root, before = self._project(name), self._server.request_count
        moment = moment_of(root, self._server)
        command = QuickCommand(root, "run")
        if command.wait_until(moment):
            command.send(signal.SIGKILL)
        self.figures.finished_before += command.finish().status == 0
        frames = frame_times(root)
        successful(root)
        again = frame_times(root)
        repeated = self._server.request_count - before - self._needed
        self.figures.extracted_again += sum(again[path] != at for path, at in frames.items())
        self.figures.requests += self._server.request_count - before
        self.figures.repeated += repeated
        self.figures.most_repeated = max(self.figures.most_repeated, repeated)
        assert tables_of(root) == self._tables
        check_that_nothing_is_left(root, command.pid)

    def _project(self, name: str) -> Path:
        root = self._folder / name
        folder = root / "configuration"
        folder.mkdir(parents=True)
        model = {"base_url": self._server.base_url, "limits": {"concurrency": CONCURRENCY}}
        (folder / "models.yaml").write_text(yaml.safe_dump({"served": model}))
        evaluation = {**SERVED, "subtitles": "window-500"}
        write_project_in(root, self._copy)({"served": evaluation}, videos=["002", "003"])
        return root


def successful(root: Path) -> ProcessResult:
    """A run that must be a success."""
    finished = run_quickly(root, "run")
    assert finished.status == 0, finished.err
    return finished


def tables_of(root: Path) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The rows of all results by path, without the columns that may change."""
    data, tables = root / "data", {}
    results = data / "videomme"
    for path in sorted([*results.rglob("*.parquet"), *(data / "frames").rglob("*.parquet")]):
        if path.parts[-3] != "attempts":
            columns = [name for name in pq.read_schema(path).names if name not in CHANGING]
            tables[str(path.relative_to(data))] = pq.read_table(path, columns=columns).to_pylist()
    return tables


def frame_times(root: Path) -> Mapping[Path, int]:
    """The times at which frames were stored, by path."""
    files = (root / "data" / "frames").glob("*.parquet")
    return {path: path.stat().st_mtime_ns for path in files}


def check_that_nothing_is_left(root: Path, group: int) -> None:
    """Check for processes, unfinished files, locks and open runs."""
    wait_until(lambda: members_of(group) == ())
    assert [path for path in (root / "data").rglob(".*") if path.is_dir()] == []
    for path in (root / "data" / "local" / "locks").glob("*.lock"):
        with FileLock(path, blocking=False):
            pass
    with dg.DagsterInstance.local_temp(str(root / "home")) as instance:
        end_dead_runs(instance, datetime.now(UTC))  # a run with nothing stale opens no Dagster
    assert {status.value for status in runs_of(root).values()} <= {"SUCCESS", "FAILURE"}


TARGETS: Mapping[str, Callable[[Path, ModelServer], Moment]] = {
    "home": lambda root, _: (root / "home" / "history").exists,
    "questions": lambda root, _: lambda: is_stored(root, "questions"),
    "hashes": lambda root, _: (root / "data" / "local" / "hashes.sqlite").exists,
    "extracting": lambda root, _: scratch_exists(root / "data" / "frames", "*"),
    "first frames": lambda root, _: lambda: bool(frame_times(root)),
    "prompts": lambda root, _: (root / "data" / "videomme" / "prompts").exists,
    "first request": lambda _, server: requests_sent(server, 1),
    "third request": lambda _, server: requests_sent(server, 3),
    "responses": lambda root, _: (root / "data" / "videomme" / "responses").exists,
    "scores": lambda root, _: (root / "data" / "videomme" / "scores").exists,
    "warehouse": lambda root, _: scratch_exists(root / "data" / "local", "videomme.duckdb"),
    "page": lambda root, _: (root / "data" / "local" / "reports").exists,
}
"""Moments at which something was just begun."""


def is_stored(root: Path, stage: str) -> bool:
    return any((root / "data" / "videomme" / stage).glob("*.parquet"))


def scratch_exists(folder: Path, name: str) -> Moment:
    return lambda: any(folder.glob(f".{name}.*.new"))


def requests_sent(server: ModelServer, more: int) -> Moment:
    count = server.request_count + more
    return lambda: server.request_count >= count


def after(seconds: float) -> Moment:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def a_moment_after(seconds: float) -> Callable[[Path, ModelServer], Moment]:
    return lambda _, __: after(seconds)


class TestKillsAtChosenMoments:
    @pytest.mark.slow
    def test_they_give_the_tables_of_an_undisturbed_run(
        self, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        check_kills(tmp_path, record_property, lambda _: TARGETS)


class TestKillsAtRandomMoments:
    """A class of its own, so that two processes share the kills."""

    @pytest.mark.slow
    def test_they_give_the_tables_of_an_undisturbed_run(
        self, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        chance = random.Random(14)
        check_kills(
            tmp_path,
            record_property,
            lambda seconds: {
                f"random {number}": a_moment_after(chance.random() * seconds)
                for number in range(KILLS - len(TARGETS))
            },
        )


def check_kills(
    folder: Path,
    record_property: Callable[[str, object], None],
    moments: Callable[[float], Mapping[str, Callable[[Path, ModelServer], Moment]]],
) -> None:
    """Kill a run at each of `moments`, given the seconds that an undisturbed run takes."""
    with ModelServer(delay_seconds=0.05, answer=lambda _: "The answer is B.") as server:
        kills = Kills(folder, server)
        for name, moment_of in moments(kills.seconds).items():
            kills.kill(name, moment_of)
    record_property("figures", str(kills.figures))
    assert kills.figures.extracted_again == 0
    assert kills.figures.most_repeated <= 2 * CONCURRENCY
