"""The documented form of vLLM's requests with a video, and what a server sees of one.

There is one class per object of the request schema. Unknown fields and fields of another type are
errors, so that a server with `rejection` as its `check` rejects every other form.
"""

import base64
import io
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import av
from pydantic import BaseModel, ConfigDict, ValidationError


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Text(_Strict):
    type: Literal["text"]
    text: str


class _Url(_Strict):
    url: str


class _VideoPart(_Strict):
    type: Literal["video_url"]
    video_url: _Url


class _VllmVideo(_Strict):
    num_frames: int
    fps: float
    min_frames: int | None = None
    max_frames: int | None = None
    video_backend: Literal["opencv"] | None = None


class _VllmMedia(_Strict):
    video: _VllmVideo


class _Edges(_Strict):
    shortest_edge: int
    longest_edge: int


class _VllmProcessor(_Strict):
    size: _Edges


class _Body(_Strict):
    model: str
    temperature: float = 0.0
    max_tokens: int
    media_io_kwargs: _VllmMedia
    mm_processor_kwargs: _VllmProcessor | None = None


def rejection(body: dict[str, Any]) -> str | None:
    """The reason why vLLM rejects `body`, or None if it reads the video."""
    fields = dict(body)
    ((message,), others) = fields.pop("messages"), fields
    try:
        _Body.model_validate(others)
        _VideoPart.model_validate(message["content"][0])
        _Text.model_validate(message["content"][1])
        frames_of(body)
    except (ValidationError, ValueError, OSError, av.FFmpegError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def video_of(body: dict[str, Any]) -> bytes:
    """The bytes of the video in a request."""
    part = body["messages"][0]["content"][0]
    url = part[part["type"]]["url"]
    if url.startswith("file://"):
        return Path(unquote(urlsplit(url).path)).read_bytes()
    kind, data = url.split(",", 1)
    if kind != "data:video/mp4;base64":
        raise ValueError(f"not a video: {kind[:50]}")
    return base64.b64decode(data, validate=True)


def frames_of(body: dict[str, Any]) -> int:
    """The number of frames of the video in a request."""
    with av.open(io.BytesIO(video_of(body))) as container:
        return container.streams.video[0].frames
