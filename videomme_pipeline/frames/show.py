"""A contact sheet of one video file, which shows the pictures that a model would see."""

from pathlib import Path

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.frames.cache import FrameSet, frames_fingerprint, read_frames
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.store import Store
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import video_hash


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
        VideoError: if there is no such video, or it cannot be used.
    """
    with HashCache(store.hashes) as hashes:
        content = video_hash(video, video.stem, hashes)
    job = FrameJob(
        video_id=video.stem,
        path=video,
        video_hash=content,
        samplings=(sampling,),
        duration=duration,
    )
    for result in extract([job], store=store):
        if result.error is not None:
            raise result.error
    frames = read_frames(store, content, frames_fingerprint(sampling, duration))
    output.parent.mkdir(parents=True, exist_ok=True)
    frames.contact_sheet().save(output)
    return frames
