"""The context in which every step of a run works."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import dagster as dg

from assets.processes import record_process
from videomme_pipeline.project.progress import Progress
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.turns import LockFileTurns, this_machine
from videomme_pipeline.reports.terminal.progress import PlainLines

StepContext = dg.OpExecutionContext | dg.AssetExecutionContext


@contextmanager
def within_step(
    project: Project,
    context: StepContext,
    *,
    needs_machine: bool,
    max_dollars: float | None = None,
) -> Iterator[None]:
    """Run the block as the work of one step of a run.

    Records the process on the run, and limits what the run spends on models over all of its steps.
    A step that `needs_machine` waits until no other such step works on this machine. The log of the
    step names the run that it waits for, and has a line about its progress every ten seconds.
    """

    def show(message: str) -> None:
        context.log.info(message)
        project.on_message(message)

    record_process(context.instance, context.run)
    project.spending.begin(context.run.run_id, max_dollars)
    run = f"run {context.run.run_id.partition('-')[0]}"
    turns = LockFileTurns(project.store.turns, run=run, on_wait=show)
    with _canceling(context), ExitStack() as stack:
        stack.callback(turns.release_all)
        stack.enter_context(project.using_turns(turns))
        stack.enter_context(_logging_progress(project, context))
        if needs_machine:
            stack.enter_context(turns.take(this_machine()))
        yield


@contextmanager
def _logging_progress(project: Project, context: StepContext) -> Iterator[None]:
    """Log the progress of the block, beside showing it."""
    before = project.on_progress

    def cost() -> list[str]:
        spent = project.spending.spent_dollars
        return [f"${spent:,.2f} spent"] if spent else []

    lines = PlainLines(context.log.info, notes=cost)

    def show(progress: Progress) -> None:
        before(progress)
        wait = ", ".join(filter(None, [progress.workers, progress.wait]))
        lines.show(progress.what, progress.done, progress.total, failed=progress.failed, wait=wait)

    project.on_progress = show
    try:
        yield
    finally:
        project.on_progress = before


@contextmanager
def _canceling(context: StepContext) -> Iterator[None]:
    """Let a signal raise KeyboardInterrupt in the block, which cancels the run.

    Dagster raises an exception of its own, which asyncio takes for the error of a single task. It
    sends SIGINT to terminate a run that it launched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {each: signal.signal(each, signal.default_int_handler) for each in numbers}
    try:
        yield
    except KeyboardInterrupt:
        context.instance.report_run_canceling(context.run)
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
