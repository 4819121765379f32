"""`subtitles`: the subtitle lines that are aligned to the frames of each track."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VideoVariant
from videomme_pipeline.stages.facts import Facts
from videomme_pipeline.stages.stage import (
    BenchmarkStage,
    BuildFailure,
    BuildResults,
    Stage,
    Target,
    Targets,
    each,
)
from videomme_pipeline.storage.tables import stored_settings
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


def _build(stage: BenchmarkStage, targets: Targets) -> BuildResults:
    """Align the lines, and add the coverage of a track to the facts of its last target."""
    last = {target.partition.variant: target for target in targets}
    for result in each(targets, lambda target: _align(stage, target)):
        if isinstance(result, BuildFailure) or result.target not in last.values():
            yield result
            continue
        coverage = _coverage(stage, str(result.target.partition.variant))
        yield replace(result, facts={**result.facts, "coverage_by_duration": coverage})


def _align(stage: BenchmarkStage, target: Target) -> Facts:
    """Store the lines of one partition, and return their facts."""
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
            replace(
                line,
                frame=None if line.frame is None else order[line.frame],
                question_id=part,
            )
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
    return _facts_of(counts)


def _coverage(stage: BenchmarkStage, track: str) -> list[dict[str, object]]:
    """The videos with subtitles and the frames with lines of a track, by duration."""
    snapshot, evaluation = stage.benchmark.snapshot, stage.benchmark.tracks[track]
    by_duration: dict[str, list[dict[str, Any]]] = {str(d): [] for d in Duration}
    for video_id, questions in snapshot.questions_of(evaluation).items():
        partition = VideoVariant(video_id, track)
        if counts := stored_settings(stage.target(partition).path):
            duration = str(questions[0].duration or "all")
            by_duration.setdefault(duration, []).append(counts)
    return [
        {
            "duration": duration,
            "videos": len(videos),
            "with_subtitles": sum(bool(counts.get("has_subtitles")) for counts in videos),
            "frames": sum(counts.get("frames") or 0 for counts in videos),
            "frames_with_lines": sum(counts.get("frames_with_lines") or 0 for counts in videos),
        }
        for duration, videos in by_duration.items()
        if videos
    ]


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


def _facts(_: BenchmarkStage, target: Target) -> Facts:
    return _facts_of(stored_settings(target.path))


def _facts_of(counts: Mapping[str, Any]) -> Facts:
    coverage = None
    if counts.get("frames"):
        coverage = round(counts["frames_with_lines"] / counts["frames"], 4)
    return {**counts, "coverage": coverage}


SUBTITLES = Stage(
    name="subtitles",
    description="The subtitle lines that are aligned to the frames of each track.",
    dimensions=frozenset({Dimension.VIDEO, Dimension.TRACK}),
    upstream=("videos", "frames"),
    kinds=frozenset({"parquet"}),
    row_class=AlignedLine,
    fingerprint=_fingerprint,
    inputs=_inputs,
    build=_build,
    facts=_facts,
)
"""A track is a sampling and an alignment, because the chosen lines depend on both."""
