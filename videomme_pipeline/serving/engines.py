"""Inference engines whose servers can be started. `engines.yaml` contains them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import distributions
from pathlib import Path

from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.processes.secrets import child_environment

LOOPBACK = "127.0.0.1"
_VERSION_SECONDS = 120.0
"""vLLM imports PyTorch before it prints its version."""


class EngineName(StrEnum):
    """The engines that `serve` can name."""

    VLLM = "vllm"
    SGLANG = "sglang"
    LMDEPLOY = "lmdeploy"
    LLAMA_CPP = "llama_cpp"
    TRANSFORMERS = "transformers"


class Engine(Spec):
    """The way to start the server of an engine, and to find the version of the engine."""

    profile: Profile
    command: tuple[str, ...]
    package: str | None = None
    """The Python package with the engine's version. Without one, only running servers report it."""
    weights_option: str | None = None
    """Without this option, the weights are an argument."""
    name_option: str | None = None
    """Without this option, requests name the weights."""
    host_option: str = "--host"
    port_option: str = "--port"
    revision_option: str | None = None
    gpus_option: str | None = None
    device_option: str | None = None
    """With this option, a replica of one GPU ends if it finds no GPU, or too little memory on it.
    Without it, the engine would use the CPU."""
    trusting_option: str | None = None
    """With this option, versions from `trusting_since` on accept settings of frames in requests.
    Earlier versions always do and do not know the option."""
    trusting_since: tuple[int, int] | None = None
    environment: Mapping[str, str] = {}
    """Variables of a server, if the environment of the run does not set them."""


ENGINES: Mapping[EngineName, Engine] = {
    EngineName(name): parse_spec(values, Engine, f"engine {name}")
    for name, values in read_yaml(Path(__file__).with_name("engines.yaml")).items()
}


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
