"""Inference engines whose servers can be started: one declaration each.

Sources: the help texts of the engines' own commands.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The way to start the server of an engine, and to find the version of the engine.

    Weights are an argument without an option if `weights_option` is None. Without a `name_option`,
    requests name the weights. `health` is a path that answers 200 once the weights are loaded. The
    version is that of the Python `package`; without one, the command prints it for `--version`.
    """

    profile: Profile
    command: tuple[str, ...]
    package: str | None
    weights_option: str | None = None
    name_option: str | None = None
    host_option: str = "--host"
    port_option: str = "--port"
    revision_option: str | None = None
    gpus_option: str | None = None
    health: str = "/health"


ENGINES: Mapping[EngineName, Engine] = {
    EngineName.VLLM: Engine(
        profile=Profile.VLLM,
        command=("vllm", "serve"),
        package="vllm",
        name_option="--served-model-name",
        revision_option="--revision",
        gpus_option="--tensor-parallel-size",
    ),
    EngineName.SGLANG: Engine(
        profile=Profile.SGLANG,
        command=("python", "-m", "sglang.launch_server"),
        package="sglang",
        weights_option="--model-path",
        name_option="--served-model-name",
        revision_option="--revision",
        gpus_option="--tp-size",
    ),
    EngineName.LMDEPLOY: Engine(
        profile=Profile.GENERIC,
        command=("lmdeploy", "serve", "api_server"),
        package="lmdeploy",
        name_option="--model-name",
        host_option="--server-name",
        port_option="--server-port",
        revision_option="--revision",
        gpus_option="--tp",
    ),
    EngineName.LLAMA_CPP: Engine(
        profile=Profile.LLAMA_CPP,
        command=("llama-server",),
        package=None,
        weights_option="--model",
        name_option="--alias",
    ),
    EngineName.TRANSFORMERS: Engine(
        profile=Profile.TRANSFORMERS,
        command=("transformers", "serve"),
        package="transformers",
    ),
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
