"""`checkpoints`: the gate of each checkpoint of a training run, in a partition `RUN|STEP`.

A checkpoint is an ordinary evaluation, so a killed run continues, and nothing is asked twice.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import dagster as dg
from upath import UPath

from videomme_pipeline.assets.keys import group_name, key_in, partition_url
from videomme_pipeline.assets.processes import EVALUATIONS_TAG, PARTITION_TAG, QUIET, run_here
from videomme_pipeline.assets.stages.metadata import column_schema, metadata_of, rounded
from videomme_pipeline.assets.triggers.jobs import refresh_within
from videomme_pipeline.errors import NotReadyError, VideoMMEError, one_line
from videomme_pipeline.fingerprint import version_of
from videomme_pipeline.project.checkpoints import (
    CHECKPOINT_JOB,
    VERDICTS,
    Look,
    decide_checkpoint,
    next_pending,
    record_finished,
    training_run,
)
from videomme_pipeline.project.nightly.alerts import Alert, send
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.trackers import log_checkpoint
from videomme_pipeline.scoring.verdicts import (
    Checkpoint,
    CheckpointOutcome,
    read_checkpoints,
    write_checkpoint,
)
from videomme_pipeline.stages.facts import chart_picture
from videomme_pipeline.stages.plan import Freshness, failure_groups, plan_project

MAX_FAILURES = 3
"""A checkpoint is given up after so many runs whose process died."""
SECONDS_BETWEEN_LOOKS = 10.0
_GATE = "gate"
_NUMBERS = (
    *("outcome", "reference", "score", "score_low", "score_high"),
    *("difference", "p_value", "questions"),
)
"""Columns of the view `accuracy_by_checkpoint` that the UI shows."""


def checkpoints_key(project: Project) -> dg.AssetKey:
    """The asset key of all checkpoints."""
    return key_in(project, "checkpoints")


def _partitions_name(project: Project) -> str:
    """Dagster's name of the partitions `RUN|STEP`, one per recorded checkpoint."""
    return f"{project.runs.prefix}checkpoints"


def checkpoints_asset(project: Project) -> dg.AssetsDefinition:
    """The asset of all checkpoints, with the check that the gate passed."""
    key = checkpoints_key(project)

    @dg.asset(
        key=key,
        description="Checkpoints of training runs and the verdicts on them.",
        group_name=group_name(f"{project.runs.prefix}results"),
        kinds={"parquet"},
        tags={"stage": "checkpoints"},
        partitions_def=dg.DynamicPartitionsDefinition(name=_partitions_name(project)),
        metadata={"dagster/column_schema": column_schema(Checkpoint)},
        check_specs=[
            dg.AssetCheckSpec(
                _GATE,
                asset=key,
                description="Neither this checkpoint nor the newest one of its training run is "
                "worse than its reference.",
            )
        ],
    )
    def checkpoints(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        step = context.op_execution_context
        current = _with_checkpoint(project.reopened(), context.partition_key)
        _add_partitions(current, context.instance)
        rows = _evaluate(step, current, context.partition_key)
        problems = [row.reason for row in rows if row.outcome is CheckpointOutcome.NOT_EVALUATED]
        metadata = _metadata(project, rows)  # takes seconds, so nothing is stored before
        write_checkpoint(project.store, rows)
        yield dg.MaterializeResult(
            asset_key=key,
            metadata=metadata,
            data_version=dg.DataVersion(version_of(rows)),
            check_results=[_check_result(key, [*rows, *_newest_after(project, rows[0])])],
        )
        evaluated = [row.evaluation for row in rows if row.outcome is not CheckpointOutcome.DELETED]
        if evaluated:  # the warehouse and the page show the verdict
            refresh_within(step, current.reopened(), evaluated)
        if problems:
            raise dg.Failure("; ".join(map(str, problems)), allow_retries=False)

    return checkpoints


def checkpoint_definitions(project: Project) -> dg.Definitions:
    """The asset of all checkpoints, the job that evaluates one of them, and the sensor."""
    job = dg.define_asset_job(
        CHECKPOINT_JOB,
        selection=dg.AssetSelection.assets(checkpoints_key(project)),
        description="Evaluate a checkpoint and compare it with its reference.",
        config={"loggers": QUIET},
    )
    return dg.Definitions(
        assets=[checkpoints_asset(project)], jobs=[job], sensors=[checkpoint_sensor(project)]
    )


def checkpoint_sensor(project: Project) -> dg.SensorDefinition:
    """Record finished checkpoints, and request one run for each, in the order of the steps."""

    @dg.sensor(
        name="checkpoints",
        job_name=CHECKPOINT_JOB,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Evaluate the checkpoints of the training runs in checkpoints.yaml.",
    )
    def checkpoints(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        current = project.reopened()
        try:
            look = record_finished(current, json.loads(context.cursor) if context.cursor else {})
        except VideoMMEError as error:
            return dg.SkipReason(str(error))
        requests = [
            dg.RunRequest(
                run_key=f"{row.key} {row.recorded_at.isoformat()} {attempts}",
                partition_key=row.key,
                tags={EVALUATIONS_TAG: row.evaluation, PARTITION_TAG: row.key},
            )
            for row, attempts in due_checkpoints(current, context.instance)
        ]
        _add_partitions(current, context.instance)
        for problem in look.problems:
            context.log.warning(problem)
        not_finished = f"not finished: {', '.join(look.unfinished) or 'none'}"
        return dg.SensorResult(
            run_requests=requests,
            cursor=json.dumps(look.unfinished),
            skip_reason=None if requests else "; ".join([not_finished, *look.problems]),
        )

    return checkpoints


def due_checkpoints(project: Project, instance: dg.DagsterInstance) -> list[tuple[Checkpoint, int]]:
    """The first pending checkpoint of each training run that no run works on.

    The second values count the runs so far. After too many dead ones, a checkpoint is given up.
    """
    due = []
    for rows in next_pending(project):
        filters = dg.RunsFilter(job_name=CHECKPOINT_JOB, tags={PARTITION_TAG: rows[0].key})
        records = instance.get_run_records(filters)
        if not all(record.dagster_run.is_finished for record in records):
            continue  # it may have been submitted, and recorded by its own run
        failures = sum(
            record.dagster_run.status is dg.DagsterRunStatus.FAILURE
            and record.create_timestamp >= rows[0].recorded_at
            for record in records
        )
        if failures >= MAX_FAILURES:
            reason = f"{failures} runs ended without a result; see their logs in the UI"
            write_checkpoint(project.store, [_not_evaluated(row, reason) for row in rows])
        else:
            due.append((rows[0], len(records)))
    return due


def watch_once(
    project: Project, instance: dg.DagsterInstance, seen: Mapping[str, str]
) -> tuple[Look, list[Checkpoint]]:
    """Record finished checkpoints, and evaluate all pending ones in this process.

    `seen` is `unfinished` of the look before. The second result has the evaluated checkpoints.
    """
    look = record_finished(project, seen)
    evaluated: list[Checkpoint] = []
    while due := due_checkpoints(project, instance):
        for row, _ in due:
            evaluated += run_checkpoint(project.reopened(), instance, row.key)
    return look, evaluated


def run_checkpoint(project: Project, instance: dg.DagsterInstance, key: str) -> list[Checkpoint]:
    """Run the job for one checkpoint in this process, and return its rows."""
    run_here(project, instance, checkpoint_definitions(project), CHECKPOINT_JOB, partition_key=key)
    return [row for row in read_checkpoints(project.store) if row.key == key]


def _with_checkpoint(project: Project, key: str) -> Project:
    """The project in which a checkpoint is recorded, if it is finished.

    Raises ConfigurationError without an entry for the training run, or else NotReadyError.
    """

    def is_recorded() -> bool:
        return any(row.key == key for row in read_checkpoints(project.store))

    if is_recorded():
        return project
    look = record_finished(project, {})
    if key in look.unfinished:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        look = record_finished(project, look.unfinished)
    if not is_recorded():
        run, _, step = key.rpartition("|")
        spec = training_run(project.configuration, run)
        state = f"does not exist: no folder of this step matches {spec.pattern}"
        if key in look.unfinished:
            state = f"is not finished: {spec.complete} is missing, or files still change"
        state = "; ".join([state, *look.problems])
        raise NotReadyError(f"checkpoint {step} of {run} {state}; submit it again once it is there")
    return project.reopened()


def _evaluate(context: dg.OpExecutionContext, project: Project, key: str) -> list[Checkpoint]:
    """Evaluate a checkpoint with each template, and send an alert if a gate fails."""
    recorded = read_checkpoints(project.store)
    rows = [row for row in recorded if row.key == key]
    baseline = training_run(project.configuration, rows[0].run).baseline
    names = [*(row.evaluation for row in rows), *filter(None, [baseline])]
    problems: list[str] = []
    if UPath(rows[0].folder).exists():
        with project.servers, project.keeping_workers():
            refresh_within(context, project, names)
        states = plan_project(project, names)
        not_fresh = [state for state in states if state.freshness is not Freshness.FRESH]
        asking = [state.reason for state in not_fresh if state.stage.asks_models and state.reason]
        problems = asking or [group.reason for group in failure_groups(not_fresh)]
    decided = [_decided(project, row, recorded, problems) for row in rows]
    _alert(project, [new for new, row in zip(decided, rows, strict=True) if new != row])
    _track(project, decided)
    return decided


def _decided(
    project: Project, row: Checkpoint, recorded: Sequence[Checkpoint], problems: Sequence[str]
) -> Checkpoint:
    try:
        return decide_checkpoint(project, row, recorded)
    except VideoMMEError as error:
        if UPath(row.folder).exists():
            return _not_evaluated(row, problems[0] if problems else str(error))
        reason = f"{row.folder} was deleted before the checkpoint was evaluated"
        return replace(row, outcome=CheckpointOutcome.DELETED, reason=reason)


def _not_evaluated(row: Checkpoint, reason: str) -> Checkpoint:
    return replace(row, outcome=CheckpointOutcome.NOT_EVALUATED, reason=reason)


def _add_partitions(project: Project, instance: dg.DagsterInstance) -> None:
    """Add the partitions of recorded checkpoints, in the order of their steps."""
    keys = dict.fromkeys(row.key for row in read_checkpoints(project.store))
    instance.add_dynamic_partitions(_partitions_name(project), list(keys))


def _alert(project: Project, rows: Sequence[Checkpoint]) -> None:
    """Send an alert about the gates that failed. A service that is down stops no checkpoint."""
    failed = [row for row in rows if row.outcome is CheckpointOutcome.FAILED]
    if not failed:
        return
    title = f"{rows[0].run}, step {rows[0].step:,}: the gate failed"
    lines = [f"- {row.template}: {one_line(str(row.reason))}" for row in failed]
    body = "\n".join([*lines, "", partition_url(checkpoints_key(project), rows[0].key)])
    try:
        send(Alert(title=title, body=body), project.runs.prefix)
    except VideoMMEError as error:
        dg.get_dagster_logger().warning(str(error))


def _track(project: Project, rows: Sequence[Checkpoint]) -> None:
    """Log the checkpoint to the tracker of its training run. Its failure stops no checkpoint."""
    run, step = rows[0].run, rows[0].step
    tracker = training_run(project.configuration, run).tracker
    if tracker is None:
        return
    points = [point for point in _points(project, run, rows) if point["step"] == step]
    try:
        log_checkpoint(
            tracker, run, step, points, partition_url(checkpoints_key(project), rows[0].key)
        )
    except Exception as error:  # noqa: BLE001 - each tracker has its own errors
        dg.get_dagster_logger().warning(f"{tracker}: step {step} of {run} is not logged ({error})")


def _check_result(key: dg.AssetKey, rows: Sequence[Checkpoint]) -> dg.AssetCheckResult:
    failing = (CheckpointOutcome.FAILED, CheckpointOutcome.NOT_EVALUATED)
    is_error = any(row.outcome in failing for row in rows)
    is_deleted = any(row.outcome is CheckpointOutcome.DELETED for row in rows)
    return dg.AssetCheckResult(
        passed=not is_error and not is_deleted,
        asset_key=key,
        check_name=_GATE,
        severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        description="; ".join(
            f"step {row.step}, {row.template}: {row.outcome}. {row.reason}" for row in rows
        ),
    )


def _newest_after(project: Project, row: Checkpoint) -> list[Checkpoint]:
    """The newest checkpoint with an outcome, if it is a later one: the check has a single state."""
    later = [
        other
        for other in read_checkpoints(project.store)
        if other.run == row.run
        and other.step > row.step
        and other.outcome is not CheckpointOutcome.PENDING
    ]
    return [other for other in later if other.step == later[-1].step]


def _metadata(project: Project, rows: Sequence[Checkpoint]) -> dict[str, Any]:
    """The numbers of a checkpoint, which the UI plots over the partitions, and its curves."""
    points = _points(project, rows[0].run, rows)
    numbers: dict[str, Any] = {"step": rows[0].step}
    for point in points:
        if point["step"] == rows[0].step:
            suffix = f" of {point['template']}" if len(rows) > 1 else ""
            numbers |= {f"{name}{suffix}": point[name] for name in _NUMBERS}

    curve = chart_picture(lambda charts: charts.checkpoint_chart(points), "Score by training step")
    return metadata_of(
        {**rounded(numbers), "curve": curve, VERDICTS: [asdict(row) for row in rows]}
    )


def _points(project: Project, run: str, decided: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    """The rows of `accuracy_by_checkpoint` for a training run, with verdicts not stored yet."""
    from videomme_pipeline.warehouse.database import connect, query  # noqa: PLC0415 - loads DuckDB

    with connect(project.store) as connection:
        sql = "select * from accuracy_by_checkpoint where run = ? order by template, step"
        points = query(connection, sql, [run])
    verdicts = {
        (row.template, row.step): asdict(row) | {"outcome": row.outcome.value} for row in decided
    }
    return [point | verdicts.get((point["template"], point["step"]), {}) for point in points]
