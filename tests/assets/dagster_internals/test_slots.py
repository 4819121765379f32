"""Slots: who asks an endpoint holds one of its pool, of no other, and no longer; so does who takes
the machine."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.utils import make_new_run_id
from dagster._utils.concurrency import ConcurrencyKeyInfo

from assets.dagster_internals.processes import end_dead_runs
from assets.dagster_internals.slots import claim, endpoint_pool, machine_pool
from assets.definitions import build_definitions
from assets.instance import open_instance
from assets.run import refresh_project, run_nightly
from assets.stages.base import SharedStage
from tests.support.model_server import ModelServer
from tests.support.paths import ROOT
from tests.support.projects import EVALUATIONS, VIDEOS, WriteProject
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.project.progress import Progress
from videomme_pipeline.project.project import Project, open_project

NIGHT = "2026-11-20"
WAITS_SECONDS = 60.0


class Gate(ModelServer):
    """A server that answers nothing while it is closed."""

    is_open = False

    async def _reply(
        self, headers: dict[str, str], raw: bytes, length: int
    ) -> tuple[bytes, bool, str | None]:
        while not self.is_open:
            await asyncio.sleep(0.01)
        return await super()._reply(headers, raw, length)

    @property
    def pool(self) -> str:
        return f"127_0_0_1_{self.port}_v1"


@pytest.fixture
def servers() -> Iterator[tuple[Gate, Gate]]:
    with Gate() as first, Gate(answer=lambda _: "They move on.") as second:
        yield first, second


@pytest.fixture
def threads(servers: tuple[Gate, Gate]) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool
        for server in servers:
            server.is_open = True


@pytest.fixture
def write(
    root: Path, write_project: WriteProject, servers: tuple[Gate, Gate], home: Path
) -> Callable[..., Project]:
    """Write these evaluations and open them; `one` and `two` are asked at the first server, `far`
    at the second."""

    def write(evaluations: Mapping[str, Mapping[str, Any]], **others: Any) -> Project:
        first, second = servers
        addresses = {"one": first, "two": first, "far": second}
        models = {
            name: {"base_url": server.base_url, "model": name} for name, server in addresses.items()
        }
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        project = write_project(
            {name: {"benchmark": "videomme", **held} for name, held in evaluations.items()}
        )
        return open_project(folder, str(project.store.root), **others)

    return write


def again(project: Project) -> Project:
    """The same project as another process would open it."""
    return open_project(project.configuration.folder, str(project.store.root))


def until(happens: Callable[[], object]) -> None:
    end = time.monotonic() + WAITS_SECONDS
    while not happens():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def pool(server: Gate) -> ConcurrencyKeyInfo:
    return named(server.pool)


def named(pool: str) -> ConcurrencyKeyInfo:
    with open_instance() as instance:
        return instance.event_log_storage.get_concurrency_info(pool)


def one_asks_and_one_waits(
    server: Gate, write: Callable[..., Project], threads: ThreadPoolExecutor
) -> tuple[Future[list[str]], Future[list[str]]]:
    """Two runs against one endpoint: what they will leave behind."""
    project = write({"a": {"model": "one"}, "b": {"model": "two"}})
    first = threads.submit(refresh, project, "a")
    until(lambda: server.in_flight)
    second = threads.submit(refresh, again(project), "b")
    until(lambda: pool(server).pending_step_count == 1)
    return first, second


def is_free(server: Gate) -> bool:
    """Whether nobody holds a slot or waits for one."""
    return not pool(server).claimed_slots and not pool(server).pending_steps


def messages(run_id: str) -> str:
    with open_instance() as instance:
        return "\n".join(entry.user_message for entry in instance.all_logs(run_id))


def refresh(project: Project, *evaluations: str) -> list[str]:
    """Bring evaluations up to date, with an instance of its own; what of them is still behind.

    What is made of all scores may be, since another run adds some.
    """
    with open_instance() as instance:
        behind = refresh_project(project, instance, evaluations).not_fresh
    return [state.name for state in behind if not isinstance(state.stage, SharedStage)]


@pytest.mark.parametrize(
    ("url", "word"),
    [("http://localhost:8000/v1", "localhost_8000_v1"), (None, "api_openai_com_v1")],
)
def test_a_pool_is_named_after_the_address(url: str | None, word: str) -> None:
    assert endpoint_pool(EndpointSpec(name="served", model="served", base_url=url)) == word


def test_runs_against_one_endpoint_take_turns(
    write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    server, _ = servers
    first, second = one_asks_and_one_waits(server, write, threads)
    (slot,) = pool(server).claimed_slots
    (waiting,) = (step for step in pool(server).pending_steps if step.run_id != slot.run_id)
    assert pool(server).slot_count == 1
    assert slot.step_key == "refresh_responses"
    until(lambda: "waits for a slot" in messages(waiting.run_id))
    assert slot.run_id.partition("-")[0] in messages(waiting.run_id)
    server.is_open = True
    assert first.result(WAITS_SECONDS) == second.result(WAITS_SECONDS) == []
    turns = [name for name, _ in groupby(request.body["model"] for request in server.requests)]
    assert turns == ["one", "two"]
    assert is_free(server)


def test_a_run_is_in_nobodys_way_at_an_endpoint_that_it_does_not_ask(
    write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    near, far = servers
    near.is_open = True
    project = write({"a": {"model": "one"}, "b": {"model": "far"}, "c": {"model": "two"}})
    first: Future[list[str]] = threads.submit(refresh, project, "a", "b")
    until(lambda: far.in_flight)  # it has asked `a` and now asks `b`
    assert (len(pool(near).claimed_slots), len(pool(far).claimed_slots)) == (0, 1)
    assert threads.submit(refresh, again(project), "c").result(WAITS_SECONDS) == []
    assert not first.done()
    far.is_open = True
    assert first.result(WAITS_SECONDS) == []


@pytest.mark.parametrize(
    "way",
    [
        "asset",
        pytest.param("night", marks=pytest.mark.slow),
        pytest.param("judge", marks=pytest.mark.slow),
    ],
)
def test_a_slot_is_held_in_whatever_way_an_endpoint_is_asked(
    way: str, write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    near, far = servers
    asking, step = near, "videomme__responses"
    project = write({"a": {"model": "one"}})
    if way == "night":
        near.is_open = True
        assert refresh(project, "a") == []
        near.is_open, step = False, "videomme__nights__a"
        nightly = {"since": NIGHT, "evaluations": {"a": {}}}
        path = project.configuration.folder / "nightly.yaml"
        path.write_text(yaml.safe_dump(nightly))
        project = again(project)
    elif way == "judge":
        near.answer, near.is_open = far.answer, True
        asking, step = far, "refresh_scores"
        project = write({"a": {"model": "one", "judge": {"model": "far"}}})

    def ask() -> None:
        with open_instance() as instance:
            if way == "night":
                run_nightly(project, instance, ["a"], NIGHT)
            elif way == "judge":
                refresh_project(project, instance, ["a"])
            else:
                materialize(project, instance, "questions")
                key = dg.MultiPartitionKey({"video": VIDEOS[0], "evaluation": "a"})
                materialize(project, instance, "prompts", "responses", partition_key=key)

    asked = threads.submit(ask)
    until(lambda: asking.in_flight or asked.done())
    assert [slot.step_key for slot in pool(asking).claimed_slots] == [step]
    asking.is_open = True
    asked.result(WAITS_SECONDS)
    assert pool(asking).claimed_slots == []


def materialize(
    project: Project, instance: dg.DagsterInstance, *names: str, partition_key: str | None = None
) -> None:
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(["videomme", name]) for name in names]
    job.execute_in_process(instance=instance, asset_selection=keys, partition_key=partition_key)


def test_a_step_that_fails_gives_its_slot_back(
    write: Callable[..., Project], servers: tuple[Gate, Gate]
) -> None:
    server, _ = servers
    server.is_open, held = True, list[int]()

    def breaks(progress: Progress) -> None:
        if "responses" in progress.what:
            held.append(len(pool(server).claimed_slots))
            raise RuntimeError("on purpose")

    project = write({"a": {"model": "one"}}, on_progress=breaks)
    with pytest.raises(RuntimeError, match="on purpose"):
        refresh(project, "a")
    assert held == [1]
    assert is_free(server)


@pytest.mark.slow
def test_steps_that_use_the_machine_take_turns(
    write: Callable[..., Project], threads: ThreadPoolExecutor
) -> None:
    decodes, goes_on = threading.Event(), threading.Event()

    def holds(progress: Progress) -> None:
        if "frames" in progress.what:
            decodes.set()
            goes_on.wait(WAITS_SECONDS)

    evaluations = {"a": EVALUATIONS["few"], "b": EVALUATIONS["blind"]}
    first = threads.submit(refresh, write(evaluations, on_progress=holds), "a")
    assert decodes.wait(WAITS_SECONDS)
    (slot,) = named(machine_pool()).claimed_slots
    assert slot.step_key == "refresh_frames"
    second = threads.submit(refresh, write(evaluations), "b")
    until(lambda: named(machine_pool()).pending_step_count == 1)
    goes_on.set()
    assert first.result(WAITS_SECONDS) == second.result(WAITS_SECONDS) == []
    assert named(machine_pool()).claimed_slots == []


@pytest.mark.slow
def test_a_limit_is_dagsters_and_can_be_raised(
    write: Callable[..., Project], servers: tuple[Gate, Gate], threads: ThreadPoolExecutor
) -> None:
    server, _ = servers
    first, second = one_asks_and_one_waits(server, write, threads)
    with open_instance() as instance:
        instance.event_log_storage.set_concurrency_slots(server.pool, 2)
    until(lambda: len(pool(server).claimed_slots) == 2)
    server.is_open = True
    assert first.result(WAITS_SECONDS) == second.result(WAITS_SECONDS) == []


@pytest.mark.slow
def test_who_waits_at_a_free_slot_is_not_overlooked(
    write: Callable[..., Project], servers: tuple[Gate, Gate]
) -> None:
    """Dagster assigns a slot when one comes or when it comes free, and never in between."""
    server, _ = servers
    server.is_open = True
    project = write({"a": {"model": "one"}})
    with open_instance() as instance:
        storage = instance.event_log_storage
        assert isinstance(storage, SqlEventLogStorage)
        storage.initialize_concurrency_limit_to_default(server.pool)
        storage_class, assigns = type(storage), type(storage).add_pending_step

        def overlooked(self: SqlEventLogStorage, *args: Any, **more: Any) -> None:
            assigns(self, *args, **(more | {"should_assign": False}))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage_class, "add_pending_step", overlooked)
            assert refresh(project, "a") == []


def test_of_those_who_come_at_once_one_alone_has_the_slot(home: Path) -> None:
    pools = [f"pool_{number}" for number in range(40)]
    comers = 3
    all_are_here = threading.Barrier(comers, timeout=WAITS_SECONDS)

    def claims(run_id: str) -> list[bool]:
        run, has_it = dg.DagsterRun(job_name="made_up", run_id=run_id), []
        with open_instance() as instance, InstanceConcurrencyContext(instance, run) as slots:
            for number, pool in enumerate(pools):
                all_are_here.wait()
                has_it.append(claim(instance, slots, pool, f"step_{number}"))
        return has_it

    with open_instance() as instance:
        for pool in pools:
            instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
    with ThreadPoolExecutor(comers) as threads:
        claimed = threads.map(claims, [make_new_run_id() for _ in range(comers)])
    assert [sum(of_pool) for of_pool in zip(*claimed, strict=True)] == [1] * len(pools)


ASKS = """
import sys
from assets.instance import open_instance
from videomme_pipeline.project.project import open_project
from assets.run import refresh_project

with open_instance() as instance:
    project = open_project(on_progress=lambda progress: print(progress.what, flush=True))
    print(len(refresh_project(project, instance, sys.argv[1:]).not_fresh), flush=True)
"""


@pytest.mark.slow
def test_a_run_that_waits_can_be_ended_and_one_that_is_killed_holds_nobody_up(
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

    def run_with(status: dg.DagsterRunStatus) -> str:
        with open_instance() as instance:
            (run,) = instance.get_runs(dg.RunsFilter(statuses=[status]))
        return run.run_id

    holder = start("a")
    until(lambda: server.in_flight)
    killed = run_with(dg.DagsterRunStatus.STARTED)
    impatient = start("b")
    until(lambda: pool(server).pending_step_count == 1)
    impatient.send_signal(signal.SIGINT)
    impatient.wait(WAITS_SECONDS)
    ended = pool(server)
    assert ended.pending_step_count == 0
    assert [slot.run_id for slot in ended.claimed_slots] == [killed]
    with open_instance() as instance:
        assert end_dead_runs(instance) == [], "the holder lives, the impatient one has ended itself"

    patient = start("b")
    until(lambda: pool(server).pending_step_count == 1)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    server.is_open = True
    said, _ = patient.communicate(timeout=WAITS_SECONDS)
    assert said.splitlines()[-1] == "0", "nothing is behind"
    assert "turn at" in said
    with open_instance() as instance:
        run = instance.get_run_by_id(killed)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.FAILURE
    assert is_free(server)
