"""What a run needs, looked at one by one: `videomme doctor`."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from assets.instance import open_instance
from assets.resources import Benchmark, Project
from videomme_pipeline.benchmarks.source import RELEASES
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.videos.integrity import Finding, Verdict, check_data

NAMED_PACKAGES = ("dagster", "duckdb", "pyarrow", "av", "pysrt", "openai")
FREE_BYTES_WANTED = 5 << 30


def examine(project: Project) -> Iterator[Finding]:
    """One finding a check, in the order in which a new user meets what they are about."""
    yield _versions()
    yield _ffmpeg()
    yield _disk(project)
    yield _instance()
    for name, problem in project.configuration.problems.items():
        yield Finding(check=f"evaluation {name}", verdict=Verdict.FAILED, message=str(problem))
    for benchmark in project.benchmarks.values():
        yield from _data(benchmark)
    used = {e.model.name: e.model for e in project.configuration.evaluations.values()}
    for model in used.values():
        if model.is_remote:
            yield _endpoint(model)


def _versions() -> Finding:
    found, missing = [f"python {platform.python_version()}"], []
    for package in NAMED_PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return Finding(
            check="packages",
            verdict=Verdict.WARNING,
            message=f"{', '.join(missing)} not installed here; run `make demo` once",
        )
    return Finding(check="packages", verdict=Verdict.OK, message=", ".join(found))


def _ffmpeg() -> Finding:
    import av  # noqa: PLC0415 - libav is loaded by whoever asks for it

    libraries = ", ".join(
        f"{name} {'.'.join(map(str, number))}" for name, number in av.library_versions.items()
    )
    lacking = [
        name
        for name in ("h264", "hevc", "vp9", "av1", "mpeg2video")
        if name not in av.codecs_available
    ]
    if lacking:
        return Finding(
            check="ffmpeg",
            verdict=Verdict.FAILED,
            message=f"no decoder for {', '.join(lacking)} ({libraries}); install PyAV's own wheel",
        )
    return Finding(check="ffmpeg", verdict=Verdict.OK, message=libraries)


def _disk(project: Project) -> Finding:
    folder = project.store.local()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    message = f"{folder.resolve()}: {free / 2**30:.0f} GiB free"
    if not writable:
        return Finding(
            check="disk",
            verdict=Verdict.FAILED,
            message=f"{message}, not writable; set VIDEOMME_DATA to a folder that is",
        )
    if free < FREE_BYTES_WANTED:
        return Finding(
            check="disk",
            verdict=Verdict.WARNING,
            message=f"{message}; a benchmark's "
            "frames take some GiB a sampling, its videos about 100 GiB",
        )
    return Finding(check="disk", verdict=Verdict.OK, message=message)


def _instance() -> Finding:
    try:
        with open_instance() as instance:
            runs = instance.get_runs_count()
    except Exception as error:  # noqa: BLE001 - whatever the storage raises is the finding
        return Finding(check="dagster", verdict=Verdict.FAILED, message=f"no instance: {error}")
    return Finding(
        check="dagster", verdict=Verdict.OK, message=f"{runs} runs in {os.environ['DAGSTER_HOME']}"
    )


def _data(benchmark: Benchmark) -> Iterator[Finding]:
    release = RELEASES.get(benchmark.name)
    if release is None:
        yield Finding(check=benchmark.name, verdict=Verdict.OK, message="drawn on this machine")
        return
    spec = benchmark.project.configuration.benchmarks[benchmark.name]
    for finding in check_data(release, spec, benchmark.media.folder):
        yield Finding(
            check=f"{benchmark.name} {finding.check}",
            verdict=finding.verdict,
            message=finding.message,
        )


def _endpoint(model: ModelSpec) -> Finding:
    """Whether the key is set and the endpoint serves the model."""
    check = f"model {model.name}"
    try:
        served = model.served_models()
    except VideoMMEError as error:
        return Finding(check=check, verdict=Verdict.FAILED, message=str(error))
    wanted = model.served_name
    if served is not None and wanted not in served:
        return Finding(
            check=check,
            verdict=Verdict.WARNING,
            message=f"{model.endpoint} serves {', '.join(served[:5])}, not {wanted}",
        )
    return Finding(check=check, verdict=Verdict.OK, message=f"{model.endpoint} serves {wanted}")
