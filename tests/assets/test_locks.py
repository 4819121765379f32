"""Runs take turns at an endpoint and at a machine, however they are started."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.model_server import ModelServer
from tests.support.paths import ROOT
from tests.support.projects import EVALUATIONS, VIDEOS, WriteProject
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.instance import SETTINGS_FILE, open_instance, prepare_home
from videomme_pipeline.assets.processes import end_dead_runs
from videomme_pipeline.assets.run import refresh_project, run_nightly
from videomme_pipeline.cluster.postgres_locks import PostgresLocks
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.project.runs.locks import FileLocks, Locks, Resource, endpoint, this_machine
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.stages.shared import ReportPage
from videomme_pipeline.stages.stage import BuildEvents, Targets
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

DATE = "2026-11-20"
NOOP_MODULE = "dagster._core.storage.noop_compute_log_manager"
TIMEOUT_SECONDS = 120.0


class Gate(ModelServer):
    """A model server that delays all replies until `is_open` is set."""

    is_open = False

    async def _reply(
        self, headers: dict[str, str], raw: bytes, length: int
    ) -> tuple[bytes, bool, str | None]:
        while not self.is_open:
            await asyncio.sleep(0.01)
        return await super()._reply(headers, raw, length)


@pytest.fixture
def servers() -> Iterator[tuple[Gate, Gate]]:
    with Gate() as first, Gate(answer=lambda _: "They move on.") as second:
        yield first, second


@pytest.fixture
def threads(servers: tuple[Gate, Gate], home: Path) -> Iterator[ThreadPoolExecutor]:
    """Threads for runs. They do not capture output, which redirects that of the whole process."""
    settings = prepare_home() / SETTINGS_FILE
    uncaptured = {"module": NOOP_MODULE, "class": "NoOpComputeLogManager"}
    values = yaml.safe_load(settings.read_text()) | {"compute_logs": uncaptured}
    settings.write_text(yaml.safe_dump(values))
    with ThreadPoolExecutor() as pool:
        yield pool
        for server in servers:
            server.is_open = True


@pytest.fixture
def write(
    root: Path, write_project: WriteProject, servers: tuple[Gate, Gate], home: Path
) -> Callable[..., Project]:
    """Write evaluations and open the project.

    The first server has the models `one` and `two`, the second server has the model `far`.
    """

    def write(
        evaluations: Mapping[str, Mapping[str, Any]], concurrent_runs: int = 1, **others: Any
    ) -> Project:
        first, second = servers
        addresses = {"one": first, "two": first, "far": second}
        models = {
            name: {
                "base_url": server.base_url,
                "model": name,
                "limits": {"concurrent_runs": concurrent_runs},
            }
            for name, server in addresses.items()
        }
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        project = write_project(
            {name: {"benchmark": "videomme", **keys} for name, keys in evaluations.items()}
        )
        return open_project(folder, str(project.store.root), **others)

    return write


def as_another_process(project: Project, messages: list[str] | None = None) -> Project:
    """The same project, opened again as another process would."""
    return open_project(
        project.configuration.folder,
        str(project.store.root),
        on_message=(messages if messages is not None else []).append,
    )


def eventually(condition: Callable[[], object]) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def users(project: Project, resource: Gate | Resource, slots: int = 1) -> tuple[str, ...]:
    """The runs that have the lock of a server or a machine."""
    locks: Locks = FileLocks(project.store.locks, run="a test", on_wait=print)
    if isinstance(resource, Gate):
        resource = endpoint(resource.base_url, slots)
        if url := os.environ.get(POSTGRES_VARIABLE):
            locks = PostgresLocks(url, run="a test", on_wait=print)
    return locks.users(resource)


def only_run() -> dg.DagsterRun:
    with open_instance() as instance:
        (run,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    return run


def refresh(project: Project, *evaluations: str) -> list[str]:
    """Bring evaluations up to date; return the partitions that no run will build."""
    with open_instance() as instance:
        not_fresh = refresh_project(project, instance, evaluations).not_fresh
    return [state.name for state in not_fresh]


@pytest.mark.slow
def test_results_that_another_run_will_build_are_left_to_it(
    write: Callable[..., Project],
    servers: tuple[Gate, Gate],
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, _ = servers
    project = write({"a": {"model": "constant-A"}, "b": {"model": "one"}})
    write_page = ReportPage.build

    def write_after_other_scores(stage: ReportPage, targets: Targets) -> BuildEvents:
        server.is_open = True
        eventually(lambda: project.store.names("videomme", "scores").fingerprints("b", None))
        return write_page(stage, targets)

    other = threads.submit(refresh, as_another_process(project), "b")
    eventually(lambda: server.in_flight)
    monkeypatch.setattr(ReportPage, "build", write_after_other_scores)
    with open_instance() as instance:
        refreshed = refresh_project(project, instance, ["a"])
    assert [state.name for state in refreshed.not_fresh] == []
    assert {state.name for state in refreshed.left_to_others} <= {"warehouse", "report_page"}
    assert other.result(TIMEOUT_SECONDS) == []


@pytest.mark.slow
def test_runs_against_one_endpoint_take_turns(
    write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    server, _ = servers
    project = write({"a": {"model": "one"}, "b": {"model": "two"}})
    first = threads.submit(refresh, project, "a")
    eventually(lambda: server.in_flight)
    name = f"run {only_run().run_id[:8]}"
    assert users(project, server) == (name,)
    messages: list[str] = []
    second = threads.submit(refresh, as_another_process(project, messages), "b")
    eventually(lambda: messages)
    assert messages == [f"Waiting for {name}, which is using {server.base_url}"]
    server.is_open = True
    assert first.result(TIMEOUT_SECONDS) == second.result(TIMEOUT_SECONDS) == []
    turns = [model for model, _ in groupby(request.body["model"] for request in server.requests)]
    assert turns == ["one", "two"]
    assert users(project, server) == ()
    with open_instance() as instance:
        logs = [
            entry.user_message
            for run in instance.get_runs()
            for entry in instance.all_logs(run.run_id)
        ]
    assert messages[0] in logs, "the log of the step names the run that it waits for"


@pytest.mark.slow
def test_no_request_is_sent_after_a_lock_was_lost(
    write: Callable[..., Project], servers: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = servers
    server.is_open = True
    project = write({"a": {"model": "one"}})
    for kind in (FileLocks, PostgresLocks):
        monkeypatch.setattr(kind, "_is_lost", lambda *_: True)
    with open_instance() as instance:
        not_fresh = refresh_project(project, instance, ["a"]).not_fresh
    reasons = {state.reason for state in not_fresh if state.stage.name == "responses"}
    assert len(reasons) == 1
    assert f"ended the session with the lock of {server.base_url}" in reasons.pop()
    assert server.requests == []


@pytest.mark.slow
def test_runs_at_different_endpoints_do_not_wait_for_each_other(
    write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    near, far = servers
    near.is_open = True
    project = write({"a": {"model": "one"}, "b": {"model": "far"}, "c": {"model": "two"}})
    first: Future[list[str]] = threads.submit(refresh, project, "a", "b")
    eventually(lambda: far.in_flight)  # the run has finished `a` and asks `b`
    assert (len(users(project, near)), len(users(project, far))) == (0, 1)
    assert threads.submit(refresh, as_another_process(project), "c").result(TIMEOUT_SECONDS) == []
    assert not first.done()
    far.is_open = True
    assert first.result(TIMEOUT_SECONDS) == []


@pytest.mark.slow
def test_concurrent_runs_is_the_number_of_runs_that_may_use_an_endpoint(
    write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    server, _ = servers
    project = write({"a": {"model": "one"}, "b": {"model": "two"}}, concurrent_runs=2)
    first = threads.submit(refresh, project, "a")
    eventually(lambda: server.in_flight)
    second = threads.submit(refresh, as_another_process(project), "b")
    eventually(lambda: len(users(project, server, slots=2)) == 2)
    server.is_open = True
    assert first.result(TIMEOUT_SECONDS) == second.result(TIMEOUT_SECONDS) == []


@pytest.mark.parametrize(
    "way",
    [
        "asset",
        pytest.param("nightly run", marks=pytest.mark.slow),
        pytest.param("judge", marks=pytest.mark.slow),
    ],
)
def test_asset_runs_nightly_runs_and_judges_take_turns_at_an_endpoint(
    way: str, write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    near, far = servers
    asked_server = near
    project = write({"a": {"model": "one"}})
    if way == "nightly run":
        near.is_open = True
        assert refresh(project, "a") == []
        near.is_open = False
        nightly = {"since": DATE, "evaluations": {"a": {}}}
        path = project.configuration.folder / "nightly.yaml"
        path.write_text(yaml.safe_dump(nightly))
        project = as_another_process(project)
    elif way == "judge":
        near.answer, near.is_open = far.answer, True
        asked_server = far
        project = write({"a": {"model": "one", "judge": {"model": "far"}}})

    def ask() -> None:
        with open_instance() as instance:
            if way == "nightly run":
                run_nightly(project, instance, ["a"], DATE)
            elif way == "judge":
                refresh_project(project, instance, ["a"])
            else:
                materialize(project, instance, "questions")
                key = dg.MultiPartitionKey({"video": VIDEOS[0], "evaluation": "a"})
                materialize(project, instance, "prompts", "responses", partition_key=key)

    run = threads.submit(ask)
    eventually(lambda: asked_server.in_flight or run.done())
    assert users(project, asked_server) == (f"run {only_run().run_id[:8]}",)
    asked_server.is_open = True
    run.result(TIMEOUT_SECONDS)
    assert users(project, asked_server) == ()


def materialize(
    project: Project, instance: dg.DagsterInstance, *names: str, partition_key: str | None = None
) -> None:
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(["videomme", name]) for name in names]
    job.execute_in_process(instance=instance, asset_selection=keys, partition_key=partition_key)


@pytest.mark.slow
def test_a_failed_step_releases_its_lock(
    write: Callable[..., Project], servers: tuple[Gate, Gate]
) -> None:
    server, _ = servers
    server.is_open = True
    users_while_asking: list[tuple[str, ...]] = []

    def fail(progress: StageProgress) -> None:
        if "responses" in progress.what:
            users_while_asking.append(users(project, server))
            raise RuntimeError("on purpose")

    project = write({"a": {"model": "one"}}, on_progress=fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        refresh(project, "a")
    assert [len(runs) for runs in users_while_asking] == [1]
    assert users(project, server) == ()


@pytest.mark.slow
def test_steps_that_use_the_machine_take_turns(
    write: Callable[..., Project], threads: ThreadPoolExecutor
) -> None:
    extracting, may_continue = threading.Event(), threading.Event()

    def wait_in_frames(progress: StageProgress) -> None:
        if "frames" in progress.what:
            extracting.set()
            may_continue.wait(TIMEOUT_SECONDS)

    evaluations = {"a": EVALUATIONS["few"], "b": EVALUATIONS["blind"]}
    project = write(evaluations, on_progress=wait_in_frames)
    first = threads.submit(refresh, project, "a")
    assert extracting.wait(TIMEOUT_SECONDS)
    (name,) = users(project, this_machine())
    messages: list[str] = []
    second = threads.submit(refresh, as_another_process(project, messages), "b")
    eventually(lambda: messages)
    assert messages == [f"Waiting for {name}, which is using this machine"]
    may_continue.set()
    assert first.result(TIMEOUT_SECONDS) == second.result(TIMEOUT_SECONDS) == []
    assert users(project, this_machine()) == ()


ASKS = """
import sys
from videomme_pipeline.assets.instance import SETTINGS_FILE, open_instance, prepare_home
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import open_project

with open_instance() as instance:
    project = open_project(on_message=lambda message: print(message, flush=True))
    print(len(refresh_project(project, instance, sys.argv[1:]).not_fresh), flush=True)
"""


@pytest.mark.slow
def test_a_killed_run_releases_its_lock_and_a_waiting_run_can_be_interrupted(
    write: Callable[..., Project],
    servers: tuple[Gate, Gate],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, _ = servers
    project = write({"a": {"model": "one"}, "b": {"model": "two"}})
    monkeypatch.setenv("VIDEOMME_CONFIGURATION", str(project.configuration.folder))
    monkeypatch.setenv("VIDEOMME_DATA", str(project.store.root))

    def start(evaluation: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", ASKS, evaluation],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=os.environ,
        )

    def first_line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline()

    holder = start("a")
    eventually(lambda: server.in_flight)
    killed = only_run().run_id
    waiting = f"Waiting for run {killed[:8]}, which is using {server.base_url}\n"
    interrupted = start("b")
    assert first_line(interrupted) == waiting
    interrupted.send_signal(signal.SIGINT)
    interrupted.wait(TIMEOUT_SECONDS)
    assert users(project, server) == (f"run {killed[:8]}",)
    with open_instance() as instance:
        assert end_dead_runs(instance, datetime.now(UTC)) == [], (
            "the first run is alive, and the interrupted run has ended"
        )

    waiting_run = start("b")
    assert first_line(waiting_run) == waiting
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    server.is_open = True
    printed, _ = waiting_run.communicate(timeout=TIMEOUT_SECONDS)
    assert printed.splitlines()[-1] == "0", "every partition is fresh"
    with open_instance() as instance:
        assert end_dead_runs(instance, datetime.now(UTC)) == [killed]
