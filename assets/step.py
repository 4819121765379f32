"""The context of every step of a run: its locks, servers, cost limit, progress and cancellation."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import dagster as dg

from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.locks import FileLocks, shared_locks, this_machine
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.reports.terminal.progress import PlainLines
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

SPENT_TAG = ".dagster/videomme_spent_dollars"
"""The run tag with the cost of its requests. A run that resumes another one has a copy, so that
both share one limit. The UI hides tags that begin with `.dagster/`; the log has the cost."""
LIMIT_TAG = "videomme/cost_limit"
"""The run tag with the value `reached` if the cost limit of the run is used up."""
SERVERS = "model_servers"
"""The Dagster resource of models' servers, which every step that asks models requires."""
WORKERS = "cluster_workers"
"""The Dagster resource of the workers of cluster.yaml, which work for all steps of a run."""
StepContext = dg.OpExecutionContext | dg.AssetExecutionContext


@contextmanager
def within_step(
    project: Project, context: StepContext, *, needs_machine: bool, max_dollars: float | None = None
) -> Iterator[None]:
    """Run the block as the work of one step of a run.

    `max_dollars` limits the cost of all steps of the run together. A step that `needs_machine`
    waits until no other such step works on this machine. Endpoints and cost limits are shared
    through PostgreSQL if Dagster uses it. The log of the step names the run that the step waits
    for, and has a line about the progress of the step every ten seconds.
    """

    def show(message: str) -> None:
        context.log.info(message)
        project.on_message(message)

    ledger = _RunTag(context.instance, context.run.run_id)
    project.spending.begin(context.run.run_id, max_dollars, ledger)
    run = f"run {context.run.run_id.partition('-')[0]}"
    on_machine = FileLocks(project.store.locks, run=run, on_wait=show)
    url = os.environ.get(POSTGRES_VARIABLE)
    locks = shared_locks(url, run=run, on_wait=show) if url else on_machine
    with _canceling(context), ExitStack() as stack:
        stack.callback(on_machine.release_all)
        stack.callback(locks.release_all)
        stack.enter_context(project.using_locks(locks))
        stack.enter_context(_logging_progress(project, context))
        if needs_machine:
            stack.enter_context(on_machine.using(this_machine()))
        stopped_before = project.spending.stopped_by
        yield
    if project.spending.stopped_by != stopped_before:
        context.log.warning(str(project.spending.stopped_by))


@dataclass(frozen=True, slots=True)
class _RunTag:
    """The cost of a run, in a tag that all of its processes and the UI see."""

    instance: dg.DagsterInstance
    run_id: str

    def read(self) -> tuple[float, bool]:
        run = self.instance.get_run_by_id(self.run_id)
        tags = run.tags if run else {}
        return float(tags.get(SPENT_TAG, 0.0)), LIMIT_TAG in tags

    def write(self, dollars: float, *, is_used_up: bool) -> None:
        limit = {LIMIT_TAG: "reached"} if is_used_up else {}
        self.instance.add_run_tags(self.run_id, {SPENT_TAG: f"{dollars:.6f}"} | limit)


@contextmanager
def _logging_progress(project: Project, context: StepContext) -> Iterator[None]:
    """Log the progress of the block, in addition to showing the progress."""
    before = project.on_progress

    def cost() -> list[str]:
        spent = project.spending.spent_dollars
        return [f"${spent:,.2f} spent"] if spent else []

    lines = PlainLines(context.log.info, notes=cost)

    def show(progress: StageProgress) -> None:
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

    Dagster sends SIGINT to terminate a run that it launched. Dagster's own handler raises another
    exception, which asyncio takes for the error of a single task.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        context.instance.report_run_canceling(context.run)
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run_resources(project: Project) -> dict[str, dg.ResourceDefinition]:
    """The servers and workers of `project`: they start when first needed, and stop with the run."""

    @dg.resource(description="Starts the servers of models with `serve`, and stops them.")
    def servers(_: dg.InitResourceContext) -> Iterator[object]:
        with project.servers as opened:
            yield opened

    @dg.resource(description="Starts the workers of cluster.yaml, and stops them.")
    def workers(_: dg.InitResourceContext) -> Iterator[object]:
        with project.keeping_workers() as opened:
            yield opened

    return {SERVERS: servers, WORKERS: workers}


def resources_of(stage: AnyStage) -> set[str]:
    """The names of the resources that a stage needs."""
    if stage.asks_models:
        return {SERVERS}
    uses_workers = isinstance(stage, BenchmarkStage) and stage.stage.uses_workers
    return {WORKERS} if uses_workers else set()
