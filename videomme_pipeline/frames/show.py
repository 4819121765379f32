"""A contact sheet of one video file, which shows the pictures that a model would see."""

from pathlib import Path

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.frames.cache import FrameSet, frames_fingerprint, read_frames
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.store import Store
from videomme_pipeline.videos.probe import HashCache, content_hash


def show_frames(
    video: Path,
    sampling: Sampling,
    output: Path,
    *,
    store: Store,
    duration: Duration | None = None,
) -> FrameSet:
    """Write the contact sheet of `video` under `sampling` to `output` (.jpg, .png …).

    The frames are read from the cache or stored there, as in an evaluation.

    Raises:
        VideoError: if the video cannot be used.
        FileNotFoundError: if there is no such video.
    """
    with HashCache(store.hashes) as hashes:
        video_hash = content_hash(video, hashes)
    job = FrameJob(
        video_id=video.stem,
        path=video,
        video_hash=video_hash,
        samplings=(sampling,),
        duration=duration,
    )
    for result in extract([job], store=store):
        if result.error is not None:
            raise result.error
    frames = read_frames(store, video_hash, frames_fingerprint(sampling, duration))
    output.parent.mkdir(parents=True, exist_ok=True)
    frames.contact_sheet().save(output)
    return frames
