"""Decoder backends: they decode the chosen frames of a video with the help of its packet index.

A backend returns exactly the frames of a sequential decode of the whole stream, or
`refusal_reason` returns why it would not. Backends run in one thread with few frames in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.videos.container import open_video
from videomme_pipeline.videos.packets import IndexSource, PacketIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

PYAV = "pyav"
"""The default. It replaces other backends on files that they do not decode exactly."""

BACKENDS = {
    PYAV: "videomme_pipeline.frames.pyav_backend:PyAVBackend",
    "decord": "videomme_pipeline.frames.decord_backend:DecordBackend",
}
"""The class of each backend, by its name in samplings. It is imported when it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedFrame:
    """A decoded frame. A counter-clockwise turn by `rotation` degrees makes it upright."""

    number: int
    frame: "VideoFrame"
    rotation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A chosen frame that does not decode to the right picture, and the reason."""

    number: int
    reason: str


class Backend:
    """Base class of all backends. `package` is the Python package that the backend needs."""

    package: ClassVar[str]

    def fault(
        self, container: "InputContainer", stream: "VideoStream", index: PacketIndex
    ) -> str | None:
        """The reason why the backend would return wrong frames of a video, or None."""

    def decode(
        self, path: VideoFile, index: PacketIndex, frames: Sequence[int]
    ) -> Iterator[DecodedFrame | Missing]:
        """Yield each of `frames` once, decoded or missing.

        Frames are in order of time, except that those with a second attempt are yielded later.
        Raises VideoUnreadableError if the file cannot be opened at all.
        """
        raise NotImplementedError


def decode_frames(
    path: VideoFile, index: PacketIndex, frames: Sequence[int], backend: str = PYAV
) -> Iterator[DecodedFrame | Missing]:
    """Yield each of `frames` as `Backend.decode` of the named backend does."""
    return _backend(backend).decode(path, index, frames)


def refusal_reason(backend: str, path: VideoFile, index: PacketIndex) -> str | None:
    """Reason why `backend` would return wrong frames of this video, or None if it would not."""
    if backend == PYAV:
        return None
    decoder = _backend(backend)
    if find_spec(decoder.package) is None:
        return f"{backend} is not installed"
    try:
        import_module(decoder.package)
    except (ImportError, OSError, RuntimeError) as error:  # such as a missing FFmpeg
        return f"{backend} does not load: {str(error).splitlines()[0]}"
    if index.source is IndexSource.DECODE:
        return "its packets carry no usable timestamps"
    with open_video(path) as (container, stream):
        return decoder.fault(container, stream, index)


def _backend(name: str) -> Backend:
    backend: Backend = resolve_name(BACKENDS[name])()
    return backend
