"""A server is checked before the first request and after every lost connection."""

from collections.abc import Mapping

import pytest

from tests.support.made_up_requests import request
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.connection_check import CheckedModel
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure


class Fragile:
    """A model that answers, or fails with `fails_with`."""

    name = "fragile"
    identity: Mapping[str, object] = {}
    needs_frames = True
    fails_with: FailureKind | None = None

    async def respond(self, request: Request) -> Reply:  # noqa: ARG002 - part of the protocol
        if self.fails_with is not None:
            raise ResponseFailure(self.fails_with, "a failure")
        return Reply(text="A")

    async def close(self) -> None:
        pass


async def test_a_lost_connection_is_followed_by_a_check() -> None:
    checks: list[int] = []
    fragile = Fragile()
    model = CheckedModel(fragile, lambda: checks.append(1))
    for failure, expected in [
        (None, 1),
        (None, 1),
        (FailureKind.SERVER_ERROR, 1),
        (FailureKind.CONNECTION, 1),
        (FailureKind.CONNECTION, 2),
        (None, 3),
        (None, 3),
    ]:
        fragile.fails_with = failure
        if failure is None:
            await model.respond(request())
        else:
            with pytest.raises(ResponseFailure):
                await model.respond(request())
        assert len(checks) == expected


async def test_another_server_is_not_asked() -> None:
    def fail() -> None:
        raise ModelError("another server")

    with pytest.raises(ModelError, match="another server"):
        await CheckedModel(Fragile(), fail).respond(request())
