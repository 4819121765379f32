"""Child processes: whatever happens in one is told, and costs that one task alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from videomme_pipeline.frames.children import run_in_children


def double(number: int) -> int:
    return number * 2


def act(what: str) -> str:
    """Do what a bad video may make a decoder do."""
    match what:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(600)
        case "raise":
            raise ValueError("a reason")
        case "eat":
            return str(len(bytearray(3 << 30)))
        case "print":
            os.write(1, b"noise on standard output")
    return f"did {what}"


def say_and_hang(path: Path) -> None:
    path.write_text(str(os.getpid()), encoding="ascii")
    time.sleep(600)


def test_every_task_is_done_once() -> None:
    outcomes = list(run_in_children(double, range(7), workers=2, time_limit_seconds=60))
    assert sorted((o.given, o.value) for o in outcomes) == [(n, n * 2) for n in range(7)]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("crash", "crashed.*SIGSEGV"),
        ("exit", "exit code 3"),
        ("raise", "ValueError: a reason"),
        ("hang", "not done after 12 s"),
        ("eat", "out of memory"),
    ],
)
def test_a_task_that_goes_wrong_takes_no_other_with_it(what: str, told: str) -> None:
    outcomes = {
        outcome.given: outcome
        for outcome in run_in_children(
            act,
            ["a", what, "b", "c"],
            workers=2,
            time_limit_seconds=12 if what == "hang" else 60,
            memory_limit_bytes=1 << 30,
        )
    }
    error = outcomes.pop(what).error
    assert error is not None
    with pytest.raises(type(error), match=told):
        raise error
    assert {given: outcome.value for given, outcome in outcomes.items()} == {
        "a": "did a",
        "b": "did b",
        "c": "did c",
    }


def test_what_a_decoder_prints_is_not_taken_for_a_result() -> None:
    (outcome,) = run_in_children(act, ["print"], workers=1, time_limit_seconds=60)
    assert outcome.value == "did print"


def test_leaving_early_ends_the_children(tmp_path: Path) -> None:
    tasks = [tmp_path / "one", tmp_path / "two"]
    outcomes = run_in_children(say_and_hang, tasks, workers=2, time_limit_seconds=12)
    outcome = next(outcomes)
    outcomes.close()
    assert outcome.error is not None
    assert not any(map(psutil.pid_exists, _pids(tasks)))


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    task = tmp_path / "pid"
    program = (
        "from pathlib import Path\n"
        "from tests.frames.test_children import run_in_children, say_and_hang\n"
        f"list(run_in_children(say_and_hang, [Path({str(task)!r})], workers=1, "
        "time_limit_seconds=600))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    (child,) = _pids([task])
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    psutil.wait_procs([psutil.Process(child)] if psutil.pid_exists(child) else [], timeout=20)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


def _pids(files: list[Path]) -> list[int]:
    """The process ids that tasks left, as soon as they are there."""
    end = time.monotonic() + 30
    while time.monotonic() < end and not all(f.exists() and f.read_text() for f in files):
        time.sleep(0.05)
    return [int(file.read_text(encoding="ascii")) for file in files]
