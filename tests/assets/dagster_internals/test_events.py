"""Events stored in batches are equal to events that Dagster stores itself."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.base import EventLogStorage

from tests.support.projects import ALL, EVERYTHING, needs_postgres
from tests.support.stored_events import materializations
from videomme_pipeline.assets.dagster_internals import EVENTS_AT_A_TIME, EventBatch
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.runner import DATA_VERSION_TAG
from videomme_pipeline.project.project import Project
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

KEY = dg.AssetKey(["made", "up"])


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """An empty instance on each storage."""
    with open_instance() as instance:
        yield instance


def event(number: int) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        KEY,
        partition=f"key-{number}",
        metadata={"number": number},
        tags={DATA_VERSION_TAG: f"version-{number}"},
    )


def run(
    instance: dg.DagsterInstance, body: Callable[[dg.OpExecutionContext], None]
) -> dg.ExecuteInProcessResult:
    @dg.op
    def step(context: dg.OpExecutionContext) -> None:
        body(context)

    @dg.job
    def job() -> None:
        step()

    return job.execute_in_process(instance=instance, raise_on_error=False)


def stored(instance: dg.DagsterInstance, run_id: str) -> list[dict[str, Any]]:
    """The events of a run, without their times."""
    events = []
    for entry in materializations(instance, run_id):
        materialization = entry.asset_materialization
        assert materialization is not None
        events.append(
            {
                "partition": materialization.partition,
                "tags": materialization.tags,
                "metadata": {k: v.value for k, v in materialization.metadata.items()},
                "step": entry.step_key,
                "job": entry.job_name,
                "level": entry.level,
                "event": entry.get_dagster_event().event_type,
            }
        )
    return events


def test_a_batch_stores_the_same_as_single_events(
    instance: dg.DagsterInstance, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = range(EVENTS_AT_A_TIME + 3)

    def one_by_one(context: dg.OpExecutionContext) -> None:
        for number in numbers[:5]:
            context.log_event(event(number))

    def together(context: dg.OpExecutionContext) -> None:
        with EventBatch(context) as events:
            for number in numbers:
                events.add(event(number))

    singly, batched = run(instance, one_by_one), run(instance, together)
    expected, actual = stored(instance, singly.run_id), stored(instance, batched.run_id)
    assert len(actual) == len(numbers)
    assert actual[:5] == expected
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        KEY, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
    )
    assert tags == {f"key-{n}": {DATA_VERSION_TAG: f"version-{n}"} for n in numbers}
    newest = instance.get_latest_materialization_event(KEY)
    assert newest is not None
    assert newest.run_id == batched.run_id
    assert newest.asset_materialization == event(numbers[-1])
    assert instance.get_materialized_partitions(KEY) == {f"key-{n}" for n in numbers}
    assert "one by one" not in caplog.text, "the batch was not stored as a batch"


def test_the_log_of_a_run_has_one_entry_per_batch_on_sqlite(instance: dg.DagsterInstance) -> None:
    def together(context: dg.OpExecutionContext) -> None:
        with EventBatch(context) as events:
            for number in range(EVENTS_AT_A_TIME + 1):
                events.add(event(number))

    result = run(instance, together)
    logged = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    if not isinstance(instance.event_log_storage, SqliteEventLogStorage):
        assert len(logged) == EVENTS_AT_A_TIME + 1
        return
    batch, last = (entry.get_dagster_event() for entry in logged)
    first_names = ", ".join(f"key-{number}" for number in range(5))
    assert batch.message == f"Materialized made/up: {first_names} and 495 more."
    assert last.partition == f"key-{EVENTS_AT_A_TIME}"
    assert len(materializations(instance, result.run_id)) == EVENTS_AT_A_TIME + 1
    assert instance.get_asset_keys_for_run(result.run_id) == {KEY}


def test_another_process_never_reads_an_event_without_its_version(
    instance: dg.DagsterInstance,
) -> None:
    def again_and_again(context: dg.OpExecutionContext) -> None:
        for _ in range(4):
            with EventBatch(context) as events:
                events.add(event(1))

    def read_until_all_are_written() -> None:
        with open_instance() as another:
            while not is_written.is_set():
                tags = another.event_log_storage.get_latest_tags_by_partition(
                    KEY, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
                )
                assert tags == {"key-1": {DATA_VERSION_TAG: "version-1"}}

    run(instance, again_and_again)
    is_written = threading.Event()
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(read_until_all_are_written)
        run(instance, again_and_again)
        is_written.set()
    reading.result()


def test_events_before_an_error_are_stored(instance: dg.DagsterInstance) -> None:
    def fail(context: dg.OpExecutionContext) -> None:
        with EventBatch(context) as events:
            events.add(event(1))
            raise RuntimeError

    result = run(instance, fail)
    assert not result.success
    assert [event["partition"] for event in stored(instance, result.run_id)] == ["key-1"]


def test_if_storing_a_batch_fails_events_are_stored_one_by_one(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def reject(storage: EventLogStorage, events: object) -> None:
        raise TypeError("another signature")

    monkeypatch.setattr("videomme_pipeline.assets.dagster_internals._store_in_sql", reject)

    def together(context: dg.OpExecutionContext) -> None:
        with EventBatch(context) as events:
            events.add(event(1))
            events.add(event(2))

    result = run(instance, together)
    assert [event["partition"] for event in stored(instance, result.run_id)] == ["key-1", "key-2"]
    assert "one by one" in caplog.text


@pytest.mark.slow
@needs_postgres
def test_a_project_is_refreshed_over_postgres(
    project: Project, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "empty-home"))
    monkeypatch.setenv(POSTGRES_VARIABLE, postgres_url)
    shutil.rmtree(project.store.root.path)
    project = project.reopened()
    with open_instance() as instance:
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        refreshed = refresh_project(project, instance, ALL)
        assert (refreshed.built, refreshed.not_fresh) == (EVERYTHING, [])
        assert refresh_project(project, instance, ALL).run_id is None
