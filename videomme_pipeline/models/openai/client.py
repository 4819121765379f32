"""A model behind an endpoint that speaks OpenAI's chat completions.

The `openai` client gives the address and the credentials; the body is built here, because a
request of 64 frames is megabytes of JSON and only its last few hundred bytes are new. How it
travels belongs to `connections`. One call is one attempt: retries, limits and the journal belong
to `responses`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

import httpcore2
import httpx2
import openai
import orjson
import pybase64
from upath import UPath

from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.models.catalog import ModelSpec, ServiceTier
from videomme_pipeline.models.openai.connections import Answer, Connections
from videomme_pipeline.models.openai.endpoints import (
    MEBIBYTE,
    PROFILES,
    AnswerConstraint,
    EndpointProfile,
    FramesAs,
    constrained_to,
    video_sampling,
)
from videomme_pipeline.models.pricing import TokenUsage
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure
from videomme_pipeline.store import publish

CHUNK_BYTES = 512 * 1024
"""Bytes handed to the socket at once. Smaller chunks cost more calls, larger ones more memory."""

UPLOADS_AT_ONCE = 32
"""Bodies on their way at the same time. All share one line, so more only take memory; requests
that wait for their answer do not count."""

ENCODED_BYTES_KEPT = 64 * MEBIBYTE
"""Encoded frames that are kept for the next question of their video."""

_UNSENT_KEY = "not-needed"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that goes into a body as base64."""

    data: bytes

    @property
    def size(self) -> int:
        return 4 * ((len(self.data) + 2) // 3)


class FramePart:
    """The frames of a video as they stand in a body, the same for all of its questions."""

    def __init__(
        self, frames: FrameSet, after_frame: Sequence[str], pieces: Iterable[bytes | Picture]
    ) -> None:
        self.frames = frames
        self.after_frame = after_frame
        self._pieces = tuple(pieces)
        sizes = (piece.size if isinstance(piece, Picture) else len(piece) for piece in self._pieces)
        self.size = sum(sizes)

    @cached_property
    def chunks(self) -> tuple[bytes, ...]:
        """The encoded bytes in order, in chunks of about `CHUNK_BYTES`; made when first sent."""
        chunks: list[bytes] = []
        held: list[bytes] = []
        held_bytes = 0
        for piece in self._pieces:
            data = pybase64.b64encode(piece.data) if isinstance(piece, Picture) else piece
            held.append(data)
            held_bytes += len(data)
            if held_bytes >= CHUNK_BYTES:
                chunks.append(b"".join(held))
                held, held_bytes = [], 0
        return (*chunks, b"".join(held))


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body, which can be sent any number of times."""

    head: bytes
    frames: FramePart
    tail: bytes

    @property
    def size(self) -> int:
        return len(self.head) + self.frames.size + len(self.tail)

    def chunks(self) -> Iterator[bytes]:
        """The body in order."""
        yield self.head
        yield from self.frames.chunks
        yield self.tail

    async def sent(self, uploads: asyncio.Semaphore) -> AsyncIterator[bytes]:
        """The body as it is uploaded, in one of the places that `uploads` has."""
        async with uploads:
            for chunk in self.chunks():
                yield chunk


class RecentFrames:
    """The frames of the videos that were asked last, up to `ENCODED_BYTES_KEPT`, so that each is
    encoded once for all questions of its video that go out at about the same time."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._held: dict[int, FramePart] = {}

    def part_of(self, request: Request) -> FramePart:
        key = id(request.frames)
        part = self._held.pop(key, None)
        after_frame = request.prompt.after_frame
        if part is None or part.frames is not request.frames or part.after_frame != after_frame:
            part = frame_part(self._spec, request)
        self._held[key] = part
        while len(self._held) > 1 and self.bytes > ENCODED_BYTES_KEPT:
            del self._held[next(iter(self._held))]
        return part

    @property
    def bytes(self) -> int:
        return sum(part.size for part in self._held.values())


class OpenAICompatibleModel:
    """A model of the catalog that is reached over HTTP."""

    needs_frames = True

    def __init__(self, spec: ModelSpec, *, api_key: str | None = None) -> None:
        self.spec = spec
        self._api_key = api_key
        self._connections: Connections | None = None
        self._uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._recent = RecentFrames(spec)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def identity(self) -> Mapping[str, object]:
        return self.spec.identity

    async def respond(self, request: Request) -> Reply:
        """One attempt at one answer.

        Raises:
            ResponseFailure: when no answer came of it.
            ModelError: when the key is rejected, the credit is used up or there is no such
                model or endpoint.
        """
        if self.spec.sends_frames_as is FramesAs.FILES and self.spec.shared_folder is not None:
            folder = UPath(self.spec.shared_folder)
            await asyncio.to_thread(share_frames, request.frames, folder)
        answer = await self._post(request)
        if answer.status >= 300:
            raise status_failure(answer, self.spec)
        reply = read_reply(answer.content, self.spec, request)
        return replace(reply, warning=dropped_frames_warning(self.spec, request, reply))

    async def close(self) -> None:
        connections, self._connections = self._connections, None
        self._recent = RecentFrames(self.spec)
        if connections is not None:
            await connections.close()

    async def _post(self, request: Request) -> Answer:
        body = request_body(self.spec, request, self._recent.part_of(request))
        content, size = body.sent(self._uploads), body.size
        # Megabytes, which nobody needs any more once they are sent and the answer is waited for.
        del body
        seconds = self.spec.limits.request_timeout_seconds
        if self._connections is None:
            client = connect(self.spec, self._api_key)
            self._connections = Connections(client, "chat/completions", timeout_seconds=seconds)
        try:
            return await self._connections.post(content, size)
        except TimeoutError as error:
            raise ResponseFailure(FailureKind.TIMEOUT, f"no answer within {seconds:g} s") from error
        except (
            httpcore2.ConnectTimeout,
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.ProxyError,
        ) as error:
            raise ResponseFailure(
                FailureKind.CONNECTION,
                f"{self.spec.endpoint}: {type(error).__name__}: {error}; is the server up?",
            ) from error


def connect(spec: ModelSpec, api_key: str | None) -> openai.AsyncOpenAI:
    """A client for the endpoint of `spec` that retries nothing by itself and keeps as many
    connections as there are requests."""
    return openai.AsyncOpenAI(
        api_key=api_key or _UNSENT_KEY,
        base_url=spec.base_url,
        max_retries=0,
        timeout=spec.limits.request_timeout_seconds,
        http_client=openai.DefaultAsyncHttpxClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=1024)
        ),
    )


def request_body(spec: ModelSpec, request: Request, frames: FramePart | None = None) -> RequestBody:
    """The JSON body of one question: parameters, system message, frames, question.

    The messages of the questions of one video are equal byte for byte up to the question, so
    that an endpoint's prefix cache holds the frames. `frames` is the part of an earlier question
    of the same video, where there was one.

    Raises:
        ResponseFailure: when it is more than the endpoint takes.
        ModelError: when the prompt cannot be sent the way the model wants its frames.
    """
    profile = PROFILES[spec.profile]
    head = orjson.dumps(_parameters(spec, profile, request))[:-1] + b',"messages":['
    if request.prompt.system is not None:
        head += orjson.dumps({"role": "system", "content": request.prompt.system}) + b","
    body = RequestBody(
        head + b'{"role":"user","content":[',
        frames or frame_part(spec, request),
        _text_part(request.prompt.text) + b"]}]}",
    )
    _check_limits(spec, profile, request, body)
    return body


def frame_part(spec: ModelSpec, request: Request) -> FramePart:
    """The frames of `request`, each followed by the text that the prompt puts after it."""
    after_frame = request.prompt.after_frame
    return FramePart(request.frames, after_frame, _frame_pieces(spec, request))


def read_reply(content: bytes, spec: ModelSpec, request: Request) -> Reply:
    """The answer in the body of a chat completion.

    Raises:
        ResponseFailure: when the body is no completion, or the completion is no answer.
    """
    body = _completion(content)
    choice = body["choices"][0]
    message = choice["message"]
    finish_reason = choice.get("finish_reason")
    profile = PROFILES[spec.profile]
    written = _text_of(message.get("content"))
    text, thought = split_reasoning(written, finish_reason)
    constraint = profile.answer_constraint
    if request.decoding.constrain_answer and constraint is AnswerConstraint.JSON_SCHEMA:
        text = _constrained_letter(text)
    reasoning = next((message[f] for f in profile.reasoning_fields if message.get(f)), thought)
    reply = _with_usage(
        Reply(
            text=text,
            reasoning=reasoning,
            finish_reason=finish_reason,
            reported_model=body.get("model"),
            system_fingerprint=body.get("system_fingerprint"),
            body=content.decode("utf-8", "replace"),
        ),
        body,
        spec,
    )
    failure = _no_answer(reply, message.get("refusal"))
    if failure is not None:
        raise failure
    return reply


def split_reasoning(written: str, finish_reason: str | None) -> tuple[str, str | None]:
    """The answer and the reasoning of a model that writes `<think>…</think>` into its text.

    Some chat templates open the thought themselves, so that only `</think>` is written. A
    thought that was cut off has no answer behind it.
    """
    thought, closed, answer = written.rpartition("</think>")
    if closed:
        return answer.strip(), thought.replace("<think>", "").strip()
    if written.lstrip().startswith("<think>") and finish_reason == "length":
        return "", written.replace("<think>", "").strip()
    return written, None


def dropped_frames_warning(spec: ModelSpec, request: Request, reply: Reply) -> str | None:
    """What to tell the user when the endpoint charged for fewer frames than were sent.

    Compares the reported prompt tokens with what the frames cost by the model's published
    rule, or, for a model without one, with one token a frame, the least that any takes.
    """
    frames = request.frames.frames
    if reply.prompt_tokens is None or not frames:
        return None
    per_frame = spec.frame_tokens((frames[0].width, frames[0].height))
    expected = len(frames) * (per_frame or 1)
    # Rules are rounded and endpoints resize: only half of the frames missing is certain.
    if reply.prompt_tokens >= expected * (0.6 if per_frame else 1.0):
        return None
    rule = f"at {per_frame} tokens each" if per_frame else "at one token each, the least possible"
    return (
        f"model {spec.name}: {len(frames)} frames were sent, which cost {expected:,} tokens "
        f"{rule}, but the endpoint reports {reply.prompt_tokens:,} prompt tokens in all. It has "
        "dropped frames or shrunk them: check its limits on images per prompt (vLLM: "
        "--limit-mm-per-prompt, and `profile: vllm` for video), or set `tokens_per_frame`."
    )


def share_frames(frames: FrameSet, folder: UPath) -> None:
    """Put the pictures of `frames` where an endpoint on the same disk reads them, once."""
    for number, frame in enumerate(frames.frames):
        path = _shared_path(frames, folder, number)
        if not path.exists():
            publish(path, frame.picture)


def _shared_path(frames: FrameSet, folder: UPath, number: int) -> UPath:
    return folder / f"{frames.video_hash}-{frames.fingerprint}" / f"{number:05d}.jpg"


def _parameters(spec: ModelSpec, profile: EndpointProfile, request: Request) -> dict[str, Any]:
    decoding = request.decoding
    seed = None if decoding.seed is None else decoding.seed + request.sample
    optional = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        profile.token_limit_parameter: decoding.max_tokens,
        "seed": seed,
        "reasoning_effort": decoding.reasoning_effort,
        "service_tier": "flex" if spec.service_tier is ServiceTier.FLEX else None,
    }
    fields: dict[str, Any] = {"model": spec.model or spec.name}
    fields |= {name: value for name, value in optional.items() if value is not None}
    if profile.takes_prompt_cache_key and request.frames.frames:
        fields["prompt_cache_key"] = (
            f"{request.frames.video_hash[:24]}-{request.frames.fingerprint}"
        )
    if spec.cache_breakpoint:
        fields["prompt_cache_options"] = {"mode": "explicit"}
    if decoding.constrain_answer:
        if profile.answer_constraint is None:
            raise ModelError(
                f"model {spec.name}: profile {spec.profile.value} has no way to constrain the "
                "answer; name the endpoint's own profile or set `constrain_answer: false`"
            )
        letters = [letter.value for letter in request.question.letters]
        fields |= constrained_to(profile.answer_constraint, letters)
    if spec.sends_frames_as is FramesAs.VIDEO and request.frames.frames:
        frames = request.frames.frames
        fields |= video_sampling(
            [frame.pts_seconds for frame in frames], [frame.index for frame in frames]
        )
    return fields | spec.extra_body


def _frame_pieces(spec: ModelSpec, request: Request) -> Iterator[bytes | Picture]:
    frames, after_frame = request.frames.frames, request.prompt.after_frame
    if not frames:
        return
    if spec.sends_frames_as is FramesAs.VIDEO:
        if any(after_frame):
            raise ModelError(
                f"model {spec.name}: prompt {request.prompt.template} says something after each "
                "frame, which frames sent as one video have no place for; set `frames_as: images`"
            )
        yield from _video_pieces(request.frames, spec.cache_breakpoint)
        return
    detail = f',"detail":"{spec.image_detail.value}"' if spec.image_detail else ""
    begins = b'{"type":"image_url","image_url":{"url":"'
    ends = f'"{detail}}}'.encode()
    data_url = f"data:{request.frames.media_type};base64,".encode()
    for number, frame in enumerate(frames):
        if spec.sends_frames_as is FramesAs.FILES and spec.shared_folder is not None:
            path = _shared_path(request.frames, UPath(spec.shared_folder), number)
            yield begins + orjson.dumps(f"file://{path}")[1:-1]
        else:
            yield begins + data_url
            yield Picture(frame.picture)
        is_last = number == len(frames) - 1
        yield ends + _breakpoint(is_last and spec.cache_breakpoint) + b"},"
        if after_frame and after_frame[number]:
            yield _text_part(after_frame[number]) + b","


def _video_pieces(frames: FrameSet, breaks: bool) -> Iterator[bytes | Picture]:
    yield b'{"type":"video_url","video_url":{"url":"data:video/jpeg;base64,'
    for number, frame in enumerate(frames.frames):
        if number:
            yield b","
        yield Picture(frame.picture)
    yield b'"}' + _breakpoint(breaks) + b"},"


def _breakpoint(stands_here: bool) -> bytes:
    return b',"prompt_cache_breakpoint":{"mode":"explicit"}' if stands_here else b""


def _text_part(text: str) -> bytes:
    return orjson.dumps({"type": "text", "text": text})


def _check_limits(
    spec: ModelSpec, profile: EndpointProfile, request: Request, body: RequestBody
) -> None:
    max_images = spec.max_images or profile.max_images
    sent = len(request.frames.frames)
    if max_images is not None and sent > max_images:
        raise ResponseFailure(
            FailureKind.TOO_LARGE,
            f"question {request.question.question_id} has {sent} frames and {spec.name} takes "
            f"{max_images} a request; choose a sampling with fewer frames",
        )
    max_bytes = spec.max_body_bytes or profile.max_body_bytes
    if max_bytes is not None and body.size > max_bytes:
        raise ResponseFailure(
            FailureKind.TOO_LARGE,
            f"question {request.question.question_id} makes a body of {body.size:,} bytes and "
            f"{spec.name} takes {max_bytes:,}; choose fewer or smaller frames, or a lower JPEG "
            "quality",
        )


def _completion(content: bytes) -> dict[str, Any]:
    """A body that holds at least one choice with a message."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ResponseFailure(
            FailureKind.MALFORMED, f"not JSON: {content[:200]!r} ({error})", status=200
        ) from error
    try:
        message = body["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        message = None
    if not isinstance(message, dict):
        raise ResponseFailure(
            FailureKind.MALFORMED, f"JSON without a message: {content[:200]!r}", status=200
        )
    return dict(body)


def _text_of(content: object) -> str:
    """The text of a message; some endpoints send it in parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _constrained_letter(text: str) -> str:
    """The letter in `{"answer": "B"}`; other text stays as it is."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    answer = value.get("answer") if isinstance(value, dict) else None
    return answer if isinstance(answer, str) else text


def _with_usage(reply: Reply, body: dict[str, Any], spec: ModelSpec) -> Reply:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return reply
    profile = PROFILES[spec.profile]
    prompt = _count(usage, ("prompt_tokens",))
    completion = _count(usage, ("completion_tokens",))
    found = (_count(body, path) for path in profile.cached_tokens_at)
    cached = next((count for count in found if count is not None), None)
    cost = None
    if prompt is not None and completion is not None and spec.costs_money:
        tokens = TokenUsage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached or 0,
            cache_write_tokens=_count(usage, ("prompt_tokens_details", "cache_write_tokens")) or 0,
        )
        tariff = spec.tariff
        if body.get("service_tier") == "default":
            tariff = replace(tariff, service_tier=None)
        cost = tariff.dollars(tokens)
    return replace(
        reply,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        reasoning_tokens=_count(usage, ("completion_tokens_details", "reasoning_tokens")),
        usage_json=orjson.dumps(usage).decode(),
        cost_dollars=cost,
    )


def _count(value: object, path: tuple[str, ...]) -> int | None:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) else None


def _no_answer(reply: Reply, refusal: object) -> ResponseFailure | None:
    """Why a completion is not an answer; None when it is one."""
    if isinstance(refusal, str) and refusal:
        return ResponseFailure(FailureKind.REFUSED, refusal, status=200, reply=reply)
    if reply.finish_reason == "content_filter":
        message = "the endpoint withheld the answer"
        return ResponseFailure(FailureKind.CONTENT_FILTER, message, status=200, reply=reply)
    if reply.text.strip():
        return None
    if reply.finish_reason == "length":
        message = (
            "the token limit was reached before an answer was written "
            f"({reply.completion_tokens} tokens); raise `max_tokens`"
        )
        return ResponseFailure(FailureKind.TRUNCATED, message, status=200, reply=reply)
    message = f"a completion without text (finish_reason {reply.finish_reason})"
    return ResponseFailure(FailureKind.EMPTY, message, status=200, reply=reply)


def status_failure(answer: Answer, spec: ModelSpec) -> ModelError | ResponseFailure:
    """What an HTTP status means: the end of this attempt, or of the evaluation."""
    status = answer.status
    message, code = _error_in(answer)
    said = f"HTTP {status}: {message}"
    if status in (401, 403):
        variable = spec.api_key_env or "OPENAI_API_KEY"
        return ModelError(
            f"model {spec.name}: {spec.endpoint} rejects the key ({said}); check the environment "
            f"variable {variable}. Everything answered so far is kept."
        )
    if status == 404:
        return ModelError(
            f"model {spec.name}: {spec.endpoint} knows no model {spec.model or spec.name!r} "
            f"({said}); check `model` and `base_url` in models.yaml. Everything answered so far "
            "is kept."
        )
    if status == 429 and code == "insufficient_quota":
        return ModelError(
            f"model {spec.name}: the account has no credit left ({said}); everything answered "
            "so far is kept, run again when it has."
        )
    return ResponseFailure(
        kind_of_status(status, code),
        said,
        status=status,
        retry_after_seconds=retry_after_seconds(answer.headers, datetime.now(UTC)),
    )


def _error_in(answer: Answer) -> tuple[str, str | None]:
    """The message and the code of an error's body; where it has none, what came instead."""
    try:
        error = orjson.loads(answer.content)["error"]
        return str(error["message"]), error.get("code")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        moved_to = answer.headers.get("location")
        came = answer.content[:200].decode("utf-8", "replace")
        return (f"moved to {moved_to}" if moved_to else came), None


def kind_of_status(status: int, code: str | None) -> FailureKind:
    """The kind of failure that an HTTP status and the endpoint's own code stand for."""
    if status == 429:
        return FailureKind.RATE_LIMITED
    if status in (408, 409) or status >= 500:
        return FailureKind.SERVER_ERROR
    if status == 413:
        return FailureKind.TOO_LARGE
    if code == "content_filter":
        return FailureKind.CONTENT_FILTER
    return FailureKind.REJECTED


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long an endpoint asks to be left alone: `retry-after-ms`, or `Retry-After` in
    seconds or as a date; None where it does not say so readably."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(float(headers.get(name, "")) * scale, 0.0)
        except ValueError:
            continue
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max((moment - now).total_seconds(), 0.0)
