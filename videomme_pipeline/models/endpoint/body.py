"""The JSON body of a chat completion: parameters, frames, question.

Only the last few hundred of its megabytes differ between the questions of one video. So the body is
built as chunks of bytes, and the questions of a video share its encoded frames.
"""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, cycle
from typing import Any

import orjson
import pybase64

from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.models.endpoint.endpoints import FramesAs, constrained_to, video_sampling
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.video_file import fields_of, video_file
from videomme_pipeline.models.video_llm import FailureKind, Request, ResponseFailure

CHUNK_BYTES = 512 * 1024
"""Bytes per write to the socket. Smaller chunks need more calls, larger ones more memory."""
ENCODED_BYTES_KEPT = 64 << 20


@dataclass(frozen=True, slots=True)
class Base64Part:
    """A picture, a video or its sound, which is sent as base64."""

    data: bytes

    @property
    def size(self) -> int:
        return 4 * ((len(self.data) + 2) // 3)


class FramePart:
    """The frames of a video as JSON, which the bodies of all questions about it contain."""

    def __init__(
        self, frames: FrameSet, texts: Sequence[str], pieces: Iterable[bytes | Base64Part]
    ) -> None:
        self.frames = frames
        self.texts = texts
        self._pieces = tuple(pieces)
        self.size = sum(p.size if isinstance(p, Base64Part) else len(p) for p in self._pieces)

    @cached_property
    def chunks(self) -> tuple[bytes, ...]:
        """The encoded bytes in chunks of about `CHUNK_BYTES`, encoded on first use."""
        chunks = [bytearray()]
        for piece in self._pieces:
            chunks[-1] += pybase64.b64encode(piece.data) if isinstance(piece, Base64Part) else piece
            if len(chunks[-1]) >= CHUNK_BYTES:
                chunks.append(bytearray())
        return tuple(map(bytes, chunks))


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body, which can be sent several times."""

    head: bytes
    frames: FramePart
    tail: bytes

    @property
    def size(self) -> int:
        return len(self.head) + self.frames.size + len(self.tail)

    def chunks(self) -> Iterator[bytes]:
        yield self.head
        yield from self.frames.chunks
        yield self.tail

    async def stream(self, uploads: asyncio.Semaphore) -> AsyncIterator[bytes]:
        """The chunks of the body. They use one slot of `uploads` until the last is sent."""
        async with uploads:
            for chunk in self.chunks():
                yield chunk


class RecentFrames:
    """The encoded frames of the latest videos, up to `ENCODED_BYTES_KEPT`."""

    def __init__(self) -> None:
        self._parts: dict[int, FramePart] = {}

    def part_of(self, spec: EndpointSpec, request: Request) -> FramePart:
        """The frames of `request`, shared with an earlier request that has the same frames."""
        key = id(request.frames)
        part = self._parts.pop(key, None)
        texts = _texts(request)
        if part is None or part.frames is not request.frames or part.texts != texts:
            part = frame_part(spec, request)
        self._parts[key] = part
        while len(self._parts) > 1 and self.bytes > ENCODED_BYTES_KEPT:
            del self._parts[next(iter(self._parts))]
        return part

    @property
    def bytes(self) -> int:
        return sum(part.size for part in self._parts.values())


def request_body(
    spec: EndpointSpec, request: Request, frames: FramePart | None = None
) -> RequestBody:
    """The JSON body of one question, whose `frames` an earlier question of the video may have.

    The first message of a conversation has the frames. The messages about one video are equal byte
    for byte up to the question, so that an endpoint's prefix cache can be used.

    ResponseFailure if the body exceeds a limit of the endpoint. ModelError if the endpoint cannot
    constrain answers or sample a video in this way, or if the prompt has text between frames that
    are sent as one video.
    """
    head = orjson.dumps(_parameters(spec, request))[:-1] + b',"messages":['
    if request.prompt.system is not None:
        head += orjson.dumps({"role": "system", "content": request.prompt.system}) + b","
    first, *later = request.texts
    tail = _text_part(first) + b"]}"
    for role, text in zip(cycle(("assistant", "user")), later, strict=False):
        tail += b"," + orjson.dumps({"role": role, "content": text})
    head += b'{"role":"user","content":['
    body = RequestBody(head, frames or frame_part(spec, request), tail + b"]}")
    _check_limits(spec, request, body)
    return body


def text_body(spec: EndpointSpec, request: Request) -> RequestBody:
    """The body of `request` for one token, with the times and the sound instead of its frames."""
    one_token = request.generation.model_copy(update={"max_tokens": 1})
    frames = replace(request.frames, frames=(), video=None)
    times = "".join(spec.frame_times(request.frames.seconds))
    texts = [_text_part(text) + b"," for text in (times, *_texts(request)) if text]
    part = FramePart(frames, (), [*texts, *_sound_pieces(spec, request)])
    return request_body(spec, replace(request, frames=frames, generation=one_token), part)


def frame_part(spec: EndpointSpec, request: Request) -> FramePart:
    """The frames of `request` with the prompt's texts between them, and the sound of the video."""
    pieces = chain(_frame_pieces(spec, request), _sound_pieces(spec, request))
    return FramePart(request.frames, _texts(request), pieces)


def _texts(request: Request) -> Sequence[str]:
    """The texts before the first frame and after each one."""
    return (request.prompt.before_frames, *request.prompt.after_frame)


def _parameters(spec: EndpointSpec, request: Request) -> dict[str, Any]:
    generation, profile = request.generation, spec.endpoint_profile
    optional = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        profile.token_limit_parameter: generation.max_tokens,
        "seed": request.seed,
        "reasoning_effort": generation.reasoning_effort,
        "service_tier": spec.service_tier,
    }
    fields: dict[str, Any] = {"model": spec.served_name}
    fields |= {name: value for name, value in optional.items() if value is not None}
    frames = request.frames
    if profile.takes_prompt_cache_key and frames.frames:
        fields["prompt_cache_key"] = f"{frames.video_hash[:24]}-{frames.fingerprint}"
    if generation.constrain_answer:
        if profile.answer_constraint is None:
            raise ModelError(
                f"model {spec.name}: profile {spec.profile} cannot constrain answers; set "
                "`profile` to the endpoint's family or `constrain_answer: false`"
            )
        letters = [letter.value for letter in request.question.letters]
        fields |= constrained_to(profile.answer_constraint, letters)
    if spec.sends_frames_as is FramesAs.FRAME_SEQUENCE and frames.frames:
        fields |= video_sampling(frames)
    elif spec.reads_video and frames.frames:
        fields |= fields_of(spec, request)
    return fields | spec.extra_body


def _frame_pieces(spec: EndpointSpec, request: Request) -> Iterator[bytes | Base64Part]:
    frames, (before, *after_frame) = request.frames.frames, _texts(request)
    if not frames:
        return
    if spec.sees_frame_times:
        if before or any(after_frame):
            raise ModelError(
                f"model {spec.name}: prompt {request.prompt.template} has text between frames, "
                "which is impossible with frames sent as one video; set `frames_as: images`"
            )
        yield b'{"type":"video_url","video_url":{"url":"'
        if spec.reads_video:
            yield from _video_url(spec, request)
        else:
            yield b"data:video/jpeg;base64,"
            for number, frame in enumerate(frames):
                if number:
                    yield b","
                yield Base64Part(frame.picture)
        yield b'"}},'
        return
    detail = f',"detail":"{spec.image_detail}"' if spec.image_detail else ""
    url = f"data:{request.frames.media_type};base64,"
    prefix = f'{{"type":"image_url","image_url":{{"url":"{url}'.encode()
    suffix = f'"{detail}}}}},'.encode()
    if before:
        yield _text_part(before) + b","
    for number, frame in enumerate(frames):
        yield prefix
        yield Base64Part(frame.picture)
        yield suffix
        if after_frame and after_frame[number]:
            yield _text_part(after_frame[number]) + b","


def _video_url(spec: EndpointSpec, request: Request) -> Iterator[bytes | Base64Part]:
    file = video_file(spec, request)
    if spec.shared_folder is not None:
        yield orjson.dumps(file.as_uri())[1:-1]
    else:
        media_type, _ = mimetypes.guess_type(file.name)
        yield f"data:{media_type or 'video/mp4'};base64,".encode()
        yield Base64Part(file.read_bytes())


def _sound_pieces(spec: EndpointSpec, request: Request) -> Iterator[bytes | Base64Part]:
    if spec.audio and request.frames.sound is not None:
        yield b'{"type":"input_audio","input_audio":{"data":"'
        yield Base64Part(request.frames.sound)
        yield b'","format":"wav"}},'


def _text_part(text: str) -> bytes:
    return orjson.dumps({"type": "text", "text": text})


def _check_limits(spec: EndpointSpec, request: Request, body: RequestBody) -> None:
    profile = spec.endpoint_profile
    max_images = spec.max_images or profile.max_images
    max_bytes = spec.max_body_bytes or profile.max_body_bytes
    sent = len(request.frames.frames)
    if max_images is not None and sent > max_images and not spec.reads_video:
        problem = (
            f"{sent} frames and {spec.name} accepts {max_images} per request; choose a sampling "
            "with fewer frames"
        )
    elif max_bytes is not None and body.size > max_bytes:
        problem = (
            f"a body of {body.size:,} bytes and {spec.name} accepts {max_bytes:,}; choose fewer or "
            "smaller frames, or a lower JPEG quality"
        )
    else:
        return
    name = request.question.question_id
    raise ResponseFailure(FailureKind.TOO_LARGE, f"question {name} has {problem}")
