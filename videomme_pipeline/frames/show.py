"""A contact sheet of one video file, which shows the pictures that a model would see."""

from pathlib import Path

from videomme_pipeline.benchmarks.locate import VideoSource
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.frames.cache import FrameSet, read_frames
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import video_hash


def show_frames(
    video: VideoSource,
    sampling: Sampling,
    output: Path,
    *,
    store: Store,
    question: Question | None = None,
) -> FrameSet:
    """Write the contact sheet of `video` under `sampling` to `output` (.jpg, .png …).

    With a `question`, its clip is shown, and its duration selects the frame count. The frames are
    read from the cache or stored there, as in an evaluation.

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
        duration=question.duration if question else None,
        clip=question.footage.clip if question else None,
    )
    for result in extract([job], store=store):
        if result.error is not None:
            raise result.error
    frames = read_frames(store, content, *job.frame_sets)
    output.parent.mkdir(parents=True, exist_ok=True)
    frames.contact_sheet().save(output)
    return frames
