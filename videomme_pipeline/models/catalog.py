"""The models that can be evaluated: those of `models.yaml`, and those that need no entry.

Here stands what a model is and how it may be used; how it is asked belongs to the module of
its kind.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.models.openai.endpoints import (
    PROFILES,
    FramesAs,
    Profile,
    Schedule,
    frame_tokens,
)
from videomme_pipeline.models.pricing import OPENAI_URL, Prices, Tariff
from videomme_pipeline.models.video_llm import VideoLLM


class ModelKind(StrEnum):
    """How a model is asked."""

    OPENAI_COMPATIBLE = "openai_compatible"
    EMBEDDED = "embedded"
    RANDOM = "random"
    CONSTANT = "constant"
    LONGEST_OPTION = "longest_option"


class ImageDetail(StrEnum):
    """How closely OpenAI models look at a picture; other endpoints ignore it."""

    AUTO = "auto"
    LOW = "low"
    HIGH = "high"
    ORIGINAL = "original"


class ServiceTier(StrEnum):
    """Cheaper ways to be served: `flex` answers later, `batch` within a day."""

    FLEX = "flex"
    BATCH = "batch"


class Limits(Spec):
    """How hard a model may be asked. No answer depends on it."""

    concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight, always; None adapts to what the endpoint takes."""
    max_concurrency: int = Field(default=64, ge=1)
    """The most that the adaptive mode tries."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    deadline_seconds: float = Field(default=900.0, gt=0)
    """A question whose answer has not come this long after it was first sent has failed."""
    request_timeout_seconds: float = Field(default=600.0, gt=0)
    max_attempts: int = Field(default=12, ge=1)
    max_attempts_generated: int = Field(default=3, ge=1)
    """For empty and truncated completions, which are paid for."""
    max_cost_dollars: float | None = Field(default=None, gt=0)
    """What the whole evaluation may cost, earlier runs included; it stops cleanly there."""


class ModelSpec(Spec):
    """One entry of `models.yaml`."""

    name: str
    """What evaluations, tables and reports call it."""
    kind: ModelKind = ModelKind.OPENAI_COMPATIBLE
    model: str | None = None
    """The name that the endpoint knows it by; `name` where not given."""
    base_url: str | None = None
    """The endpoint, `/v1` included; OpenAI's own where not given."""
    profile: Profile = Profile.GENERIC
    api_key_env: str | None = None
    """The environment variable that holds the key. Keys never stand in a file."""
    revision: str | None = None
    """Your own label for weights or quantization, so that a changed server is a new model."""
    frames_as: FramesAs | None = None
    """One of the profile's ways; its first where not given."""
    image_detail: ImageDetail | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, sent as they stand."""
    shared_folder: Path | None = None
    """With `frames_as: files`: a folder that the endpoint reads too."""
    schedule: Schedule | None = None
    """The profile's own where not given."""
    service_tier: ServiceTier | None = None
    cache_breakpoint: bool = False
    """Mark the end of the frames as the end of the cacheable prefix (GPT-5.6 and later)."""
    max_images: int | None = Field(default=None, ge=1)
    max_body_bytes: int | None = Field(default=None, ge=1)
    tokens_per_frame: int | None = Field(default=None, ge=1)
    """What one frame costs, where no published rule says; finds dropped frames."""
    prices: Prices | None = None
    """Before the list prices."""
    is_paid: bool | None = None
    """Whether lost answers cost money (every answer is then flushed to disk); the profile's
    own where not given, and always with `prices`."""
    limits: Limits = Limits()
    seed: int = 0
    """`random` only."""
    letter: Letter | None = None
    """`constant` only."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.kind is ModelKind.CONSTANT and self.letter is None:
            raise ValueError("a constant model needs its `letter`")
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url {self.base_url!r}: put http:// or https:// before it")
        if self.frames_as is not None and self.frames_as not in PROFILES[self.profile].frames_as:
            known = ", ".join(way.value for way in PROFILES[self.profile].frames_as)
            raise ValueError(
                f"profile {self.profile.value} does not take frames as {self.frames_as.value}; "
                f"it takes: {known}"
            )
        if self.frames_as is FramesAs.FILES and self.shared_folder is None:
            raise ValueError("`frames_as: files` needs a `shared_folder`")
        return self

    @property
    def identity(self) -> Mapping[str, object]:
        """The values that can change an answer.

        Where the endpoint is, how fast it may be asked and what it costs are not among them.
        `name` is: two entries for one model at two endpoints are two models.
        """
        match self.kind:
            case ModelKind.OPENAI_COMPATIBLE:
                return {
                    "name": self.name,
                    "kind": self.kind.value,
                    "model": self.model or self.name,
                    "revision": self.revision,
                    "profile": self.profile.value,
                    "frames_as": self.sends_frames_as.value,
                    "image_detail": self.image_detail,
                    "extra_body": self.extra_body,
                }
            case ModelKind.RANDOM:
                return {"kind": self.kind.value, "seed": self.seed}
            case ModelKind.CONSTANT:
                return {"kind": self.kind.value, "letter": self.letter}
            case _:
                return {"kind": self.kind.value}

    @property
    def fingerprint(self) -> str:
        """Hash of `identity` alone."""
        return fingerprint(self.identity)

    @property
    def sends_frames_as(self) -> FramesAs:
        return self.frames_as or PROFILES[self.profile].frames_as[0]

    @property
    def sees_frame_times(self) -> bool:
        """Whether it is told when each frame is shown, beside what the prompt says."""
        if self.kind is ModelKind.OPENAI_COMPATIBLE:
            return self.sends_frames_as is FramesAs.VIDEO
        return self.kind is ModelKind.EMBEDDED

    @property
    def endpoint(self) -> str:
        """Where it is, for people."""
        return self.base_url or OPENAI_URL

    @property
    def asks_in_order(self) -> Schedule:
        """The order in which the questions of one video go out."""
        if self.kind is not ModelKind.OPENAI_COMPATIBLE or self.service_tier is ServiceTier.BATCH:
            return Schedule.TOGETHER
        return self.schedule or PROFILES[self.profile].schedule

    @property
    def costs_money(self) -> bool:
        if self.kind is not ModelKind.OPENAI_COMPATIBLE:
            return False
        if self.is_paid is not None:
            return self.is_paid
        return self.prices is not None or PROFILES[self.profile].is_paid

    def frame_tokens(self, size: tuple[int, int]) -> int | None:
        """Prompt tokens of one frame of `size` (width, height): `tokens_per_frame`, else the
        published rule of the model's family, else None."""
        if self.tokens_per_frame is not None:
            return self.tokens_per_frame
        return frame_tokens(
            self.profile,
            self.model or self.name,
            size,
            image_detail=self.image_detail,
            frames_as=self.sends_frames_as,
        )

    @property
    def tariff(self) -> Tariff:
        return Tariff(
            model=self.model or self.name,
            base_url=self.base_url,
            prices=self.prices,
            service_tier=None if self.service_tier is None else self.service_tier.value,
        )

    def api_key(self, environment: Mapping[str, str]) -> str | None:
        """The key of the endpoint; None where the entry names no variable.

        Raises:
            ModelError: when the variable it names is not set.
        """
        variable = self.api_key_env
        if variable is None and self.base_url is None:
            variable = "OPENAI_API_KEY"
        if variable is None:
            return None
        key = environment.get(variable)
        if not key:
            raise ModelError(
                f"model {self.name}: the environment variable {variable} is not set; "
                f"put the endpoint's key there (`export {variable}=…`) and run again"
            )
        return key


class Catalog(Spec):
    """Every model that can be named in an evaluation."""

    models: tuple[ModelSpec, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """The catalog in a `models.yaml`: one entry per model, keyed by its name.

        Raises:
            ConfigurationError: for a missing file, a wrong key (with the nearest right one) or
                a wrong value.
        """
        entries = read_yaml(path)
        specs = []
        for name, entry in entries.items():
            where = f"{path}: model {name}"
            if not isinstance(entry, dict):
                raise ConfigurationError(
                    f"{where}: expected `key: value` lines, found {entry!r}; "
                    "write at least `base_url` and `profile`"
                )
            if str(name) in BUILT_IN:
                raise ConfigurationError(f"{where}: that name is built in; choose another one")
            specs.append(parse_spec({"name": str(name), **entry}, ModelSpec, where))
        return cls(models=tuple(specs))

    @property
    def names(self) -> tuple[str, ...]:
        """The user's models, then those that need no entry."""
        return (*(spec.name for spec in self.models), *BUILT_IN)

    def find(self, name: str) -> ModelSpec:
        """The model called `name`.

        Raises:
            ModelError: when there is none, with the nearest name that there is.
        """
        for spec in (*self.models, *BUILT_IN.values()):
            if spec.name == name:
                return spec
        raise ModelError(
            f"model {name}: not in models.yaml and not built in, {nearest(name, self.names)}"
        )


BUILT_IN: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        # It answers on one thread: what waits for it would count as its latency.
        ModelSpec(name="embedded", kind=ModelKind.EMBEDDED, limits=Limits(concurrency=1)),
        ModelSpec(name="random", kind=ModelKind.RANDOM),
        ModelSpec(name="longest-option", kind=ModelKind.LONGEST_OPTION),
        *(
            ModelSpec(name=f"constant-{letter}", kind=ModelKind.CONSTANT, letter=letter)
            for letter in Letter
        ),
    )
}
"""Models that need neither an entry nor a key. (`blind` is not a model: it is any model asked
without frames, an option of the evaluation.)"""


def build_model(spec: ModelSpec, environment: Mapping[str, str] = os.environ) -> VideoLLM:
    """The model that `spec` describes, ready to be asked; nothing is loaded or connected yet.

    Each kind's module is imported here and not above: asking one model should not load the
    libraries of all.

    Raises:
        ModelError: when its key is not in `environment`.
    """
    # ruff: noqa: PLC0415 - see the docstring
    match spec.kind:
        case ModelKind.OPENAI_COMPATIBLE if spec.service_tier is ServiceTier.BATCH:
            from videomme_pipeline.models.openai.batch import OpenAIBatchModel

            return OpenAIBatchModel(spec, api_key=spec.api_key(environment))
        case ModelKind.OPENAI_COMPATIBLE:
            from videomme_pipeline.models.openai.client import OpenAICompatibleModel

            return OpenAICompatibleModel(spec, api_key=spec.api_key(environment))
        case ModelKind.EMBEDDED:
            from videomme_pipeline.models.embedded import EmbeddedModel

            return EmbeddedModel()
        case ModelKind.RANDOM:
            from videomme_pipeline.models.baselines import RandomBaseline

            return RandomBaseline(spec.seed)
        case ModelKind.CONSTANT:
            from videomme_pipeline.models.baselines import ConstantBaseline

            if spec.letter is None:
                raise ModelError(f"model {spec.name}: a constant model needs its `letter`")
            return ConstantBaseline(spec.letter)
        case ModelKind.LONGEST_OPTION:
            from videomme_pipeline.models.baselines import LongestOptionBaseline

            return LongestOptionBaseline()
