"""The context in which every step of a run works."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import dagster as dg

from assets.processes import record_process
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.turns import LockFileTurns, this_machine

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
    step names the run that it waits for.
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
        if needs_machine:
            stack.enter_context(turns.take(this_machine()))
        yield


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
