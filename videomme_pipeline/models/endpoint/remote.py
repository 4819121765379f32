"""The base class of models behind an endpoint: what only they have."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from pydantic import PrivateAttr

from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.frames.picture import PictureSpec
from videomme_pipeline.models.endpoint.managed import ServeSpec
from videomme_pipeline.models.identity import ServerIdentity
from videomme_pipeline.models.pricing import Tariff
from videomme_pipeline.models.spec import ModelSpec


class RemoteSpec(ModelSpec, ABC):
    """A model behind an HTTP endpoint. A subclass implements `identity` and `endpoint`.

    The defaults describe a running endpoint that reports nothing about itself.
    """

    _server: str | None = PrivateAttr(default=None)

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """URL of the endpoint, or the URLs of all endpoints, for messages."""

    @property
    def members(self) -> "tuple[RemoteSpec, ...]":
        """One spec for each endpoint of this model, in the order of the entry."""
        return (self,)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables with keys of the endpoint. Child processes do not get them."""
        return ()

    @property
    def served_name(self) -> str:
        """The name that the endpoint uses for the model."""
        return self.name

    @property
    def tariff(self) -> Tariff:
        return Tariff(model=self.served_name)

    def frame_tokens(
        self, size: tuple[int, int], frames: int = 1, picture: PictureSpec | None = None
    ) -> int | None:
        """Prompt tokens of all `frames` frames of `size` (width, height), or None if unknown."""

    def tokens_of(self, frames: FrameSet) -> int | None:
        """Prompt tokens of the frames of a request, or None if unknown."""
        shown = frames.frames
        if not shown:
            return 0
        if self.reads_video and (video := frames.video) is not None:
            return self.frame_tokens(video.size, len(shown), video.sampling.picture)
        return self.frame_tokens((shown[0].width, shown[0].height), len(shown))

    def frame_times(self, _seconds: Sequence[float]) -> Sequence[str]:
        """The texts that the endpoint adds to the frames of a video, shown at these times (s)."""
        return ()

    def context_tokens(self) -> int | None:
        """Tokens that a prompt can have at most, or None if unknown. May ask the endpoint."""

    def served_models(self) -> list[str] | None:
        """Sorted names of the models that the endpoint serves, or None if it has no list.

        Raises:
            ModelError: if the key is not set or the endpoint does not answer.
        """

    @property
    def server(self) -> str | None:
        """Hash of the server in the identity, or None for the first server that was seen."""
        return self._server

    def with_server(self, server: str | None) -> Self:
        """This model with the hash of a server in its identity, or without one."""
        changed = self.model_copy()
        changed._server = server
        return changed

    @property
    def reports_server(self) -> bool:
        """True if the server of the endpoint may report what it is."""
        return False

    def reported_server(self) -> ServerIdentity | None:
        """Facts that the server reports, or None if it is down or reports nothing.

        Raises:
            ModelError: if the key is not set, or several endpoints are not equal.
        """

    @property
    def managed(self) -> ServeSpec | None:
        """The way to start the servers of this model, or None if this project starts none."""
        return None

    def served_at(self, urls: Sequence[str], name: str) -> Self:
        """This model at the URLs of its servers, which know it as `name`. Needs `managed`."""
        raise NotImplementedError
