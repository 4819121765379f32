"""Frame sets that are written to the cache without a video."""

from collections.abc import Sequence

from videomme_pipeline.frames.cache import Frame, FrameSet, FrameWriter, read_frames
from videomme_pipeline.frames.sampling import Choice, Sampling
from videomme_pipeline.storage.layout import Store


def write_frames(
    store: Store, video_hash: str, sampling: Sampling, choice: Choice, frames: Sequence[Frame]
) -> FrameSet:
    """Store `frames` and return them as they are read. `sampling` has no `frames_by_duration`."""
    with FrameWriter(store, video_hash, sampling) as writer:
        for frame in frames:
            writer.add(frame)
        writer.publish(choice)
    return read_frames(store, video_hash, writer.fingerprint)
