"""Child processes: a failure in one is reported and affects only its own task."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support.child_tasks import double, environment_of_a_child, misbehave, pid, write_pid
from tests.support.paths import ROOT
from videomme_pipeline.children import Child, ChildFailedError, run_in_children
from videomme_pipeline.errors import MissingExtraError
from videomme_pipeline.models.catalog import Catalog


def test_every_task_runs_once() -> None:
    results = list(run_in_children(double, range(7), workers=2, time_limit_seconds=60))
    assert sorted((r.task, r.value) for r in results) == [(n, n * 2) for n in range(7)]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("crash", "crashed.*SIGSEGV"),
        ("exit", "exit code 3"),
        ("raise", "ValueError: a reason"),
        ("hang", "not finished after 5 s"),
        ("eat", "out of memory"),
    ],
)
def test_a_failed_task_does_not_affect_the_others(how: str, message: str) -> None:
    results = {
        result.task: result
        for result in run_in_children(
            misbehave,
            ["a", how, "b", "c"],
            workers=2,
            time_limit_seconds=5 if how == "hang" else 60,
            memory_limit_bytes=1 << 30,
        )
    }
    error = results.pop(how).error
    assert error is not None
    with pytest.raises(type(error), match=message):
        raise error
    assert {task: result.value for task, result in results.items()} == {
        "a": "did a",
        "b": "did b",
        "c": "did c",
    }


def test_an_error_of_this_project_keeps_its_class_and_its_fields() -> None:
    (result,) = run_in_children(misbehave, ["miss"], workers=1, time_limit_seconds=60)
    assert isinstance(result.error, MissingExtraError)
    assert (result.error.extra, result.error.module) == ("demo", "a_module")
    assert "pip install 'videomme-pipeline[demo]'" in str(result.error)


def test_output_that_a_task_prints_is_not_read_as_a_result() -> None:
    (result,) = run_in_children(misbehave, ["print"], workers=1, time_limit_seconds=60)
    assert result.value == "did print"


def test_a_child_does_not_get_the_keys_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models.yaml").write_text("m: {base_url: http://x/v1, api_key_env: MINE}")
    Catalog.read(tmp_path / "models.yaml")
    monkeypatch.setenv("MINE", "canary")
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    (result,) = run_in_children(environment_of_a_child, [0], workers=1, time_limit_seconds=60)
    assert result.value is not None
    assert result.value["PATH"] == os.environ["PATH"]
    assert not [name for name, value in result.value.items() if "canary" in value]


def test_closing_the_iterator_ends_the_children(tmp_path: Path) -> None:
    tasks = [tmp_path / "hang", tmp_path / "done", tmp_path / "hang_too"]
    results = run_in_children(write_pid, tasks, workers=2, time_limit_seconds=600)
    assert next(results).task.name == "done"
    children = _pids([tmp_path / "hang"])
    assert all(map(psutil.pid_exists, children))
    results.close()
    assert not any(map(psutil.pid_exists, children))


@pytest.mark.parametrize("how", ["hang", "hang_natively"])
def test_children_end_when_their_parent_is_killed(tmp_path: Path, how: str) -> None:
    task = tmp_path / how
    program = (
        "from pathlib import Path\n"
        "from tests.support.child_tasks import write_pid\n"
        "from videomme_pipeline.children import run_in_children\n"
        f"list(run_in_children(write_pid, [Path({str(task)!r})], workers=1, "
        "time_limit_seconds=600))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    (child,) = _pids([task])
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    psutil.wait_procs([psutil.Process(child)] if psutil.pid_exists(child) else [], timeout=20)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


def test_one_process_runs_all_tasks_of_a_child_until_one_ends_it() -> None:
    child = Child()
    first = child.run(pid, 1, time_limit_seconds=60)
    assert child.run(pid, 2, time_limit_seconds=60) == first
    with pytest.raises(ChildFailedError, match="SIGSEGV"):
        child.run(misbehave, "crash", time_limit_seconds=60)
    second = child.run(pid, 3, time_limit_seconds=60)
    assert second != first
    os.kill(second, signal.SIGKILL)  # between two tasks, so that no task fails
    psutil.wait_procs([psutil.Process(second)], timeout=20)
    third = child.run(pid, 4, time_limit_seconds=60)
    assert third != second
    child.end()
    assert not psutil.pid_exists(third)
    assert child.run(pid, 5, time_limit_seconds=60) != third
    child.end()


def test_a_child_that_is_killed_from_another_thread_fails_its_task(tmp_path: Path) -> None:
    child = Child()
    with ThreadPoolExecutor(max_workers=1) as thread:
        running = thread.submit(child.run, write_pid, tmp_path / "hang", time_limit_seconds=600)
        _pids([tmp_path / "hang"])
        child.kill()
        with pytest.raises(ChildFailedError, match="was killed"):
            running.result(timeout=30)
    child.end()


def _pids(files: list[Path]) -> list[int]:
    """Wait for the process ids that tasks write to `files`, and return them."""
    end = time.monotonic() + 30
    while time.monotonic() < end and not all(f.exists() and f.read_text() for f in files):
        time.sleep(0.05)
    return [int(file.read_text(encoding="ascii")) for file in files]
