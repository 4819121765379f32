"""Everything that uses private parts of Dagster: stored events, results of checks, and runs.

Dagster commits every event separately, which takes 11 `fdatasync` calls on SQLite. `_store_in_sql`
stores the materializations of a step in batches, with three or four statements. If that fails,
events are stored one by one.

On SQLite, the log of a run is a database of its own, which only the page of the run reads. It gets
one entry per batch, because the page needs about a millisecond of CPU time for each entry.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

import dagster as dg
from dagster._core import remote_origin
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import DagsterEventType, StepMaterializationData
from dagster._core.execution.api import execute_run
from dagster._core.storage.event_log import (
    SqlEventLogStorage,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
)

from videomme_pipeline.errors import listed

EVENTS_AT_A_TIME = 500
SECONDS_AT_MOST = 2.0
"""The longest delay before the UI shows what was built."""
REPOSITORY = "__repository__"
"""Dagster's name of the repository of a code location with definitions."""


class EventBatch(AbstractContextManager["EventBatch"]):
    """Stores the materializations of a step in batches, and the rest on leaving the block."""

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._pending: list[dg.EventLogEntry] = []
        self._stored_at = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.store()

    def add(self, materialization: dg.AssetMaterialization) -> None:
        """Add one event, and store the pending ones if the batch is full or two seconds old."""
        self._pending.append(_entry(self._context, materialization))
        waited = time.monotonic() - self._stored_at
        if len(self._pending) >= EVENTS_AT_A_TIME or waited >= SECONDS_AT_MOST:
            self.store()

    def store(self) -> None:
        """Store the pending events, which are of one asset: in one batch, or else one by one."""
        events, self._pending = self._pending, []
        if not events:
            return
        storage = self._context.instance.event_log_storage
        try:
            if isinstance(storage, SqlEventLogStorage):
                _store_in_sql(storage, events)
            else:
                storage.store_event_batch(events)
        except Exception:  # an internal interface may raise anything; single events still work
            logging.getLogger(__name__).exception("storing events one by one")
            for event in events:
                storage.store_event(event)
        self._stored_at = time.monotonic()


def output_without_event() -> dg.Output[None]:
    """The output of an asset whose partitions all have their own events.

    An ordinary output would report every partition, even failed ones, with one data version.
    Without one, Dagster would skip downstream assets. The metadata of observed sources avoids both.
    """
    return dg.Output(None, metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True})


def _store_in_sql(storage: SqlEventLogStorage, events: Sequence[dg.EventLogEntry]) -> None:
    """Do for a batch what `store_event` does for one event.

    One transaction stores the events with their tags, which contain the data versions. Otherwise
    a plan of another process could read an event without its version, as if the partition had never
    been built. On SQLite, the index of all runs contains the events, and the log of the run one
    entry about them. (Dagster's `store_event_batch` does this on PostgreSQL only, and compiles a
    statement for every batch.)
    """
    rows = [storage._event_to_row(event) for event in events]
    insert = SqlEventLogStorageTable.insert()
    if isinstance(storage, SqliteEventLogStorage):
        with storage.run_connection(events[0].run_id) as connection:
            connection.execute(insert, storage._event_to_row(_entry_about(events)))
    in_order = insert.returning(SqlEventLogStorageTable.c.id, sort_by_parameter_order=True)
    with storage.index_transaction() as connection:
        event_ids = connection.execute(in_order, rows).scalars().all()
        storage._store_asset_event_tags(connection, events, event_ids)
        storage._store_asset_event(connection, events[-1], event_ids[-1])


def _entry_about(events: Sequence[dg.EventLogEntry]) -> dg.EventLogEntry:
    """One entry about a batch: its only event, or one with the names of the first partitions."""
    entry = events[0]
    if len(events) == 1:
        return entry
    event = entry.get_dagster_event()
    key = event.asset_key
    assert key is not None
    names = listed([item.get_dagster_event().partition or "" for item in events])
    materialization = dg.AssetMaterialization(key, metadata={"partitions": len(events)})
    return entry._replace(
        dagster_event=event._replace(
            event_specific_data=StepMaterializationData(materialization),
            message=f"Materialized {key.to_user_string()}: {names}.",
        )
    )


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


def is_shown(current: dg.AssetCheckEvaluation, instance: dg.DagsterInstance, key: str) -> bool:
    """True if the newest result of a check says the same of the same materialization."""
    storage = instance.event_log_storage
    history = storage.get_asset_check_execution_history(current.asset_check_key, limit=1)
    shown = history[0].evaluation if history else None
    return isinstance(shown, dg.AssetCheckEvaluation) and (
        (shown.passed, shown.description) == (current.passed, current.description)
        and shown.metadata.get(key) == current.metadata.get(key)
        and shown.target_materialization_data == current.target_materialization_data
    )


def evaluation_of_newest(
    result: dg.AssetCheckResult, instance: dg.DagsterInstance
) -> dg.AssetCheckEvaluation:
    """The event of a check result about the newest materialization of its asset.

    The UI shows a result in gray unless it refers to this materialization.
    """
    assert result.asset_key is not None
    assert result.check_name is not None
    target = None
    for record in instance.fetch_materializations(result.asset_key, limit=1).records:
        target = AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
        description=result.description,
        target_materialization_data=target,
    )


def origin_of(job: dg.JobDefinition, location: str) -> remote_origin.RemoteJobOrigin:
    """The origin that the UI expects on a run of `job` in a code location."""
    code_location = remote_origin.RegisteredCodeLocationOrigin(location)
    repository = remote_origin.RemoteRepositoryOrigin(code_location, REPOSITORY)
    return repository.get_job_origin(job.name)


def execute(job: dg.JobDefinition, run: dg.DagsterRun, instance: dg.DagsterInstance) -> None:
    """Work on a run of `job` in this process. Raises its errors, or the cause of a `dg.Failure`.

    The public `execute_in_process` records no code location, and the UI leaves such runs out.
    """
    try:
        execute_run(InMemoryJob(job), run, instance, raise_on_error=True)
    except dg.Failure as failure:
        if failure.__cause__ is not None:
            raise failure.__cause__ from None
