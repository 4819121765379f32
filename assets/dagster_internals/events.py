"""Materialization events of one step: many at a time, and each partition with its own.

Both need what Dagster does not document; this module alone uses it, and tests hold Dagster to it.
`store_event_batch` stores many events at once, where Dagster's own way stores, and commits, one
after the other: where it is not there or refuses, so is done here. SQLite stores one by one in any
case; PostgreSQL takes a batch in three statements.
"""

import logging
import time
from collections.abc import Sequence
from types import TracebackType

import dagster as dg
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import DagsterEventType, StepMaterializationData

EVENTS_AT_A_TIME = 500
SECONDS_AT_MOST = 2.0
"""So that the UI shows what is made while it is made."""


class EventBatch:
    """Collects the materializations of a step and stores them in time, at the latest on leaving.

    `with EventBatch(context) as events: events.add(materialization)`. What was added before an
    exception is stored too.
    """

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._held: list[dg.EventLogEntry] = []
        self._stored_at = time.monotonic()

    def __enter__(self) -> "EventBatch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.store()

    def add(self, materialization: dg.AssetMaterialization) -> None:
        """Take one event, and store all that are held when they are many or old enough."""
        self._held.append(_entry(self._context, materialization))
        waited = time.monotonic() - self._stored_at
        if len(self._held) >= EVENTS_AT_A_TIME or waited >= SECONDS_AT_MOST:
            self.store()

    def store(self) -> None:
        """Store what is held now."""
        held, self._held = self._held, []
        if held:
            store_events(self._context.instance, held)
        self._stored_at = time.monotonic()


def output_without_event() -> dg.Output[None]:
    """The output of an asset whose partitions all had their own events.

    An ordinary output reports every partition of the run with one data version, those that failed
    too; without any output, Dagster skips the assets behind. Observed sources have the same
    need, and Dagster's mark for them is what is used.
    """
    return dg.Output(None, metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True})


def store_events(instance: dg.DagsterInstance, events: Sequence[dg.EventLogEntry]) -> None:
    """Store materialization events at once where the storage can, else one by one."""
    storage = instance.event_log_storage
    store_batch = getattr(storage, "store_event_batch", None)
    if store_batch is not None:
        try:
            store_batch(events)
        except Exception:  # whatever an internal interface raises, single events can be stored
            logging.getLogger(__name__).exception("events are stored one by one")
        else:
            return
    for event in events:
        storage.store_event(event)


def _entry(
    context: dg.OpExecutionContext, materialization: dg.AssetMaterialization
) -> dg.EventLogEntry:
    """The log entry that `context.log_event` would store."""
    step = context.get_step_execution_context()
    message = materialization.asset_key.to_user_string()
    event = dg.DagsterEvent(
        event_type_value=DagsterEventType.ASSET_MATERIALIZATION.value,
        job_name=step.job_name,
        step_handle=step.step.handle,
        node_handle=step.step.node_handle,
        step_kind_value=step.step.kind.value,
        logging_tags=step.event_tags,
        event_specific_data=StepMaterializationData(materialization),
        message=f"Materialized {message} {materialization.partition or ''}".rstrip() + ".",
    )
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None,
        level=logging.DEBUG,
        user_message="",
        run_id=context.run_id,
        timestamp=time.time(),
        step_key=step.step.key,
        job_name=step.job_name,
        dagster_event=event,
    )
