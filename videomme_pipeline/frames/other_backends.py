"""The backends decord and torchcodec. Both turn frames upright."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.frames.backends import Backend, Decoded, Fault, Missing, decode_one_by_one
from videomme_pipeline.frames.pyav_backend import starts_with_idr
from videomme_pipeline.videos.packets import PacketIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


class DecordBackend(Backend):
    """Decode one frame at a time, since a batch would need memory for all frames.

    On files without a fault, decord counts frames as the packet index does. Version 0.6 may never
    return, so run it in a child process with a time limit, as `frames.extract` does.
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
    ) -> Iterator[Decoded | Missing]:
        import decord  # noqa: PLC0415

        reader = decord.VideoReader(str(path), num_threads=1)

        def read(number: int) -> NDArray[Any]:
            if number >= len(reader):
                raise IndexError(f"it counts {len(reader)} frames")
            picture: NDArray[Any] = reader[number].asnumpy()
            return picture

        yield from decode_one_by_one(frames, read, "decord", IndexError, decord.DECORDError)


class TorchCodecBackend(Backend):
    """Decode by exact seeking."""

    package = "torchcodec"

    def faults(
        self, container: "InputContainer", stream: "VideoStream", index: PacketIndex
    ) -> Iterator[Fault]:
        name = container.format.name
        is_other = "mp4" not in name and "matroska" not in name
        yield f"torchcodec is exact only on mp4 and Matroska, and this is {name}", is_other
        is_h264 = stream.codec_context.name == "h264"
        is_open = is_h264 and not starts_with_idr(container, stream, index)
        yield "torchcodec decodes wrong pictures after keyframes that are not IDR", is_open

    def decode(
        self, path: VideoFile, index: PacketIndex, frames: Sequence[int]
    ) -> Iterator[Decoded | Missing]:
        from torchcodec.decoders import VideoDecoder  # noqa: PLC0415

        decoder = VideoDecoder(
            str(path), seek_mode="exact", num_ffmpeg_threads=1, dimension_order="NHWC"
        )

        def read(number: int) -> NDArray[Any]:
            picture: NDArray[Any] = decoder.get_frame_at(index.frames_before + number).data.numpy()
            return picture

        yield from decode_one_by_one(frames, read, "torchcodec", RuntimeError, IndexError)
