"""Inputs of an evaluation: frames, subtitle lines, prompts and responses of one video.

Only up-to-date files are used. A file that was built with other settings or inputs counts as
missing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from videomme_pipeline.errors import NotReadyError, VideoError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.frames.cache import (
    NO_FRAMES,
    FrameSet,
    ShownFrame,
    read_frames,
    read_shown,
)
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.failures import FailureLog
from videomme_pipeline.project.state.partitions import VideoVariantPartition
from videomme_pipeline.project.state.versions import INCOMPLETE
from videomme_pipeline.prompts.render import Prompt, render
from videomme_pipeline.responses.response import Response
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import RemoteFile
from videomme_pipeline.storage.tables import read_rows, stored_fingerprint
from videomme_pipeline.subtitles.align import AlignedLine, SampledFrames
from videomme_pipeline.videos.probe import video_hash

Stored = TypeVar("Stored")


def load_frames(benchmark: BenchmarkState, video_id: str, evaluation: Evaluation) -> FrameSet:
    """The frames that an evaluation sends of a video; no frames for a blind evaluation.

    Raises:
        NotReadyError: if the video or its frames are missing.
        DamagedFileError: if the frame file is damaged.
    """
    return _read(read_frames, benchmark, video_id, evaluation) or NO_FRAMES


def shown_frames(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> Sequence[ShownFrame]:
    """Digest and time of each frame that an evaluation sends, without reading pictures.

    Raises:
        NotReadyError: if the video or its frames are missing.
        DamagedFileError: if the frame file is damaged.
    """
    return _read(read_shown, benchmark, video_id, evaluation) or ()


def whole_video(benchmark: BenchmarkState, video_id: str) -> Path:
    """The file of a video, for a model that gets the file itself instead of frames.

    Raises:
        VideoError: if there is no such file, it has changed, or the video is only a part of it.
    """
    reference = benchmark.snapshot.reference(video_id)
    path = benchmark.snapshot.source.files(reference).video
    if not isinstance(path, Path) or reference.footage.clip is not None:
        is_remote = isinstance(path, RemoteFile)
        media = "in an object store" if is_remote else "a folder of pictures"
        raise VideoError(
            video_id,
            f"{path}: the video is {reference.footage.clip or media}, which cannot be sent; send "
            "its frames instead",
        )
    if video_hash(path, video_id, benchmark.hashes) != benchmark.snapshot.versions.video(video_id):
        raise VideoError(video_id, f"{path}: the file changed after it was probed; run again")
    return path


def sampled_frames(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> SampledFrames:
    """The times of the frames that an evaluation sends, for the alignment of subtitles.

    Raises:
        NotReadyError: if the video or its frames are missing.
        DamagedFileError: if the frame file is damaged.
    """
    frames = load_frames(benchmark, video_id, evaluation)
    benchmark.snapshot.versions.video(video_id)
    video = benchmark.snapshot.videos[video_id]
    return SampledFrames.of(
        frames.frames, fps=video.timing.average_fps, video_end_seconds=video.timing.duration_seconds
    )


def stored_lines(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> list[AlignedLine] | None:
    """The subtitle lines of an evaluation's track, or None if it has no track.

    Raises:
        NotReadyError: if the lines are missing, or belong to other frames or settings.
    """
    track = evaluation.track_name
    if track is None:
        return None
    path = benchmark.store.subtitles(benchmark.name, track, video_id)
    version = benchmark.snapshot.versions.subtitles(video_id, evaluation)
    if stored_fingerprint(path) != version:
        raise _not_ready(benchmark, "subtitles", video_id, track)
    return read_rows(path, AlignedLine)


def stored_prompts(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> list[Prompt]:
    """The prompts of a video.

    Raises:
        NotReadyError: if the prompts are missing, or were rendered from other inputs.
    """
    path = benchmark.store.prompts(benchmark.name, evaluation.name, video_id)
    if stored_fingerprint(path) != benchmark.snapshot.versions.prompts(video_id, evaluation):
        raise _not_ready(benchmark, "prompts", video_id, evaluation.name)
    return read_rows(path, Prompt)


def render_prompts(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> list[Prompt]:
    """One prompt per question of a video.

    Raises:
        NotReadyError: if the frames or subtitle lines are missing.
        DamagedFileError: if the frame file is damaged.
        PromptError: if the template does not fit a question.
    """
    frames = shown_frames(benchmark, video_id, evaluation)
    lines = stored_lines(benchmark, video_id, evaluation)
    alignment = evaluation.alignment
    return [
        render(
            evaluation.template,
            question,
            lines,
            frame_seconds=[frame.pts_seconds for frame in frames],
            interleaved=alignment is not None and alignment.is_interleaved,
        )
        for question in benchmark.snapshot.questions[video_id]
    ]


def stored_responses(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> dict[tuple[str, int], Response]:
    """The responses to the current requests, by question id and repeat."""
    path = benchmark.store.responses(benchmark.name, evaluation.name, video_id)
    try:
        version = benchmark.snapshot.versions.responses(video_id, evaluation)
    except NotReadyError:
        return {}
    if stored_fingerprint(path) not in (version, version + INCOMPLETE):
        return {}
    return {(row.question_id, row.repeat): row for row in read_rows(path, Response)}


def _read(
    read: Callable[[Store, str, str], Stored],
    benchmark: BenchmarkState,
    video_id: str,
    evaluation: Evaluation,
) -> Stored | None:
    """The result of `read` for the frame file of a video, or None for a blind evaluation."""
    if evaluation.sampling is None:
        return None
    versions = benchmark.snapshot.versions
    content = versions.video(video_id)
    settings = versions.frame_settings(video_id, evaluation.sampling)
    try:
        return read(benchmark.store, content, settings)
    except FileNotFoundError:
        raise _not_ready(benchmark, "frames", video_id, evaluation.sampling_name) from None


def _not_ready(benchmark: BenchmarkState, stage: str, video_id: str, variant: str) -> NotReadyError:
    failures = FailureLog(benchmark.store, f"{benchmark.name}/{stage}")
    return failures.not_ready(VideoVariantPartition(video_id, variant))
