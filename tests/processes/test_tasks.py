"""Tasks on this machine: a failure is reported and affects only its own task."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from tests.support.child_tasks import (
    double,
    environment_of_a_child,
    misbehave,
    wait_for_pids,
    write_pid,
)
from tests.support.paths import ROOT
from videomme_pipeline.errors import MissingExtraError
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import (
    LocalWorkers,
    Submit,
    TaskOutcome,
    TaskResult,
    run_tasks,
)

Task = TypeVar("Task")
Value = TypeVar("Value")


def run(
    function: Callable[[Task], Value],
    tasks: Sequence[Task],
    *,
    seconds: float = 60,
    memory_bytes: int | None = None,
) -> Generator[TaskResult[Task, Value]]:
    limits = TaskLimits(seconds=seconds, memory_bytes=memory_bytes)
    return run_tasks(function, tasks, workers=LocalWorkers(2), limits=limits)


def test_every_task_runs_once() -> None:
    results = list(run(double, range(7)))
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
        for result in run(
            misbehave,
            ["a", how, "b", "c"],
            seconds=5 if how == "hang" else 60,
            memory_bytes=1 << 30,
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
    (result,) = run(misbehave, ["miss"])
    assert isinstance(result.error, MissingExtraError)
    assert (result.error.extra, result.error.module) == ("demo", "a_module")
    assert "pip install 'videomme-pipeline[demo]'" in str(result.error)


def test_output_that_a_task_prints_is_not_read_as_a_result() -> None:
    (result,) = run(misbehave, ["print"])
    assert result.value == "did print"


def test_a_child_does_not_get_the_keys_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models.yaml").write_text("m: {base_url: http://x/v1, api_key_env: MINE}")
    Catalog.read(tmp_path / "models.yaml")
    monkeypatch.setenv("MINE", "canary")
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    (result,) = run(environment_of_a_child, [0])
    assert result.value is not None
    assert result.value["PATH"] == os.environ["PATH"]
    assert not [name for name, value in result.value.items() if "canary" in value]


def test_closing_the_iterator_ends_the_children(tmp_path: Path) -> None:
    tasks = [tmp_path / "hang", tmp_path / "done", tmp_path / "hang_too"]
    results = run(write_pid, tasks, seconds=600)
    assert next(results).task.name == "done"
    children = wait_for_pids([tmp_path / "hang"])
    assert all(map(psutil.pid_exists, children))
    results.close()
    assert not any(map(psutil.pid_exists, children))


@pytest.mark.parametrize("how", ["hang", "hang_natively"])
def test_children_end_when_their_parent_is_killed(tmp_path: Path, how: str) -> None:
    task = tmp_path / how
    program = (
        "from pathlib import Path\n"
        "from tests.support.child_tasks import write_pid\n"
        "from videomme_pipeline.processes.tasks import TaskLimits, LocalWorkers, run_tasks\n"
        f"list(run_tasks(write_pid, [Path({str(task)!r})], workers=LocalWorkers(1), "
        "limits=TaskLimits(seconds=600)))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    (child,) = wait_for_pids([task])
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    psutil.wait_procs([psutil.Process(child)] if psutil.pid_exists(child) else [], timeout=20)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


def test_a_task_that_its_cluster_loses_is_submitted_again() -> None:
    limits = TaskLimits(seconds=60)
    results = run_tasks(double, [1, 2], workers=LosingCluster(1), limits=limits)
    assert {result.task: result.value for result in results} == {1: 2, 2: 4}


class LosingCluster(LocalWorkers):
    """Local workers that lose the first tasks."""

    @contextmanager
    def executor(self) -> Iterator[Submit]:
        losses = 3

        def submit(
            function: Callable[[Any], Any], task: Any, limits: TaskLimits
        ) -> Future[TaskOutcome]:
            nonlocal losses
            if losses == 0:
                return submit_here(function, task, limits)
            losses -= 1
            lost: Future[TaskOutcome] = Future()
            lost.cancel()
            lost.set_running_or_notify_cancel()
            return lost

        with super().executor() as submit_here:
            yield submit
