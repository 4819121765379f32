"""The base class of all entries in `models.yaml`, and the provider of a kind of model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, Self, TypeVar

from pydantic import Field

from videomme_pipeline.configuration import MAX_NAME_CHARACTERS
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.models.video_llm import VideoLLM


class Schedule(StrEnum):
    """The order in which the questions of one video are asked."""

    TOGETHER = "together"
    """All at the same time: the engine shares the prefix of concurrent requests."""
    LEADER_FOLLOWER = "leader_follower"
    """The first question alone, to fill the prefix cache, and the others after its answer."""


class Limits(Spec):
    """Limits of the speed and the cost of requests. No answer depends on them."""

    concurrency: int | None = Field(default=None, ge=1)
    """Fixed number of requests in flight. None adapts it to what the endpoint accepts."""
    max_concurrency: int = Field(default=64, ge=1)
    """Upper bound of the adaptive mode."""
    concurrent_runs: int = Field(default=1, ge=1)
    """Runs of this project that may ask the endpoint at the same time; the others wait."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    deadline_seconds: float = Field(default=900.0, gt=0)
    """A question fails if it has no answer this long after its first request was sent."""
    request_timeout_seconds: float = Field(default=600.0, gt=0)
    outage_seconds: float = Field(default=600.0, gt=0)
    """The run stops if every request that ended in this time failed."""
    max_response_bytes: int = Field(default=16 * 2**20, ge=1)
    """An attempt fails if the response is larger."""
    max_attempts: int = Field(default=12, ge=1)
    max_attempts_generated: int = Field(default=3, ge=1)
    """Limit for empty and truncated completions, which cost money."""
    max_cost_dollars: float | None = Field(default=None, gt=0)
    """Budget of the whole evaluation, earlier runs included. Asking stops before it is exceeded."""


class ModelSpec(Spec, ABC):
    """One model that an evaluation can name.

    A subclass declares `kind` as a `Literal` with a default, adds the keys that users may set,
    and implements `identity`. The other properties describe a free model in this process.
    """

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARACTERS)
    """The name in evaluations, tables and reports."""
    kind: str
    limits: Limits = Limits()

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, object]:
        """Every value that can change an answer (no URL, limit or price), as of the built model."""

    @property
    def fingerprint(self) -> str:
        """Hash of `identity` alone."""
        return fingerprint(self.identity)

    @property
    def sees_frame_times(self) -> bool:
        """True if the model gets the time of each frame in addition to the prompt."""
        return False

    @property
    def reads_video(self) -> bool:
        """True if the model gets the video itself and takes the frames from it."""
        return False

    @property
    def hears_audio(self) -> bool:
        """True if the model gets the sound of the video with its frames."""
        return False

    @property
    def needs_frames(self) -> bool:
        """False for a baseline that ignores the frames."""
        return True

    @property
    def reads_parts(self) -> bool:
        """True if the model gets question, subtitle lines and clip in addition to the prompt."""
        return False

    @property
    def takes_history(self) -> bool:
        """True if the model gets the earlier turns of a conversation."""
        return False

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables with keys of the model. Other child processes do not get them."""
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The commands of the user's configuration that a run starts."""
        return ()

    @property
    def shared_resources(self) -> tuple[str, ...]:
        """Names, such as URLs, of what `limits.concurrent_runs` runs may use at the same time."""
        return ()

    def in_folder(self, folder: Path) -> Self:  # noqa: ARG002 - few models have paths
        """This model with its files in `folder`. Raises ConfigurationError if one is missing."""
        return self

    def working_in(self, folder: Path) -> Self:  # noqa: ARG002 - few models start processes
        """This model with `folder` for the logs and temporary files of its processes."""
        return self

    def check_installed(self) -> None:
        """Raise ModelError if a program or package that the model needs is not installed."""

    def with_weights(self, name: str, weights: str) -> Self | None:
        """This model under another name, with other weights. None if it names no weights."""
        if "weights" not in type(self).model_fields:
            return None
        return self.model_copy(update={"name": name, "weights": weights})

    @property
    def request_schedule(self) -> Schedule:
        """The order in which the questions of one video are asked."""
        return Schedule.TOGETHER

    @property
    def costs_money(self) -> bool:
        """True if a lost answer costs money."""
        return False


AnyModelSpec = TypeVar("AnyModelSpec", bound=ModelSpec)


@dataclass(frozen=True, slots=True)
class Provider(Generic[AnyModelSpec]):
    """One kind of model: the class of its entries and a function that builds the model.

    `build` gets the spec and the environment variables. It imports the modules that only this kind
    needs, and neither loads weights nor connects. It raises ModelError if a key is not set or an
    optional package is not installed. A kind that does not `needs_entry` is also the name of a
    model, which has the defaults of `spec`.
    """

    spec: type[AnyModelSpec]
    build: Callable[[AnyModelSpec, Mapping[str, str]], VideoLLM]
    needs_entry: bool = True
