"""Checks of everything that a run needs (`videomme doctor`)."""

import asyncio
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from operator import methodcaller
from uuid import uuid4

from videomme_pipeline.errors import Finding, Status, VideoMMEError
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint_probe import probe_once
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import Workers, run_tasks
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.journal import journal_of
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.project.runs.settings import CLUSTER_FILE
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.videos.integrity import check_data

NAMED_PACKAGES = ("dagster", "duckdb", "pyarrow", "av", "pysubs2", "openai")
DECODERS = ("h264", "hevc", "vp9", "av1", "mpeg2video")
FREE_BYTES_WANTED = 5 << 30


def examine(project: Project, *, is_deep: bool = False) -> Iterator[Finding]:
    """Yield one finding per check, in the order in which a new user meets problems.

    If it `is_deep`, one task runs on the cluster, which starts a job if the workers are jobs.
    """
    yield _versions()
    yield _ffmpeg()
    yield _disk(project)
    yield from _journal(project)
    yield from _workers(project, is_deep=is_deep)
    for name, problem in project.configuration.catalog.problems.items():
        yield Finding.error(f"model {name}", str(problem))
    for name, problem in project.configuration.problems.items():
        yield Finding.error(f"evaluation {name}", str(problem))
    for name in project.benchmarks:
        yield from _data(project, name)
    used = {e.model.name: e.model for e in project.configuration.files.values()}
    for model in used.values():
        try:
            model.check_installed()
        except VideoMMEError as error:
            yield Finding.error(f"model {model.name}", str(error))
        if isinstance(model, EndpointSpec):
            yield from map(_endpoint, model.members)


def examine_model(
    project: Project, name: str, on_progress: Callable[[StageProgress], None]
) -> Iterator[Finding]:
    """Yield a check that the endpoint serves the model, and a check that it answers a request.

    `on_progress` gets what a server does until it answers. Raises ModelError without such a model.
    """
    model = project.configuration.catalog.find(name)
    if isinstance(model, EndpointSpec):
        yield _endpoint(model)
    samplings = project.configuration.samplings_of_model(name)
    check = f"request to {name}"
    with project.servers as servers:
        try:
            served = servers.start(model, on_progress)
            finding = asyncio.run(probe_once(served, build_model(served), samplings))
            yield replace(finding, check=check)
        except VideoMMEError as error:
            yield Finding.error(check, str(error))


def _versions() -> Finding:
    packages = (f"{package} {version(package)}" for package in NAMED_PACKAGES)
    return Finding.ok("packages", ", ".join([f"python {platform.python_version()}", *packages]))


def _ffmpeg() -> Finding:
    import av  # noqa: PLC0415 - loads libav

    versions = {name: ".".join(map(str, number)) for name, number in av.library_versions.items()}
    libraries = ", ".join(map(" ".join, versions.items()))
    if missing := [name for name in DECODERS if name not in av.codecs_available]:
        message = f"no decoder for {', '.join(missing)} ({libraries}); install PyAV's own wheel"
        return Finding.error("ffmpeg", message)
    return Finding.ok("ffmpeg", libraries)


def _disk(project: Project) -> Finding:
    folder = project.store.local()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        message = f"{folder}: {error.strerror}; set VIDEOMME_DATA to a writable folder"
        return Finding.error("disk", message)
    message, status = f"{folder.resolve()}: {free / 2**30:.0f} GiB free", Status.OK
    if not os.access(folder, os.W_OK):
        status = Status.ERROR
        message += ", not writable; set VIDEOMME_DATA to a writable folder"
    elif free < FREE_BYTES_WANTED:
        status = Status.WARNING
        message += (
            "; the frames of a benchmark need a few GiB per sampling, and its videos about 100 GiB"
        )
    return Finding(status, message, check="disk")


def _journal(project: Project) -> Iterator[Finding]:
    try:
        journal = journal_of(project.store)
        if not journal.exists():
            return
        journal.verify()
    except VideoMMEError as error:
        yield Finding.error("journal", str(error))
    else:
        yield Finding.ok("journal", f"{journal.title}: every row is intact")


def _workers(project: Project, *, is_deep: bool) -> Iterator[Finding]:
    if project.cluster is None:
        return
    try:
        if jobs := project.cluster.check_jobs():
            yield Finding.ok("cluster", jobs)
            if not is_deep:
                return
        with project.workers() as workers:
            if is_deep:
                yield _shared_data(project, workers)
            problems = workers.problems()
    except VideoMMEError as error:
        yield Finding.error("cluster", str(error))
        return
    if not problems:
        yield Finding.warning("cluster", f"the cluster of {CLUSTER_FILE} has no worker; start some")
    for address, problem in problems.items():
        status = Status.ERROR if problem else Status.OK
        message = problem or "has the versions of this machine and finds the tasks of runs"
        yield Finding(status, message, check=f"worker {address}")


def _shared_data(project: Project, workers: Workers) -> Finding:
    """Let a worker read a new file in the data folder, with its own credentials."""
    root, mark, content = project.store.root, project.store.path("cluster", "mark"), uuid4().bytes
    publish(mark, content)
    try:
        limits, read = TaskLimits(seconds=60), methodcaller("read_bytes")
        (result,) = run_tasks(read, [mark], workers=workers, limits=limits)
    finally:
        mark.unlink(missing_ok=True)
    if result.value == content:
        return Finding.ok("cluster", f"a worker reads {root}")
    message = (
        f"a worker does not read {root} of this machine ({result.error or 'another file'}); let "
        "all workers share it, and set its credentials where they start"
    )
    return Finding.error("cluster", message)


def _data(project: Project, name: str) -> Iterator[Finding]:
    findings = check_data(project.benchmarks[name].open_source)
    if not findings:
        yield Finding.ok(name, "needs no license; a run checks its files")
    for finding in findings:
        yield replace(finding, check=f"{name} {finding.check}")


def _endpoint(model: EndpointSpec) -> Finding:
    check = f"model {model.name}"
    status, name = Status.OK, model.served_name
    try:
        if model.serve is not None:
            return Finding.ok(check, model.serve.check())
        served = model.served_models()
    except VideoMMEError as error:
        return Finding.error(check, str(error))
    message = f"{model.endpoint} serves {name}"
    if served is not None and name not in served:
        status = Status.WARNING
        message = f"{model.endpoint} serves {', '.join(served[:5])}, not {name}"
    return Finding(status, message, check=check)
