"""Turns at a model's endpoint, so that several runs do not overload it together.

The library needs none: `NoSlots` is the default. The Dagster graph injects slots of Dagster's
concurrency pools (`assets/dagster_internals/slots.py`).
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from videomme_pipeline.models.spec import ModelSpec


class Slots(Protocol):
    """Limits how many runs ask one endpoint at the same time."""

    def endpoint(self, model: ModelSpec) -> AbstractContextManager[None]:
        """Return a block that has a slot at the endpoint of `model`; entering waits for it."""


class NoSlots:
    """No limit."""

    def endpoint(self, model: ModelSpec) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()
