"""Commands for the checkpoints of training runs: checkpoint watch, submit, wait."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Annotated, Any, NoReturn

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import instance_for, open_for_plan, open_project
from videomme_pipeline.cli.gate import FAILED, NOT_EVALUATED, UNDECIDED
from videomme_pipeline.cli.output import note, print_json, write
from videomme_pipeline.cli.run import PLANNING
from videomme_pipeline.errors import ConfigurationError, ModelError, NotReadyError, listed

commands = typer.Typer(no_args_is_help=True, help="Evaluate the checkpoints of training runs.")

Every = Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two looks.")]

_ANSWER_SECONDS = 60.0
"""The longest time for an answer of Dagster, which loads the project first."""
_STATUS = {"passed": 0, "failed": FAILED, "undecided": UNDECIDED}
"""The exit status of an outcome. All others have `NOT_EVALUATED`."""
_WORST_FIRST = (FAILED, NOT_EVALUATED, UNDECIDED, 0)
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_LAUNCH = """mutation($params: ExecutionParams!) { result: launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on Error { message } } }"""
_STATE = """query($run: ID!) { result: runOrError(runId: $run) {
  ... on Error { message }
  ... on Run { status assetMaterializations { metadataEntries {
    label ... on TableMetadataEntry { table { records } } } } } } }"""


@commands.command(epilog="Example: videomme checkpoint watch --once")
def watch(
    once: Annotated[
        bool, typer.Option("--once", help="Evaluate what is finished now, and stop. For cron.")
    ] = False,
    every: Every = 30.0,
    as_json: arguments.AsJson = False,
) -> None:
    """Evaluate the checkpoints of training runs as they are written.

    checkpoints.yaml names the training runs. A checkpoint is finished if no file
    changed between two looks. The sensor `checkpoints` of the Dagster UI does the
    same, so you need only one of them. With --once, exits with the status of the
    worst gate, as `videomme gate` does.
    """
    note(PLANNING)
    from videomme_pipeline.assets.checkpoints import watch_once

    unfinished: dict[str, str] = {}
    noted: set[str] = set()
    rows: list[dict[str, Any]] = []
    with open_for_plan(None) as project, instance_for(project) as instance:
        for look in count():
            seen, evaluated = watch_once(project.reopened(), instance, unfinished)
            unfinished = seen.unfinished
            for problem in [problem for problem in seen.problems if problem not in noted]:
                note(problem)
                noted.add(problem)
            rows += map(asdict, evaluated)
            if once and (look or not unfinished):
                note(f"Not finished: {', '.join(unfinished) or 'none'}")
                break
            if not once:
                _show(map(asdict, evaluated))
            time.sleep(every)
    _end(rows, as_json=as_json)


@commands.command(epilog="Example: videomme checkpoint submit my-run 1000")
def submit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="An entry in checkpoints.yaml.")],
    step: Annotated[int, typer.Argument(metavar="STEP", min=0, help="The training step.")],
) -> None:
    """Launch the evaluation of a checkpoint in the running Dagster UI, and print its run id.

    A training loop or a Slurm job calls it after it has written the checkpoint.
    VIDEOMME_UI is the address of the UI. A checkpoint that has a verdict is
    compared again; stored answers are not asked again.
    """
    from videomme_pipeline.project.checkpoints import CHECKPOINT_JOB, training_run
    from videomme_pipeline.scoring.verdicts import partition_key, read_checkpoints

    project = open_project()
    training = training_run(project.configuration, run)
    recorded = {row.step for row in read_checkpoints(project.store) if row.run == run}
    steps = sorted(recorded.union(step for step, _ in training.folders()))
    if step not in steps:
        raise ConfigurationError(
            f"{run}, step {step}: `{training.pattern}` names no checkpoint of this step; it has "
            f"{listed([str(other) for other in steps]) or 'none'}"
        )
    selector = {
        "repositoryLocationName": project.runs.code_location,
        "repositoryName": "__repository__",
        "jobName": CHECKPOINT_JOB,
    }
    tags = [{"key": "dagster/partition", "value": partition_key(run, step)}]
    params = {"selector": selector, "mode": "default", "executionMetadata": {"tags": tags}}
    launched = _ask_dagster(_LAUNCH, params=params)
    if "run" not in launched:
        raise NotReadyError(
            f"{run}, step {step}: not launched ({launched.get('message', launched)}); if "
            "checkpoints.yaml is new, reload the code location in the UI"
        )
    write(f"{launched['run']['runId']}\n")


@commands.command(
    epilog='Example: videomme checkpoint wait "$(videomme checkpoint submit my-run 1000)" --json'
)
def wait(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `submit` printed.")],
    every: Every = 5.0,
    as_json: arguments.AsJson = False,
) -> None:
    """Wait for the verdict on a submitted checkpoint.

    Exits with the status of the worst gate, as `videomme gate` does.
    """
    from videomme_pipeline.project.checkpoints import VERDICTS

    while (state := _ask_dagster(_STATE, run=run_id)).get("status") not in _ENDED:
        if "status" not in state:
            raise NotReadyError(
                f"run {run_id}: {str(state.get('message')).rstrip('.')}; check the id"
            )
        time.sleep(every)
    built = state["assetMaterializations"]
    entries = [entry for event in built for entry in event["metadataEntries"]]
    tables = [entry["table"]["records"] for entry in entries if entry["label"] == VERDICTS]
    if not tables:
        note(f"Run {run_id} ended with {state['status']} and without a verdict.")
        raise typer.Exit(NOT_EVALUATED)
    rows = [json.loads(record) for record in tables[-1]]
    # a table of Dagster has an empty text where nothing is known
    _end([{k: None if v == "" else v for k, v in row.items()} for row in rows], as_json=as_json)


def _end(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> NoReturn:
    """Print the rows of checkpoints, and exit with the status of the worst outcome."""
    if as_json:
        print_json(rows)
    else:
        _show(rows)
    statuses = {_STATUS.get(row["outcome"], NOT_EVALUATED) for row in rows} | {0}
    raise typer.Exit(next(status for status in _WORST_FIRST if status in statuses))


def _show(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        write(f"{row['evaluation']}: {row['outcome']}. {row['reason']}\n")


def _ask_dagster(query: str, **variables: object) -> dict[str, Any]:
    """The field `result` of a GraphQL request to the running UI."""
    from videomme_pipeline.models.endpoint.served import get
    from videomme_pipeline.project.nightly.alerts import UI_VARIABLE, ui_address

    address, posted = f"{ui_address()}/graphql", {"query": query, "variables": variables}
    try:
        reply = json.loads(get(address, None, _ANSWER_SECONDS, posted=posted))
        result: dict[str, Any] = reply["data"]["result"]
    except (ModelError, ValueError, KeyError, TypeError) as error:
        raise NotReadyError(
            f"{address}: no answer of a Dagster UI ({error}); start `videomme ui` in the project, "
            f"or set {UI_VARIABLE} to its address"
        ) from error
    return result
