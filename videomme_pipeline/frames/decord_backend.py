"""The backend decord, which turns frames upright."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.frames.backends import Backend, DecodedFrame, Missing
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

    def fault(
        self, container: "InputContainer", stream: "VideoStream", index: PacketIndex
    ) -> str | None:
        codec = stream.codec_context.name
        if codec != "h264":
            return f"decord is exact only on H.264, and this is {codec}"
        if container.format.name == "mpegts":
            return "decord does not return from an MPEG transport stream"
        if index.is_hidden.any() or index.frame_pts[0] != 0:
            return "decord does not apply its edit list, start time or clip"
        if not starts_with_idr(container, stream, index):
            return "decord decodes wrong pictures after keyframes that are not IDR (open GOP)"
        return None

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
