"""Inference engines whose servers can be started. `engines.yaml` contains them."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.processes.secrets import child_environment

LOOPBACK = "127.0.0.1"
_VERSION_SECONDS = 20.0


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
    """The Python package with the engine's version. Without one, the command prints the version for
    `--version`."""
    weights_option: str | None = None
    """Without this option, the weights are an argument."""
    name_option: str | None = None
    """Without this option, requests name the weights."""
    host_option: str = "--host"
    port_option: str = "--port"
    revision_option: str | None = None
    gpus_option: str | None = None
    trusting_option: str | None = None
    """With this option, versions from `trusting_since` on accept settings of frames in requests.
    Earlier versions always do and do not know the option."""
    trusting_since: tuple[int, int] | None = None
    health: str = "/health"
    """A path that answers 200 once the weights are loaded."""


ENGINES: Mapping[EngineName, Engine] = {
    EngineName(name): parse_spec(values, Engine, f"engine {name}")
    for name, values in read_yaml(Path(__file__).with_name("engines.yaml")).items()
}


def options(args: Mapping[str, object]) -> Iterator[str]:
    """The command line options for `args`, which maps names to values.

    True is an option without a value, and False and None are left out. A list becomes several
    values, and a mapping JSON.
    """
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


def engine_version(engine: Engine, command: Sequence[str]) -> str | None:
    """The version of the engine that `command` starts, or None if it cannot be found."""
    query = [*command, "--version"]
    if engine.package is not None:
        python = _interpreter(command[0])
        if python is None:
            return None
        code = f"from importlib.metadata import version; print(version({engine.package!r}))"
        query = [python, "-c", code]
    with suppress(OSError, subprocess.SubprocessError):
        ended = subprocess.run(
            query,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_SECONDS,
            env=child_environment(),
            check=True,
        )
        lines = (ended.stdout + ended.stderr).split("\n")
        return lines[0].removeprefix("version: ").strip() or None
    return None


def _interpreter(program: str) -> str | None:
    """The Python interpreter that runs `program`, which is one itself or a script."""
    path = shutil.which(program)
    if path is None:
        return None
    with suppress(OSError), Path(path).open("rb") as file:
        first = file.readline(1000).decode(errors="replace").strip()
        if first.startswith("#!") and "python" in first:
            return first.removeprefix("#!").split()[-1]
    return path if "python" in Path(path).name else None
