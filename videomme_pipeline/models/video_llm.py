"""The protocol of a model that answers questions about videos, and what passes through it.

How requests are scheduled, retried and journalled belongs to `responses`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from videomme_pipeline.annotations.question import Question
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.prompts.render import Prompt


class Decoding(Spec):
    """How the model is asked to generate. None leaves the endpoint's default."""

    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int | None = 1024
    seed: int | None = None
    reasoning_effort: str | None = None
    constrain_answer: bool = False
    """Let the endpoint accept only the option letters, where its profile can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one model, once. `sample` counts repeats of the same question from 0."""

    question: Question
    prompt: Prompt
    frames: FrameSet
    decoding: Decoding
    sample: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model said. An empty `text` is no answer; `collect` records it as a failure.

    `usage_json` is the endpoint's own accounting, untouched; the token counts are read from it
    and None where it does not tell.
    """

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    reported_model: str | None = None
    system_fingerprint: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_json: str | None = None
    body: str | None = None


class VideoLLM(Protocol):
    """Anything that answers `Request`s.

    `identity` holds every value of the model that can change an answer (name, weights, code
    version); it is part of the fingerprint of its responses. `needs_frames` is False for
    baselines that never look, so that no frame is read for them.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Mapping[str, object]: ...

    @property
    def needs_frames(self) -> bool: ...

    async def respond(self, request: Request) -> Reply:
        """One answer.

        Raises:
            ResponseFailure: when there is none; it says whether asking again can help.
        """
        ...

    async def close(self) -> None:
        """Let go of connections, processes and memory."""
        ...
