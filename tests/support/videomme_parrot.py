"""A kind of model as another package provides it: a spec class, a model class, a `Provider`.

`tests/end_to_end/test_provider_package.py` installs this file as a package of its own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Provider
from videomme_pipeline.models.video_llm import Reply, Request

KEY_VARIABLE = "PARROT_KEY"


class ParrotSpec(EndpointSpec):
    """A remote model that gives the same answer to every question."""

    kind: Literal["parrot"] = "parrot"  # type: ignore[assignment]
    says: str

    @property
    def identity(self) -> Mapping[str, object]:
        return {"name": self.name, "kind": self.kind, "says": self.says}

    @property
    def endpoint(self) -> str:
        return "https://parrots.invalid/v1"

    def served_models(self) -> list[str]:
        _check_key(os.environ)
        return [self.served_name]


@dataclass(frozen=True)
class Parrot:
    """The model that `ParrotSpec` describes."""

    spec: ParrotSpec
    needs_frames = False

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def identity(self) -> Mapping[str, object]:
        return self.spec.identity

    async def respond(self, request: Request) -> Reply:  # noqa: ARG002
        return Reply(text=self.spec.says)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def build(spec: ParrotSpec, environment: Mapping[str, str]) -> Parrot:
    _check_key(environment)
    return Parrot(spec)


def _check_key(environment: Mapping[str, str]) -> None:
    if KEY_VARIABLE not in environment:
        raise ModelError(f"a parrot needs {KEY_VARIABLE}; set it to anything")


provider = Provider(ParrotSpec, build)
