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
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from sqlalchemy import text

from assets.dagster_internals.processes import end_dead_runs
from videomme_pipeline.models.spec import ModelSpec

LOOKS_EVERY_SECONDS = 1.0

OnWait = Callable[[str, bool], None]
"""Called with a pool when waiting for it begins (False) and when it is over (True)."""

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


class Slots:
    """What the step that works now holds: one slot at a time; outside of steps none is needed."""

    def __init__(self) -> None:
        self._context: StepContext | None = None
        self._pool: str | None = None

    @contextmanager
    def within(self, context: StepContext) -> Iterator[None]:
        """The block is the work of one step; whatever it still holds comes free in the end."""
        self._context = context
        try:
            yield
        finally:
            self._context = None
            if self._pool is not None:
                self._pool = None
                storage = context.instance.event_log_storage
                storage.free_concurrency_slot_for_step(context.run.run_id, _step_key(context))

    @contextmanager
    def hold(self, pool: str | None, on_wait: OnWait) -> Iterator[None]:
        """Have a slot of a pool in the block; wait for it where others hold all of them."""
        context = self._context
        if context is None or pool is None:
            yield
            return
        assert self._pool is None, f"already holds a slot of {self._pool}"
        step, self._pool = _step_key(context), pool
        with InstanceConcurrencyContext(context.instance, context.run) as slots:
            try:
                if not claim(context.instance, slots, pool, step):
                    on_wait(pool, False)
                    _wait(context, slots, pool, step)
                    on_wait(pool, True)
                yield
            finally:
                slots.free_step(step)
                if self._context is context:
                    self._pool = None


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
