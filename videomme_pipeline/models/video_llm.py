"""The protocol of a model that answers questions about videos, with its requests and replies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Protocol

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.subtitles.align import AlignedLine

KNOWN_ENDS = frozenset(
    ("complete", "completed", "content_filter", "end_turn", "eos", "eos_token", "function_call",
     "length", "max_output_tokens", "max_tokens", "stop", "stop_sequence", "tool_calls")
)  # fmt: skip
"""Finish reasons in lower case that are known. With another one, an answer may not be complete."""
MIN_TOKEN_SHARE = 0.6
"""Smallest plausible share of the prompt tokens that frames need by a published rule, if the tokens
of the text are unknown. Rules are rounded and endpoints resize frames, so only a large difference
is certain."""
OTHER_FRAMES = "It dropped, added or resized frames"
"""Part of the warning about a response whose prompt tokens do not fit the planned frames."""


class Generation(Spec):
    """Settings of the generation. None keeps the endpoint's default."""

    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int | None = 1024
    seed: int | None = None
    """Repeats of a question use `seed`, `seed + 1`, and so on, so that they can differ."""
    reasoning_effort: str | None = None
    constrain_answer: bool = False
    """Restrict the output to the option letters, if the endpoint's profile supports it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An earlier question of a conversation, and the text of the model's answer to it."""

    prompt: Prompt
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one model. `repeat` is the number of the repeat, from 0.

    `history` are the earlier turns of its conversation, the first of which has the frames.
    `fingerprint` identifies the request in the journal. It is "" if there is no journal. `lines`
    are the subtitles, for a model that gets more than the prompt. `same_frames` are requests,
    without their frames, that get the same frames at about this time.
    """

    question: Question
    prompt: Prompt
    frames: FrameSet
    generation: Generation
    lines: Sequence[AlignedLine] = ()
    repeat: int = 0
    fingerprint: str = ""
    same_frames: "tuple[Request, ...]" = ()
    history: tuple[Turn, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The text after the frames, then each answer and the next question."""
        earlier = ((turn.prompt.text, turn.answer) for turn in self.history)
        return [*chain.from_iterable(earlier), self.prompt.text]

    @property
    def seed(self) -> int | None:
        """The seed of this repeat, or None for the model's default."""
        seed = self.generation.seed
        return None if seed is None else seed + self.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one request. A count is None if the endpoint does not report it."""

    prompt_tokens: int | None = None
    """Tokens of the prompt, including cached tokens."""
    completion_tokens: int | None = None
    """Tokens of the answer, including tokens of the reasoning."""
    cached_tokens: int | None = None
    """Tokens of the prompt that the endpoint read from its cache."""
    reasoning_tokens: int | None = None
    """Tokens of the reasoning."""
    text_tokens: int | None = None
    """Tokens of the same prompt without its frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply of a model. `collect` records a reply without text as a failure.

    `usage_json` is as `Response` stores it, and `usage` is read from it. `cost_dollars` is None if
    no price is known. `body` is the body of the HTTP response. `warning` describes a suspicious
    answer, for example one with fewer prompt tokens than the frames should cost.
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

    @property
    def has_text(self) -> bool:
        """True if the text has a character that can be seen."""
        return any(char.isprintable() and not char.isspace() for char in self.text)


class FailureKind(StrEnum):
    """Reason why a request has no answer."""

    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    """Status 200 without a readable completion in the body."""
    EMPTY = "empty"
    TRUNCATED = "truncated"
    """The token limit was reached before any answer was written."""
    REFUSED = "refused"
    CONTENT_FILTER = "content_filter"
    TOO_LARGE = "too_large"
    """More frames or bytes than the endpoint accepts. The request was not sent."""
    REJECTED = "rejected"
    """The endpoint reports the request as invalid, or a program reports an error."""
    DEADLINE = "deadline"
    FRAMES = "frames"
    """The frames of the video could not be read."""
    NOT_ASKED = "not_asked"
    """Not sent in this run, for example because the budget was used up."""

    @property
    def is_transient(self) -> bool:
        """True if a retry within the same run can help."""
        return self in (
            FailureKind.RATE_LIMITED,
            FailureKind.SERVER_ERROR,
            FailureKind.CONNECTION,
            FailureKind.TIMEOUT,
            FailureKind.MALFORMED,
            FailureKind.EMPTY,
            FailureKind.TRUNCATED,
        )

    @property
    def is_final(self) -> bool:
        """True if the model refused. The question counts as settled and is never asked again."""
        return self in (FailureKind.REFUSED, FailureKind.CONTENT_FILTER)

    @property
    def was_generated(self) -> bool:
        """True if tokens were generated and paid for. Only a few attempts are then made."""
        return self in (FailureKind.EMPTY, FailureKind.TRUNCATED)


class ResponseFailure(VideoMMEError):  # noqa: N818 - a result of one request, not a fault of this program
    """One request has no answer. Other requests continue.

    `reply` is an empty or truncated completion or a refusal, which the endpoint charges for, or
    None. `retry_after_seconds` is the value of the Retry-After header.
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

    @property
    def shows_no_model(self) -> bool:
        """True for a closed port, an HTML page, an internal error (HTTP 500) and the like."""
        return self.kind in (FailureKind.CONNECTION, FailureKind.MALFORMED) or self.status == 500


class VideoLLM(Protocol):
    """Anything that answers `Request`s.

    `identity` has every value of the model that can change an answer (name, weights, code
    version), and is part of request fingerprints. No frame is read unless it `needs_frames`.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Mapping[str, object]: ...

    @property
    def needs_frames(self) -> bool: ...

    async def respond(self, request: Request) -> Reply:
        """Return the answer to one request. Raises ResponseFailure if there is none.

        A ModelError stops the evaluation: no question can be answered (wrong key, unknown model).
        """

    async def close(self) -> None:
        """Release connections, processes and memory. A later `respond` opens them again."""


class ModelPool:
    """The models of the endpoints of one entry, by URL."""

    def __init__(self, members: Mapping[str, VideoLLM]) -> None:
        self.members = members
        first = self._first = next(iter(members.values()))
        self.name, self.identity = first.name, first.identity
        self.needs_frames = first.needs_frames

    async def respond(self, request: Request) -> Reply:
        """Return the answer of the first endpoint. `collect` asks the members instead."""
        return await self._first.respond(request)

    async def close(self) -> None:
        for member in self.members.values():
            await member.close()


def members_of(model: VideoLLM) -> Mapping[str, VideoLLM]:
    """The models of a pool by URL, or `model` itself by its name."""
    return model.members if isinstance(model, ModelPool) else {model.name: model}


def seen_frames(planned: int, frame_tokens: int, reported: int) -> int:
    """The number of frames whose tokens are nearest to `reported` (without the tokens of the text).

    `frame_tokens` are the tokens of all planned frames by a published rule.
    """
    return max(round(planned * reported / frame_tokens), 0)
