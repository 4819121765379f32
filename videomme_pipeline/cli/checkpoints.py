"""Commands for the checkpoints of training runs: watch, submit, wait."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import AsJson
from videomme_pipeline.cli.context import note, open_for_run, print_json, write
from videomme_pipeline.cli.gate import FAILED, NOT_EVALUATED, UNDECIDED
from videomme_pipeline.cli.run import PLANNING

if TYPE_CHECKING:
    from videomme_pipeline.scoring.checkpoint import Checkpoint

commands = typer.Typer()

STATUS = {"failed": FAILED, "not evaluated": NOT_EVALUATED, "deleted": NOT_EVALUATED}
"""The exit status of the outcomes of checkpoints, worst first. Undecided is `UNDECIDED`."""


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
        evaluated: list[Checkpoint] = []
        while True:
            if seen or not once:
                time.sleep(every)
            seen, rows = watch_once(project.reopened(), instance, seen)
            evaluated += rows
            if not as_json:
                _show(rows)
            if once:
                break
    if as_json:
        print_json(evaluated)
    raise typer.Exit(status_of(evaluated))


def status_of(rows: "Sequence[Checkpoint]") -> int:
    """The exit status of the worst outcome."""
    outcomes = {row.outcome.value for row in rows}
    worst = next((STATUS[outcome] for outcome in STATUS if outcome in outcomes), 0)
    return worst or (UNDECIDED if "undecided" in outcomes else 0)


def _show(rows: "Sequence[Checkpoint]") -> None:
    for row in rows:
        write(f"{row.evaluation}: {row.outcome}. {row.reason}\n")
