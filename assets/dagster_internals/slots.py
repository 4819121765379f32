"""The slots that steps hold: at an endpoint while they ask there, of the machine while they use it.

Dagster gives a step one pool at most, and from its first moment to its last; a step here asks
several endpoints, one after the other. So it claims each slot itself, by Dagster's own rules
(limits, defaults, the queue of those that wait). That needs what Dagster does not document: this
module alone uses it, and tests hold Dagster to it.
"""

import fcntl
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from sqlalchemy import text

from assets.dagster_internals.processes import end_dead_runs, note_process
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.project.progress import Progress
from videomme_pipeline.project.project import Project

LOOKS_EVERY_SECONDS = 1.0

StepContext = dg.OpExecutionContext | dg.AssetExecutionContext


def endpoint_pool(model: ModelSpec) -> str | None:
    """The concurrency pool of what a model is asked at, as a word that Dagster takes.

    None for a model that is asked in this process.
    """
    if model.endpoint is None:
        return None
    address = model.endpoint.partition("//")[2]
    return _word(address)


def machine_pool() -> str:
    """The pool of what uses all cores of this machine, or a file that one alone may write."""
    return f"machine_{_word(platform.node())}"


class StepSlots:
    """The slots of one step, one at a time; `close` frees what is left when the step ends."""

    def __init__(self, context: StepContext, on_progress: Callable[[Progress], None]) -> None:
        self._context = context
        self._on_progress = on_progress
        self._pool: str | None = None

    def endpoint(self, model: ModelSpec) -> AbstractContextManager[None]:
        return self.hold(endpoint_pool(model))

    @contextmanager
    def hold(self, pool: str | None) -> Iterator[None]:
        """Have a slot of `pool` inside the block; wait for it while other runs have all of them."""
        if pool is None:
            yield
            return
        assert self._pool is None, f"already holds a slot of {self._pool}"
        context, step = self._context, _step_key(self._context)
        self._pool = pool
        with InstanceConcurrencyContext(context.instance, context.run) as slots:
            try:
                if not claim(context.instance, slots, pool, step):
                    self._show_wait(pool, is_over=False)
                    _wait(context, slots, pool, step)
                    self._show_wait(pool, is_over=True)
                yield
            finally:
                slots.free_step(step)
                self._pool = None

    def close(self) -> None:
        """Free the slot of a block that was never left."""
        if self._pool is not None:
            storage = self._context.instance.event_log_storage
            storage.free_concurrency_slot_for_step(
                self._context.run.run_id, _step_key(self._context)
            )

    def _show_wait(self, pool: str, *, is_over: bool) -> None:
        what = f"turn at {pool}, which another run has"
        self._on_progress(Progress(what=what, done=int(is_over), total=1))


@contextmanager
def within_step(
    project: Project,
    context: StepContext,
    *,
    takes_machine: bool,
    most_dollars: float | None = None,
) -> Iterator[None]:
    """Run the block as the work of one step of a run.

    Notes the process on the run, limits the money that the run may spend on models over all of
    its steps, and gives the project slots. A step that `takes_machine` waits until no other such
    step works on this machine.
    """
    note_process(context.instance, context.run)
    project.spending.begin(context.run.run_id, most_dollars)
    slots = StepSlots(context, project.on_progress)
    pool = machine_pool() if takes_machine else None
    with closing(slots), project.using(slots), slots.hold(pool):
        yield


def _wait(
    context: StepContext,
    slots: InstanceConcurrencyContext,
    pool: str,
    step: str,
) -> None:
    """Wait for a slot, and say so in the log. A run that was killed holds none for long."""
    instance, began = context.instance, time.monotonic()
    held = instance.event_log_storage.get_concurrency_info(pool).claimed_slots
    runs = ", ".join(sorted({slot.run_id.partition("-")[0] for slot in held}))
    context.log.info(f"waits for a slot of the pool {pool}, which is held by run {runs}")
    while not claim(instance, slots, pool, step):
        end_dead_runs(instance)
        _wake(instance, pool)
        time.sleep(LOOKS_EVERY_SECONDS)
    waited = time.monotonic() - began
    context.log.info(f"has a slot of the pool {pool} after {waited:.0f} seconds")


def claim(
    instance: dg.DagsterInstance, slots: InstanceConcurrencyContext, pool: str, step: str
) -> bool:
    """Take a free slot if there is one."""
    with _alone(instance, pool):
        return slots.claim(pool, step)


@contextmanager
def _alone(instance: dg.DagsterInstance, pool: str) -> Iterator[None]:
    """One claims at a time: Dagster finds a free slot first and takes it then, so that two who
    come at once would both have it. An instance over SQLite is on one machine."""
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        with (Path(instance.root_directory) / ".claims").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    elif isinstance(storage, SqlEventLogStorage) and storage.supports_global_concurrency_limits:
        with storage.index_connection() as connection:
            connection.execute(text("select pg_advisory_lock(hashtext(:pool))"), {"pool": pool})
            try:
                yield
            finally:
                connection.execute(
                    text("select pg_advisory_unlock(hashtext(:pool))"), {"pool": pool}
                )
    else:
        yield


def _wake(instance: dg.DagsterInstance, pool: str) -> None:
    """Give a free slot to the first who waits.

    Who begins to wait in the moment in which the only holder leaves is overlooked by Dagster.
    """
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    if storage.has_unassigned_slots(pool):
        storage.assign_pending_steps([pool])


def _word(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)


def _step_key(context: StepContext) -> str:
    return context.get_step_execution_context().step.key
