"""Reading frames with other libraries, for comparison: `python perf/peers.py NAME VIDEO FRAME …`.

This script does not import this project, so that it also runs in an environment with only the
library. It prints one JSON object: CPU seconds, and peak resident memory above the imports (MB).
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path


def decord_batch(path: str, frames: list[int]) -> int:
    """Decode one batch, as evaluators do, in one thread, so that CPU times are comparable."""
    import decord  # noqa: PLC0415

    return int(decord.VideoReader(path, num_threads=1).get_batch(frames).asnumpy().nbytes)


def torchcodec_exact(path: str, frames: list[int]) -> int:
    """Decode with exact seeking in one thread."""
    from torchcodec.decoders import VideoDecoder  # noqa: PLC0415

    decoder = VideoDecoder(path, seek_mode="exact", num_ffmpeg_threads=1, dimension_order="NHWC")
    return int(decoder.get_frames_at(frames).data.numpy().nbytes)


def qwen_vl_utils_with(reader: str) -> Callable[[str, list[int]], int]:
    """A reader of qwen-vl-utils, which chooses the frames of the sampling `qwen_vl-2` itself."""

    def read(path: str, frames: list[int]) -> int:
        from qwen_vl_utils import vision_process  # noqa: PLC0415

        video, *_ = vision_process.VIDEO_READER_BACKENDS[reader]({"video": path})
        assert len(video) == len(frames), f"{len(video)} frames instead of {len(frames)}"
        return int(video.nbytes)

    return read


QWEN_VL_UTILS = {f"qwen_vl_utils_{name}": name for name in ("decord", "torchcodec", "torchvision")}
PEERS: dict[str, tuple[str, Callable[[str, list[int]], int]]] = {
    "decord": ("decord", decord_batch),
    "torchcodec": ("torchcodec.decoders", torchcodec_exact),
} | {peer: ("qwen_vl_utils", qwen_vl_utils_with(reader)) for peer, reader in QWEN_VL_UTILS.items()}


def main() -> None:
    name, path, *frames = sys.argv[1:]
    module, read = PEERS[name]
    __import__(module)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is what is used now
    before = peak_rss_mb()
    started = time.process_time()
    read(path, [int(frame) for frame in frames])
    cpu_seconds = time.process_time() - started
    print(json.dumps({"cpu_seconds": cpu_seconds, "peak_mb": peak_rss_mb() - before}))


def peak_rss_mb() -> float:
    """See `perf.memory.peak_rss_mb`."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
