"""Servers that this project starts for a model: what `serve` of an entry must provide."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import BeforeValidator

from videomme_pipeline import plugins
from videomme_pipeline.configuration import parse_spec
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.models.identity import ServerIdentity

DEFAULT_KIND = "local"


class RunningServers(Protocol):
    """Equal servers of one model. They run until `close`, and are restarted if they die."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of all servers."""

    @property
    def weights(self) -> str:
        """The path or name of the weights that the servers have loaded."""

    @property
    def served_name(self) -> str:
        """The name of the model in requests to the servers."""

    @property
    def failure(self) -> str | None:
        """Why no server will ever answer again, or None."""

    def close(self) -> None:
        """Stop all servers."""


class ServeSpec(Spec, ABC):
    """`serve` of an entry in `models.yaml`: servers that this project starts and stops.

    A subclass declares `kind` as a `Literal` with a default, and the keys that users may set. Its
    entry point in the group `videomme_pipeline.servers` has the name of the kind.
    """

    kind: str

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """The profile of an entry that sets none."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, object]:
        """The settings that can change an answer."""

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the family of the weights, as in `family` of an entry, the best one first."""
        return ()

    @property
    def prunes_videos(self) -> bool:
        """True if the engine drops some of the tokens of a video."""
        return False

    @property
    def programs(self) -> tuple[str, ...]:
        """The commands of the user's configuration that `start` runs."""
        return ()

    @abstractmethod
    def server_identity(self, weights: str | None) -> ServerIdentity:
        """Facts about the servers that are known before they run.

        `weights` is what running servers have loaded. If None, no program may be started. Raises
        ModelError if there are no weights.
        """

    @abstractmethod
    def check(self) -> str:
        """Return what a run would start. Raises ModelError without the engine or the weights."""

    @abstractmethod
    def start(
        self, name: str, logs: Path, on_progress: Callable[[int, int, str], None]
    ) -> RunningServers:
        """Start the servers of the model `name`, and wait until all of them answer.

        `logs` is the folder of their logs. `on_progress` gets the number of servers that answer,
        the number of all, and the last output of a server that does not answer yet. Raises
        ModelError if there are no weights, or a server does not start.
        """


def _parsed(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    try:
        kind = str(value.get("kind", DEFAULT_KIND))
        title = f"servers of the kind `{kind}`"
        spec = plugins.find_class(plugins.SERVERS, kind, ServeSpec, title)
        return parse_spec(value, spec, "serve")
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


Serve = Annotated[ServeSpec, BeforeValidator(_parsed)]
"""The type of a field with a `ServeSpec`, which reads the mapping of a YAML file."""
