"""Ctrl-C and SIGTERM stop a command at any moment: one line, no traceback, nothing lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGTERM

import dagster as dg
import pytest

from tests.support.commands import (
    CONCURRENCY,
    Command,
    ProcessResult,
    members_of,
    run,
    runs_of,
    write_served_project,
)
from tests.support.model_server import ModelServer
from tests.support.paths import ROOT

STATUS = {SIGINT: 130, SIGTERM: 143}

WORKS = """
import signal, subprocess, sys, time
from videomme_pipeline.cli.stopping import on_stop, run_stoppable

def say(text):
    print(text, flush=True)

def work():
    {body}

run_stoppable(work)
"""


def start(body: str) -> subprocess.Popen[str]:
    """A process whose stoppable command is `body`. It has printed its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS.format(body=body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_command_that_is_stopped_says_so_and_ends_its_children(number: signal.Signals) -> None:
    child = 'subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])'
    process = start(f'{child}; say("works"); time.sleep(600)')
    os.killpg(process.pid, number)  # as a terminal does for Ctrl-C
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (STATUS[number], "Stopped.\n")
    assert members_of(process.pid) == ()


def test_native_code_and_a_second_signal_do_not_delay_a_stop() -> None:
    process = start(
        'import duckdb; say("works"); '
        'duckdb.execute("select max(hash(range)) from range(1000000000000)")'
    )
    process.send_signal(SIGINT)
    process.send_signal(SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode in STATUS.values()
    assert err == "Stopped.\n"


def test_the_actions_of_a_stop_are_bounded_and_may_fail() -> None:
    process = start(
        "with on_stop(lambda: time.sleep(600), 0.1), on_stop(lambda: 1 / 0, 0.1), "
        'on_stop(lambda: "3 of 4 are stored.", 0.1):\n        say("works"); time.sleep(600)'
    )
    process.send_signal(SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "Stopped. 3 of 4 are stored.\n")


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_command_is_stopped_before_it_has_imported_anything(number: signal.Signals) -> None:
    program = (
        "import sys; from videomme_pipeline.cli.app import main; new = sys.modules.copy()\n"
        "def stop(event, arguments):\n"
        f"    if event == 'import' and arguments[0] not in new: signal.raise_signal({number})\n"
        "import signal; sys.addaudithook(stop); main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert (ended.returncode, ended.stderr) == (STATUS[number], "Stopped.\n")


def test_nothing_else_is_imported_before_a_command_can_be_stopped() -> None:
    """Until then Python answers a signal with a traceback, so the time must be short."""
    program = (
        "import sys; known = set(sys.modules); import videomme_pipeline.cli.app\n"
        "print(*sorted(set(sys.modules) - known))"
    )
    imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.split()
    assert imported == [
        "videomme_pipeline",
        "videomme_pipeline.cli",
        "videomme_pipeline.cli.app",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("milliseconds", [5, 10, 20, 50, 100, 200])
def test_a_command_that_is_stopped_while_python_starts_ends(
    tmp_path: Path, milliseconds: int
) -> None:
    """It ends silently, with a traceback of Python or with "Stopped.", and rarely goes on."""
    went_on = 0
    for _ in range(4):
        command = Command(tmp_path, "--help")
        time.sleep(milliseconds / 1000)
        if was_running := command.is_running:
            command.send(SIGINT)
        ended = command.finish()
        went_on += was_running and ended.status == 0
        possible = (STATUS[SIGINT], -SIGINT, 1, 0)
        assert ended.status in possible or "KeyboardInterrupt" in ended.err
        assert (ended.err == "Stopped.\n") == (ended.status == STATUS[SIGINT])
    assert went_on <= 1  # Python can lose the signal in its first milliseconds


def test_a_command_that_is_not_stopped_keeps_its_exit_status() -> None:
    process = start('say("works"); sys.exit(3)')
    assert process.wait(timeout=60) == 3


def stop(
    root: Path, number: signal.Signals, moment: Callable[[], bool], *arguments: str
) -> ProcessResult:
    """Start a command, send it a signal at a moment, and check what every stop has in common."""
    command = Command(root, *arguments)
    assert command.wait_until(moment), command.finish()
    command.send(number)
    command.send(number)
    ended = command.finish()
    if ended.status != -number:  # else its work was done and it was about to exit
        assert ended.status == STATUS[number], ended
        assert ended.err.splitlines()[-1].startswith("Stopped."), ended
    assert "Traceback" not in ended.err
    assert ended.survivors == ()
    return ended


def after(seconds: float) -> Callable[[], bool]:
    began = time.monotonic()
    return lambda: time.monotonic() - began > seconds


def has_file(data: Path, pattern: str) -> Callable[[], bool]:
    """A moment after a file was stored."""
    return lambda: any((data / "videomme").glob(f"{pattern}.parquet"))


@pytest.mark.slow
def test_a_run_can_be_stopped_at_every_moment(tmp_path: Path) -> None:
    with ModelServer(delay_seconds=0.3) as server:
        write_served_project(tmp_path, server)
        data, home = tmp_path / "data", tmp_path / "home"
        for seconds in (0.3, 0.6, 1.2, 2.5):
            stop(tmp_path, SIGINT, after(seconds), "run")
        stop(tmp_path, SIGTERM, (home / "history" / "runs.db").exists, "run")
        stop(tmp_path, SIGINT, has_file(data, "questions/*"), "run")
        decoding = stop(tmp_path, SIGTERM, lambda: any(data.glob("frames/.*.new")), "run")
        assert "Run again to resume." in decoding.err
        asking = stop(tmp_path, SIGINT, lambda: server.answered.total() >= 4, "run")
        stored = int(asking.err.rpartition("served: ")[2].partition(" of 9 new answers")[0])
        assert 4 - CONCURRENCY <= stored <= 4 + CONCURRENCY
        stop(tmp_path, SIGTERM, has_file(data, "scores/served/*"), "run")
        resumed = run(tmp_path, "run")
        assert resumed.status == 0, resumed
        repeated = server.request_count - len(server.request_counts)
        # Both evaluations ask some questions with the same text.
        assert "Everything is fresh." in run(tmp_path, "run").err
    assert repeated <= 3 * CONCURRENCY + 3
    statuses = list(runs_of(tmp_path).values())
    assert statuses[-1] is dg.DagsterRunStatus.SUCCESS
    assert set(statuses[:-1]) == {dg.DagsterRunStatus.CANCELED}
    assert [path for path in data.rglob(".*") if path.is_dir()] == []


@pytest.mark.slow
def test_commands_that_read_results_can_be_stopped(tmp_path: Path) -> None:
    with ModelServer() as server:
        write_served_project(tmp_path, server)
        assert run(tmp_path, "run").status == 0
    endless = "select max(hash(range)) from range(1000000000000)"
    stop(tmp_path, SIGINT, after(4), "sql", endless)
    stop(tmp_path, SIGTERM, after(3), "read")  # it waits for standard input
    for number, arguments in (
        (SIGINT, ["compare", "served", "served-subtitles"]),
        (SIGTERM, ["report"]),
        (SIGINT, ["export", "served"]),
        (SIGTERM, ["cache", "gc"]),
        (SIGINT, ["status"]),
    ):
        took = min(run(tmp_path, *arguments).seconds for _ in range(2))
        for share in (0.1, 0.3):  # a command may be three times as fast as the ones before
            stop(tmp_path, number, after(share * took), *arguments)
