"""`kill -9` at any moment, and two processes at once, over one evaluation."""

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.model_server import ModelServer
from videomme_pipeline.responses.journal import Journal

ROOT = Path(__file__).parents[2]


def start(server: ModelServer, journal: Path, videos: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.responses.killed_run", server.base_url, journal, str(videos)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def answers(output: str) -> dict[str, str]:
    """The lines that came whole."""
    lines = (
        line.split(maxsplit=1) for line in output.splitlines(keepends=True) if line.endswith("\n")
    )
    return {line[0]: line[1].strip() for line in lines}


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_repeat_only_what_was_in_flight(tmp_path: Path) -> None:
    videos, kills = 100, 20
    with ModelServer(delay_seconds=0.1) as server:
        undisturbed, _ = start(server, tmp_path / "undisturbed", videos).communicate()
    chance = random.Random(5)
    acknowledged: dict[str, str] = {}
    in_flight_at_kills = 0
    with ModelServer(delay_seconds=0.1) as server:
        for _ in range(kills):
            before = server.request_count
            process = start(server, tmp_path / "journal", videos)
            while server.request_count == before and process.poll() is None:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.25))
            process.kill()
            output, _ = process.communicate()
            acknowledged |= answers(output)
            in_flight_at_kills += 8
        final, _ = start(server, tmp_path / "journal", videos).communicate()
    table = answers(final)
    assert table == answers(undisturbed)
    assert len(table) == 3 * videos
    assert acknowledged.items() <= table.items()
    assert 3 * videos <= server.request_count <= 3 * videos + in_flight_at_kills
    with Journal(tmp_path / "journal") as journal:
        recorded = journal.attempts(_fingerprints(tmp_path / "journal"))
    assert len(recorded) == 3 * videos


def test_what_is_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with ModelServer(delay_seconds=0.02) as server:
        process = start(server, tmp_path / "journal", 200)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        process.kill()
        rest, _ = process.communicate()
        asked = dict(server.asked)
        again = start(server, tmp_path / "journal", 10)
        final, _ = again.communicate()
    acknowledged = answers("".join([*lines, rest]))
    told = answers(final)
    assert {key: told.get(key, value) for key, value in acknowledged.items()} == acknowledged
    assert len(told) == 30
    repeated = {text for text, times in server.asked.items() if times > 1 and text in asked}
    for question_id in acknowledged:
        video, part = question_id.split("-")
        assert not any(f"video {int(video)}, part {part}?" in text for text in repeated)
    # At the kill 8 are on their way, and some are answered that the journal has not taken yet.
    assert len(repeated) <= 16


@pytest.mark.slow
def test_two_processes_share_an_evaluation_without_asking_twice(tmp_path: Path) -> None:
    with ModelServer(delay_seconds=0.05) as server:
        both = [start(server, tmp_path / "journal", 20) for _ in range(2)]
        tables = [answers(process.communicate()[0]) for process in both]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 60
    assert set(server.asked.values()) == {1}


def _fingerprints(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    rows = connection.execute("select request_fingerprint from responses").fetchall()
    connection.close()
    return [fingerprint for (fingerprint,) in rows]
