"""Commands for the checkpoints of training runs: watch, submit, wait."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from videomme_pipeline.cli.arguments import AsJson
from videomme_pipeline.cli.context import note, open_for_run, open_project, print_json, write
from videomme_pipeline.cli.gate import FAILED, NOT_EVALUATED, UNDECIDED
from videomme_pipeline.cli.run import PLANNING
from videomme_pipeline.errors import ModelError, NotReadyError

commands = typer.Typer()

STATUS = {
    "failed": FAILED,
    "not evaluated": NOT_EVALUATED,
    "deleted": NOT_EVALUATED,
    "pending": NOT_EVALUATED,
    "undecided": UNDECIDED,
}
"""The exit status of the outcomes of checkpoints, worst first. Others have 0."""

_PREPARE = """
mutation($name: String!, $key: String!, $repository: RepositorySelector!) {
  result: addDynamicPartition(
    partitionsDefName: $name, partitionKey: $key, repositorySelector: $repository
  ) { __typename ... on PythonError { message } ... on UnauthorizedError { message } }
}
"""
_LAUNCH = """
mutation($params: ExecutionParams!) {
  result: launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PipelineNotFoundError { message }
    ... on PythonError { message }
  }
}
"""
_STATE = """
query($run: ID!) {
  result: runOrError(runId: $run) {
    __typename
    ... on Run {
      status
      assetMaterializations { metadataEntries {
        label ... on JsonMetadataEntry { jsonString }
      } }
    }
    ... on RunNotFoundError { message }
    ... on PythonError { message }
  }
}
"""


@commands.command(epilog="Example: videomme watch --once")
def watch(
    once: Annotated[
        bool, typer.Option("--once", help="Evaluate what is finished now, and stop. For cron.")
    ] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two looks.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Evaluate the checkpoints of training runs as they are written.

    checkpoints.yaml names the training runs. A checkpoint is finished if no file
    changed between two looks. The sensor `checkpoints` of the Dagster UI does the
    same, so you need only one of them. With --once, exits with the status of the
    worst gate, as `videomme gate` does.
    """
    note(PLANNING)
    from datetime import UTC, datetime

    from videomme_pipeline.assets.checkpoints import watch_once
    from videomme_pipeline.assets.processes import end_dead_runs
    from videomme_pipeline.project.checkpoints import record_finished

    with open_for_run(None) as (project, instance):
        end_dead_runs(instance, datetime.now(UTC))
        seen = record_finished(project, {})
        evaluated: list[dict[str, Any]] = []
        while True:
            if seen or not once:
                time.sleep(every)
            seen, rows = watch_once(project.reopened(), instance, seen)
            evaluated += map(asdict, rows)
            if not as_json:
                _show(evaluated[-len(rows) :] if rows else [])
            if once:
                break
    if as_json:
        print_json(evaluated)
    raise typer.Exit(status_of([row["outcome"] for row in evaluated]))


def status_of(outcomes: Collection[str]) -> int:
    """The exit status of the worst outcome."""
    return next((status for outcome, status in STATUS.items() if outcome in outcomes), 0)


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        write(f"{row['evaluation']}: {row['outcome']}. {row['reason']}\n")


@commands.command(epilog="Example: videomme submit my-run 1000")
def submit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="An entry in checkpoints.yaml.")],
    step: Annotated[int, typer.Argument(metavar="STEP", min=0, help="The training step.")],
) -> None:
    """Launch the evaluation of a checkpoint in the running Dagster UI, and print its run id.

    A training loop or a Slurm job calls it after it has written the checkpoint.
    VIDEOMME_UI is the address of the UI. A checkpoint that has a verdict is
    compared again; stored answers are not asked again.
    """
    from videomme_pipeline.project.checkpoints import CHECKPOINT_JOB, partitions_name, training_run
    from videomme_pipeline.scoring.checkpoint import partition_key

    project = open_project()
    training_run(project.configuration, run)
    key = partition_key(run, step)
    repository = {
        "repositoryLocationName": project.runs.code_location,
        "repositoryName": "__repository__",
    }
    ask_dagster(_PREPARE, name=partitions_name(project), key=key, repository=repository)
    launched = ask_dagster(
        _LAUNCH,
        params={
            "selector": {**repository, "jobName": CHECKPOINT_JOB},
            "mode": "default",
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": key}]},
        },
    )
    if launched["__typename"] != "LaunchRunSuccess":
        raise NotReadyError(
            f"the UI did not launch {key}: {launched.get('message', launched['__typename'])}; if "
            "checkpoints.yaml was edited, reload the code location in the UI"
        )
    write(f"{launched['run']['runId']}\n")


@commands.command(epilog="Example: videomme wait $(videomme submit my-run 1000) --json")
def wait(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `submit` printed.")],
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two looks.")
    ] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Wait for the verdict on a submitted checkpoint.

    Exits with the status of the worst gate, as `videomme gate` does.
    """
    from videomme_pipeline.project.checkpoints import VERDICTS
    from videomme_pipeline.project.nightly.alerts import ui_address

    while True:
        state = ask_dagster(_STATE, run=run_id)
        if state["__typename"] != "Run":
            raise NotReadyError(f"run {run_id}: {state.get('message')}; check the id")
        if state["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
            break
        time.sleep(every)
    rows: list[dict[str, Any]] = next(
        (
            json.loads(entry["jsonString"])
            for materialization in state["assetMaterializations"]
            for entry in materialization["metadataEntries"]
            if entry["label"] == VERDICTS
        ),
        [],
    )
    if as_json:
        print_json(rows)
    else:
        _show(rows)
    if not rows:
        note(f"Not evaluated: the run ended with {state['status']}. {ui_address()}/runs/{run_id}")
    raise typer.Exit(status_of([row["outcome"] for row in rows] or ["not evaluated"]))


def ask_dagster(query: str, **variables: object) -> dict[str, Any]:
    """The field `result` of a GraphQL query to the running UI.

    Raises:
        ModelError: if the UI does not answer.
    """
    from videomme_pipeline.models.endpoint.served import get
    from videomme_pipeline.project.nightly.alerts import UI_VARIABLE, ui_address

    address = ui_address()
    try:
        posted = {"query": query, "variables": variables}
        reply = json.loads(get(f"{address}/graphql", None, posted=posted))
    except (ModelError, ValueError) as error:
        raise NotReadyError(
            f"{address}: no Dagster UI answers ({error}); start `videomme ui` in the project's "
            f"folder, or set {UI_VARIABLE} to its address"
        ) from error
    if "errors" in reply:
        raise NotReadyError(f"{address}: {reply['errors'][0]['message']}; is it Dagster 1.13?")
    result: dict[str, Any] = reply["data"]["result"]
    return result
