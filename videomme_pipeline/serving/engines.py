"""The options and the installed version of an inference engine."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

from videomme_pipeline.models.endpoint.endpoints import Engine
from videomme_pipeline.processes.secrets import child_environment

LOOPBACK = "127.0.0.1"
_VERSION_SECONDS = 120.0
"""vLLM imports PyTorch before it prints its version."""


def options(args: Mapping[str, object]) -> Iterator[str]:
    """Command line options for `args` by name. True has no value, False and None are left out."""
    for name, value in args.items():
        if value is None or value is False:
            continue
        yield f"--{name}"
        if isinstance(value, list):
            yield from map(str, value)
        elif isinstance(value, dict):
            yield json.dumps(value)
        elif value is not True:
            yield str(value)


def installed_version(engine: Engine, program: str) -> str | None:
    """The version in the environment of `program` or its interpreter, or None. Starts nothing."""
    path = shutil.which(program)
    if engine.package is None or path is None:
        return None
    # Links are not followed, because a link may lead out of a virtual environment.
    environments = {Path(file).absolute().parent.parent for file in (path, _interpreter(path))}
    libraries = [
        str(library)
        for environment in environments
        for library in (environment / "lib").glob("python3*/*-packages")
    ]
    packages = distributions(name=engine.package, path=libraries)
    versions = {package.version for package in packages}
    return versions.pop() if len(versions) == 1 else None


def reported_by(program: str) -> str | None:
    """The version that a script prints which starts the engine elsewhere, or None."""
    with suppress(OSError, subprocess.SubprocessError):
        ended = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            env=child_environment(),
            check=True,
        )
        if version := re.search(r"\d+\.\d+\.\d\S*", ended.stdout):
            return version[0]
    return None


def _interpreter(path: str) -> str:
    """The Python interpreter of the script at `path`, or `path` if it is no such script."""
    with suppress(OSError), Path(path).open("rb") as file:
        first = file.readline(1000).decode(errors="replace").strip()
        if first.startswith("#!") and "python" in first:
            return shutil.which(first.removeprefix("#!").split()[-1]) or path
    return path
