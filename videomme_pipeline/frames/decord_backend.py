"""The backend decord, which turns frames upright."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.frames.backends import Backend, DecodedFrame, Fault, Missing
from videomme_pipeline.frames.pyav_backend import starts_with_idr
from videomme_pipeline.videos.packets import PacketIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


class DecordBackend(Backend):
    """Decode one frame at a time, since a batch would need memory for all frames.

    Version 0.6 may never return, so run it in a child process with a time limit.
    """

    package = "decord"

    def faults(
        self, container: "InputContainer", stream: "VideoStream", index: PacketIndex
    ) -> Iterator[Fault]:
        codec = stream.codec_context.name
        yield f"decord is exact only on H.264, and this is {codec}", codec != "h264"
        is_ts = container.format.name == "mpegts"
        yield "decord does not return from an MPEG transport stream", is_ts
        shifted = bool(index.is_hidden.any() or index.frame_pts[0] != 0)
        yield "decord does not apply its edit list, start time or clip", shifted
        is_open = not starts_with_idr(container, stream, index)
        yield "decord decodes wrong pictures after keyframes that are not IDR (open GOP)", is_open

    def decode(
        self,
        path: VideoFile,
        index: PacketIndex,  # noqa: ARG002
        frames: Sequence[int],
    ) -> Iterator[DecodedFrame | Missing]:
        import av  # noqa: PLC0415
        import decord  # noqa: PLC0415

        reader = decord.VideoReader(str(path), num_threads=1)
        for number in frames:
            try:
                picture = reader[number].asnumpy()
            except (IndexError, decord.DECORDError) as error:
                yield Missing(number=number, reason=f"decord: {str(error).splitlines()[0]}")
            else:
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                yield DecodedFrame(number=number, frame=frame, rotation=0)
