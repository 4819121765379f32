"""How others read frames, for comparison: `python perf/peers.py BACKEND VIDEO FRAME [FRAME …]`.

Stands alone, so that it also runs in an environment that has only the peer. Prints one JSON
object: CPU seconds, and the peak of resident memory above what imports alone take (MB).
"""

import json
import resource
import sys
import time
from collections.abc import Callable


def decord_batch(path: str, frames: list[int]) -> int:
    """As evaluators call it: one batch, here with one thread so that CPU time compares."""
    import decord  # noqa: PLC0415

    return int(decord.VideoReader(path, num_threads=1).get_batch(frames).asnumpy().nbytes)


def torchcodec_exact(path: str, frames: list[int]) -> int:
    """Exact seeking, one thread."""
    from torchcodec.decoders import VideoDecoder  # noqa: PLC0415

    decoder = VideoDecoder(path, seek_mode="exact", num_ffmpeg_threads=1, dimension_order="NHWC")
    return int(decoder.get_frames_at(frames).data.numpy().nbytes)


PEERS: dict[str, tuple[str, Callable[[str, list[int]], int]]] = {
    "decord": ("decord", decord_batch),
    "torchcodec": ("torchcodec.decoders", torchcodec_exact),
}


def main() -> None:
    name, path, *frames = sys.argv[1:]
    module, read = PEERS[name]
    __import__(module)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    read(path, [int(frame) for frame in frames])
    cpu_seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"cpu_seconds": cpu_seconds, "peak_mb": peak / 1024}))


if __name__ == "__main__":
    main()
