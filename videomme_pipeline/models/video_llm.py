"""The protocol of a model that answers questions about videos, and what passes through it.

How requests are scheduled, retried and journalled belongs to `responses`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.prompts.render import Prompt


class Decoding(Spec):
    """How the model is asked to generate. None leaves the endpoint's default."""

    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int | None = 1024
    seed: int | None = None
    """Repeats of a question use `seed`, `seed + 1`, … so that they can differ."""
    reasoning_effort: str | None = None
    constrain_answer: bool = False
    """Let the endpoint accept only the option letters, where its profile can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one model, once. `sample` counts repeats of the same question from 0.

    `fingerprint` is what the journal knows the request by ("" where there is no journal).
    """

    question: Question
    prompt: Prompt
    frames: FrameSet
    decoding: Decoding
    sample: int = 0
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one or more requests. A count is None if no endpoint reported it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens, as far as they are known."""
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)

    def __add__(self, other: "Usage") -> "Usage":
        """The sum of each count that at least one of the two has."""
        return Usage(
            prompt_tokens=_sum_known(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_sum_known(self.completion_tokens, other.completion_tokens),
            cached_tokens=_sum_known(self.cached_tokens, other.cached_tokens),
            reasoning_tokens=_sum_known(self.reasoning_tokens, other.reasoning_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model returned. `collect` records an empty `text` as a failure.

    `usage_json` is the endpoint's own account of the tokens, unchanged; `usage` is read from it.
    `cost_dollars` (US dollars) is None if no price is known. `body` is the body of the HTTP
    response. `warning` describes a suspicious answer, for example one with fewer prompt tokens
    than the frames should cost.
    """

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    reported_model: str | None = None
    system_fingerprint: str | None = None
    usage: Usage = Usage()
    usage_json: str | None = None
    cost_dollars: float | None = None
    body: str | None = None
    warning: str | None = None


class FailureKind(StrEnum):
    """Why a request gave no answer."""

    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    """Status 200 and no readable completion in the body."""
    EMPTY = "empty"
    TRUNCATED = "truncated"
    """The token limit was reached before any answer was written."""
    REFUSED = "refused"
    CONTENT_FILTER = "content_filter"
    TOO_LARGE = "too_large"
    """More frames or bytes than the endpoint takes; never sent."""
    REJECTED = "rejected"
    """The endpoint calls the request invalid."""
    DEADLINE = "deadline"
    FRAMES = "frames"
    """The frames of the video could not be read."""
    NOT_ASKED = "not_asked"
    """Not sent in this run, for example because the budget was used up."""

    @property
    def may_pass(self) -> bool:
        """Asking again within the same run can help."""
        return self in _PASSING

    @property
    def is_final(self) -> bool:
        """The model has decided: recorded, and not asked again on a later run either."""
        return self in (FailureKind.REFUSED, FailureKind.CONTENT_FILTER)

    @property
    def was_generated(self) -> bool:
        """Tokens were generated (and paid for), so asking again is worth few attempts only."""
        return self in (FailureKind.EMPTY, FailureKind.TRUNCATED)


_PASSING = frozenset(
    {
        FailureKind.RATE_LIMITED,
        FailureKind.SERVER_ERROR,
        FailureKind.CONNECTION,
        FailureKind.TIMEOUT,
        FailureKind.MALFORMED,
        FailureKind.EMPTY,
        FailureKind.TRUNCATED,
    }
)


class ResponseFailure(VideoMMEError):  # noqa: N818 - it is an outcome of a request, told apart from errors of this project
    """One request gave no answer. It never stops the others, and is never an answer.

    `reply` holds what the endpoint sent and charged when it sent something (an empty or
    truncated completion, a refusal). `retry_after_seconds` is what the endpoint asked for.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        reply: Reply | None = None,
    ) -> None:
        self.kind = kind
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.reply = reply
        super().__init__(f"{kind.value}: {message}")


def _sum_known(one: int | None, other: int | None) -> int | None:
    return (one or 0) + (other or 0) if one is not None or other is not None else None


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
            ResponseFailure: when there is none; its kind says whether asking again can help.
            ModelError: when no question can be answered (wrong key, unknown model); this
                stops the evaluation.
        """
        ...

    async def close(self) -> None:
        """Let go of connections, processes and memory; a later `respond` opens them again."""
        ...
