"""`subtitles`: the subtitle lines that are aligned to the frames of each track."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VideoVariant
from videomme_pipeline.stages.facts import Facts
from videomme_pipeline.stages.stage import BenchmarkStage, Stage, Target, each
from videomme_pipeline.subtitles.align import AlignedLine, align
from videomme_pipeline.subtitles.cues import CueFile, SrtParser, read_subtitles, within


def _fingerprint(benchmark: BenchmarkState, partition: VideoVariant) -> str:
    evaluation = benchmark.tracks[partition.variant]
    version = benchmark.snapshot.versions.subtitles(partition.video, evaluation)
    assert version is not None, "every track has an alignment"
    return version


def _inputs(benchmark: BenchmarkState, partition: VideoVariant) -> Mapping[str, str | None]:
    snapshot = benchmark.snapshot
    evaluation = benchmark.tracks[partition.variant]
    return {
        "videos": snapshot.versions.video(partition.video),
        "frames": snapshot.versions.sent_frames(partition.video, evaluation),
        "subtitle file": snapshot.subtitle_hash(partition.video),
    }


def _align(stage: BenchmarkStage, target: Target) -> Facts:
    video_id = str(target.partition.video)
    evaluation = stage.benchmark.tracks[str(target.partition.variant)]
    assert evaluation.alignment is not None, "every track has an alignment"
    file = _cues(stage, video_id, evaluation.alignment.parser)
    inputs = Inputs(stage.benchmark, video_id, evaluation)
    lines, frames, with_lines = list[AlignedLine](), 0, 0
    for part, _ in inputs.parts:
        shown = inputs.shown_frames(part)
        frames += len(shown)
        # Policies need ascending times. A file may name the frames of a question in any order.
        order = sorted(range(len(shown)), key=lambda position: shown[position].index)
        sampled = inputs.sampled_frames([shown[position] for position in order])
        aligned = [
            replace(line, frame=None if line.frame is None else order[line.frame], question_id=part)
            for line in align(evaluation.alignment, file, sampled)
        ]
        with_lines += len({line.frame for line in aligned if line.frame is not None})
        lines += aligned
    counts: dict[str, Any] = {
        "has_subtitles": file is not None,
        "cues": len(file.cues) if file else 0,
        "skipped_cues": file.skipped if file else 0,
        "encoding": file.encoding if file else None,
        "lines": len(lines),
        "frames": frames,
        "frames_with_lines": with_lines,
    }
    stage.write(target, lines, settings=counts)
    return {**counts, "coverage": round(with_lines / frames, 4) if frames else None}


def _cues(stage: BenchmarkStage, video_id: str, parser: SrtParser) -> CueFile | None:
    snapshot = stage.benchmark.snapshot
    video = snapshot.reference(video_id)
    path, shift = snapshot.source.subtitle(video), video.footage.subtitle_shift_seconds
    try:
        file = read_subtitles(path, parser) if path else None
    except SubtitleError as error:
        raise SubtitleError(f"video {video_id}: {error}") from error
    if file is None or shift is None:
        return file
    return within(file, shift, snapshot.video(video_id).timing.duration_seconds)


SUBTITLES = Stage(
    name="subtitles",
    description="The subtitle lines that are aligned to the frames of each track.",
    dimensions=frozenset({Dimension.VIDEO, Dimension.TRACK}),
    upstream=("videos", "frames"),
    kinds=frozenset({"parquet"}),
    row_class=AlignedLine,
    fingerprint=_fingerprint,
    inputs=_inputs,
    build=lambda stage, targets: each(targets, partial(_align, stage)),
)
"""A track is a sampling and an alignment, because the chosen lines depend on both."""
