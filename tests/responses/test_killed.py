"""`kill -9` during an evaluation, and two processes that share one."""

import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.model_server import ModelServer
from tests.support.paths import ROOT

PROGRAM = """\
import json, os, sys, threading, time

def answer(question):
    time.sleep(0.05)
    print(json.dumps({"id": question["id"], "text": "A"}) + "\\n", end="")  # in one piece

for line in sys.stdin:
    question = json.loads(line)
    with open("asked", "a") as asked:
        print(os.getpid(), question["question_id"], file=asked)
    threading.Thread(target=answer, args=[question]).start()
"""


def start(
    address: object, journal: Path, videos: int, conversation: str = ""
) -> subprocess.Popen[str]:
    arguments = [str(address), str(journal), str(videos), conversation]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.killed_run", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def answers(output: str) -> dict[str, str]:
    """The answers by question, from the complete lines of `output`."""
    lines = (
        line.split(maxsplit=1) for line in output.splitlines(keepends=True) if line.endswith("\n")
    )
    return {line[0]: line[1].strip() for line in lines}


def stored_questions(journal: Path) -> set[str]:
    """The questions that have an answer in the journal."""
    if not journal.exists():
        return set()
    with closing(sqlite3.connect(journal)) as connection:
        rows = connection.execute(
            "select question_id from attempts join responses using (request_fingerprint)"
        ).fetchall()
    return {question_id for (question_id,) in rows}


def question_id_of(text: str) -> str:
    numbers = re.search(r"video (\d+), part (\d+)\?", text)
    assert numbers
    return f"{int(numbers[1]):03d}-{numbers[2]}"


@pytest.mark.slow
@pytest.mark.parametrize("conversation", ["", "conversation"])
def test_after_a_kill_only_requests_in_flight_are_repeated(
    tmp_path: Path, conversation: str
) -> None:
    videos, kills = 100, 12
    journal = tmp_path / "journal"
    with ModelServer(delay_seconds=0.1) as server:
        uninterrupted, _ = start(
            server.base_url, tmp_path / "uninterrupted", videos, conversation
        ).communicate()
    chance = random.Random(5)
    acknowledged: dict[str, str] = {}
    in_flight_at_kills = 0
    with ModelServer(delay_seconds=0.1) as server:
        for _ in range(kills):
            stored_before, asked_before = stored_questions(journal), Counter(server.request_counts)
            process = start(server.base_url, journal, videos, conversation)
            while server.request_count == asked_before.total() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.25))
            process.kill()
            output, _ = process.communicate()
            while server.connections:
                time.sleep(0.01)
            acknowledged |= answers(output)
            asked_in_run = {question_id_of(text) for text in server.request_counts - asked_before}
            assert (server.request_counts - asked_before).total() == len(asked_in_run), (
                "one run asks each question once"
            )
            assert asked_in_run.isdisjoint(stored_before), "a stored question is not asked again"
            assert acknowledged.keys() <= stored_questions(journal)
            in_flight_at_kills += len(asked_in_run - stored_questions(journal))
        assert in_flight_at_kills > 0
        final, _ = start(server.base_url, journal, videos, conversation).communicate()
    table = answers(final)
    assert table == answers(uninterrupted)
    assert len(table) == 3 * videos
    assert acknowledged.items() <= table.items()
    assert server.request_count == 3 * videos + in_flight_at_kills


@pytest.mark.slow
def test_acknowledged_answers_survive_a_kill(tmp_path: Path) -> None:
    with ModelServer(delay_seconds=0.02) as server:
        process = start(server.base_url, tmp_path / "journal", 200)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        process.kill()
        remaining, _ = process.communicate()
        while server.connections:
            time.sleep(0.01)
        asked_before_kill, stored = (
            dict(server.request_counts),
            stored_questions(tmp_path / "journal"),
        )
        process = start(server.base_url, tmp_path / "journal", 10)
        final, _ = process.communicate()
    acknowledged = answers("".join([*lines, remaining]))
    table = answers(final)
    assert {key: table.get(key, value) for key, value in acknowledged.items()} == acknowledged
    assert len(table) == 30
    repeated = {question_id_of(text) for text, times in server.request_counts.items() if times > 1}
    assert repeated == {question_id_of(text) for text in asked_before_kill} & table.keys() - stored
    assert acknowledged.keys() <= stored


@pytest.mark.slow
@pytest.mark.parametrize("conversation", ["", "conversation"])
def test_two_processes_share_an_evaluation_without_asking_twice(
    tmp_path: Path, conversation: str
) -> None:
    with ModelServer(delay_seconds=0.05) as server:
        arguments = (server.base_url, tmp_path / "journal", 20, conversation)
        processes = [start(*arguments) for _ in range(2)]
        tables = [answers(process.communicate()[0]) for process in processes]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 60
    assert set(server.request_counts.values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("conversation", ["", "conversation"])
@pytest.mark.parametrize("kills_program", [False, True])
def test_after_a_kill_a_program_is_asked_only_what_was_in_flight(
    tmp_path: Path, conversation: str, *, kills_program: bool
) -> None:
    """The run or its program is killed at ten random moments."""
    (tmp_path / "agent.py").write_text(PROGRAM)
    models = tmp_path / "models.yaml"
    command = json.dumps([sys.executable, "agent.py"])
    limits = "{concurrency: 4, max_attempts: 10}"  # one question may be in flight at several kills
    models.write_text(f"agent: {{command: {command}, processes: 2, limits: {limits}}}\n")
    chance, journal, record = random.Random(7), tmp_path / "journal", tmp_path / "asked"
    record.touch()
    acknowledged: dict[str, str] = {}
    repeats_allowed = 0
    process = start(models, journal, 60, conversation)
    for _ in range(10):
        before = len(asked := record.read_text().splitlines())
        while len(asked := record.read_text().splitlines()) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.3))
        if kills_program:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(int(asked[-1].split()[0])).kill()
            repeats_allowed += 4
            continue
        process.send_signal(signal.SIGSTOP)  # it starts no further program
        programs = []
        with suppress(psutil.NoSuchProcess):  # it has ended
            programs = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        output, _ = process.communicate()
        psutil.wait_procs(programs)  # they end with the run
        acknowledged |= answers(output)
        stored = stored_questions(journal)
        assert acknowledged.keys() <= stored
        questions = {line.split()[1] for line in record.read_text().splitlines()}
        in_flight = questions - stored
        assert len(in_flight) <= 16, "8 are asked, and the answers to 8 wait for their commit"
        repeats_allowed += len(in_flight)
        stored_at = len(record.read_text().splitlines())
        process = start(models, journal, 60, conversation)
        while len(record.read_text().splitlines()) == stored_at and process.poll() is None:
            time.sleep(0.01)
        asked_again = {line.split()[1] for line in record.read_text().splitlines()[stored_at:]}
        assert asked_again.isdisjoint(stored), "a stored question is not asked again"
    table = answers(process.communicate()[0])
    assert len(table) == 180
    assert set(table.values()) == {"A"}
    count = len(record.read_text().splitlines())
    assert 180 <= count <= 180 + repeats_allowed
