"""`serve:` of an entry in `models.yaml`: a server that this project starts and stops."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.serving.engines import ENGINES, LOOPBACK, Engine, EngineName, options


class ServeSpec(Spec):
    """How the servers of a model are started."""

    engine: EngineName
    weights: str = Field(min_length=1)
    """A folder or file, a glob whose newest finished checkpoint is served, or a repository of the
    Hugging Face Hub."""
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
    """How long a server may take to load its weights."""

    @property
    def adapter(self) -> Engine:
        """The declaration of the engine."""
        return ENGINES[self.engine]

    @property
    def program(self) -> tuple[str, ...]:
        """The program and subcommand that start the engine."""
        return self.command or self.adapter.command

    @property
    def identity(self) -> Mapping[str, object]:
        """The values that can change an answer."""
        return {
            "engine": self.engine.value,
            "weights": self.weights,
            "revision": self.revision,
            "gpus_per_replica": self.gpus_per_replica,
            "args": self.args,
        }

    def command_line(self, weights: str, name: str, port: int) -> list[str]:
        """The command of one replica that serves `weights` under `name`."""
        engine = self.adapter
        chosen = {
            engine.name_option: name,
            engine.revision_option: self.revision,
            engine.gpus_option: self.gpus_per_replica if self.gpus_per_replica > 1 else None,
            engine.host_option: LOOPBACK,
            engine.port_option: port,
        }
        return [
            *self.program,
            *([weights] if engine.weights_option is None else [engine.weights_option, weights]),
            *(
                text
                for option, value in chosen.items()
                if option is not None and value is not None
                for text in (option, str(value))
            ),
            *options(self.args),
        ]
