"""The base class of the models of an endpoint, which checks the server before it is asked."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from videomme_pipeline.models.connection_check import ConnectionCheck
from videomme_pipeline.models.context import context_excess
from videomme_pipeline.models.endpoint.served import is_silent
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure


class EndpointModel(ABC):
    """A model of an endpoint that answers and whose context is looked up once per connection.

    A request for an answer can take minutes, so silence shows nothing. A request for the list
    of models is answered at once, if only with a status such as 404.
    """

    needs_frames = True

    def __init__(self, spec: EndpointSpec, *, api_key: str | None = None) -> None:
        self.spec = spec
        self._api_key = api_key
        self._has_answered = False
        self._context_tokens = ConnectionCheck(self._check)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def identity(self) -> Mapping[str, object]:
        return self.spec.identity

    async def respond(self, request: Request) -> Reply:
        """Return the answer of one attempt.

        Raises:
            ResponseFailure: if the attempt fails, the server accepts connections and does not
                answer, or the prompt is too long for the model.
            ModelError: if the key is rejected, the credit is used up, or the model or endpoint
                does not exist.
        """
        async with self._context_tokens.passed() as context_tokens:
            frames = request.frames.frames
            excess = context_excess(
                self.spec,
                context_tokens,
                frames=len(frames),
                frame_size=(frames[0].width, frames[0].height) if frames else None,
                text_characters=len(request.prompt.system or "") + len(request.prompt.text),
            )
            if excess is not None:
                raise ResponseFailure(FailureKind.TOO_LARGE, str(excess))
            return await self.ask(request)

    @abstractmethod
    async def ask(self, request: Request) -> Reply:
        """Return the answer of an endpoint that was checked."""

    async def close(self) -> None:
        self._has_answered = False
        self._context_tokens.invalidate()

    def _check(self) -> int | None:
        """The context of the model in tokens, or None if it is unknown.

        Raises:
            ResponseFailure: if the server accepts connections and has never answered.
        """
        # A server that has answered may be busy now.
        if not self._has_answered and is_silent(self.spec.url, self._api_key):
            raise ResponseFailure(
                FailureKind.CONNECTION,
                f"{self.spec.endpoint} accepts connections but does not answer; is it the port "
                "of an inference server, and does the server work?",
            )
        self._has_answered = True
        environment = dict.fromkeys(self.spec.key_variables, self._api_key or "")
        return self.spec.context_tokens(environment)
