"""`serve` of an entry in `models.yaml`, for servers on this machine."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.endpoints import ENGINES, Engine, EngineName, Profile
from videomme_pipeline.models.endpoint.managed import ServeSpec
from videomme_pipeline.models.identity import ServerIdentity, release_of
from videomme_pipeline.processes.lifeline import log_path
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.serving import engines
from videomme_pipeline.serving.replicas import Replica, Replicas, free_ports
from videomme_pipeline.serving.weights import find_weights, model_type_of, weights_identity

_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"


class LocalServers(ServeSpec):
    """Settings for starting the servers of a model on this machine."""

    kind: Literal["local"] = "local"
    engine: EngineName
    weights: str = Field(min_length=1)
    """A folder or file, or a repository of the Hugging Face Hub."""
    revision: str | None = None
    """Branch, tag or commit of the repository."""
    replicas: int = Field(default=1, ge=1, le=64)
    gpus_per_replica: int = Field(default=1, ge=0)
    args: dict[str, Any] = Field(default_factory=dict)
    """Further options of the engine, such as `max-model-len: 32768`."""
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The engine's program and subcommand, if it is installed elsewhere. Default: the engine's
    name, on the PATH."""
    start_seconds: float = Field(default=1800.0, gt=0)
    """Time limit for a server to load the weights."""

    @property
    def profile(self) -> Profile:
        return self.engine

    @property
    def identity(self) -> Mapping[str, object]:
        return self.model_dump(
            include={"engine", "weights", "revision", "gpus_per_replica", "args"}
        )

    def server_identity(self, weights: str | None) -> ServerIdentity:
        names = ("dtype", "quantization", "generation-config")
        chosen = {name.replace("-", "_"): self.args.get(name, "auto") for name in names}
        own = ServerIdentity(
            engine=self.engine,
            version=engines.installed_version(self._adapter, self._program[0]),
            **{name: str(value) for name, value in chosen.items() if value not in (None, "auto")},
        )
        files = weights_identity(weights or find_weights(self.weights), self.revision)
        return own.completed_by(files)

    def check(self) -> str:
        self._require_program()
        self._gpus_of_replicas()
        weights = find_weights(self.weights)
        return f"runs start {self.replicas} × {self.engine} with {weights}"

    def start(
        self, name: str, logs: Path, on_progress: Callable[[int, int, str], None]
    ) -> Replicas:
        replicas = self.launch(name, find_weights(self.weights), logs)
        replicas.wait_until_healthy(self.start_seconds, on_progress)
        return replicas

    def launch(self, name: str, weights: str, logs: Path) -> Replicas:
        """Start servers, which still have to load `weights`. Raises ModelError as `check`."""
        where = f"model {name}: "
        self._require_program(where)
        gpus = self._gpus_of_replicas(where)
        ports = free_ports(self.replicas)
        replicas = [
            Replica(
                title=f"server {number} of model {name}",
                command=self.command_line(weights, name, port),
                environment={
                    **self._adapter.environment,
                    **child_environment(),
                    _GPUS_VARIABLE: visible,
                },
                port=port,
                log=log_path(logs, name, number),
            )
            for number, (port, visible) in enumerate(zip(ports, gpus, strict=True), start=1)
        ]
        has_names = self._adapter.name_option is not None
        return Replicas(replicas, weights=weights, served_name=name if has_names else weights)

    def command_line(self, weights: str, name: str, port: int) -> list[str]:
        """The command of one replica that serves `weights` under `name`."""
        engine = self._adapter
        chosen = {
            engine.name_option: name,
            engine.revision_option: self.revision,
            engine.gpus_option: self.gpus_per_replica if self.gpus_per_replica > 1 else None,
            engine.device_option: "cuda" if self.gpus_per_replica == 1 else None,
            engine.host_option: engines.LOOPBACK,
            engine.port_option: port,
        }
        return [
            *self._program,
            *([weights] if engine.weights_option is None else [engine.weights_option, weights]),
            *(
                text
                for option, value in chosen.items()
                if option is not None and value is not None
                for text in (option, str(value))
            ),
            *self._trusting_options(),
            *engines.options(self.args),
        ]

    def _trusting_options(self) -> list[str]:
        """The option with which a server accepts settings of frames in requests, if it has one."""
        option, since = self._adapter.trusting_option, self._adapter.trusting_since
        if option is None or since is None or option.removeprefix("--") in self.args:
            return []
        program = self._program[0]
        installed = engines.installed_version(self._adapter, program)
        version = installed or engines.reported_by(program)
        release = release_of(version)
        return [option] if release is not None and release >= since else []

    @property
    def families(self) -> tuple[str, ...]:
        return (model_type_of(self.weights, self.revision), self.weights)

    @property
    def prunes_videos(self) -> bool:
        return bool(self.args.get("video-pruning-rate"))

    @property
    def programs(self) -> tuple[str, ...]:
        return (" ".join(self._program),)

    @property
    def _adapter(self) -> Engine:
        return ENGINES[self.engine]

    @property
    def _program(self) -> tuple[str, ...]:
        return self.command or self._adapter.command

    def _require_program(self, where: str = "") -> None:
        program = self._program[0]
        if shutil.which(program) is None:
            raise ModelError(
                f"{where}the program {program} is not installed; install {self.engine}, or set "
                "`serve: command` to its path"
            )

    def _gpus_of_replicas(self, where: str = "") -> list[str]:
        """The value of `CUDA_VISIBLE_DEVICES` for each replica."""
        count = self.gpus_per_replica
        needed = count * self.replicas
        visible = os.environ.get(_GPUS_VARIABLE)
        if visible is not None:
            gpus = [gpu for gpu in visible.split(",") if gpu]
            limit = f"{_GPUS_VARIABLE}={visible}"
        else:
            # Without files of the NVIDIA driver, the number of GPUs is unknown.
            devices = len(list(Path("/dev").glob("nvidia[0-9]*")))
            gpus = [str(number) for number in range(devices or needed)]
            limit = "this machine"
        if len(gpus) < needed:
            raise ModelError(
                f"{where}{self.replicas} replicas need {needed} GPUs, but {limit} has {len(gpus)}; "
                "reduce `replicas` or `gpus_per_replica`"
            )
        return [",".join(gpus[i * count : (i + 1) * count]) for i in range(self.replicas)]
