"""`subtitles`: the subtitle lines that are aligned to the frames of each track."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import dagster as dg

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Failed,
    Results,
    Target,
    Targets,
    describe_each,
)
from videomme_pipeline.assets.stages.metadata import table_of
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.storage.tables import stored_settings, write_rows
from videomme_pipeline.subtitles.align import AlignedLine, align
from videomme_pipeline.subtitles.cues import CueFile, SrtParser, read_subtitles, within


class Subtitles(BenchmarkStage[VideoVariant]):
    """A track is a sampling and an alignment, because the chosen lines depend on both."""

    name = "subtitles"
    description = "The subtitle lines that are aligned to the frames of each track."
    upstream = ("videos", "frames")
    kinds = frozenset({"parquet"})
    row_class = AlignedLine

    def target(self, partition: VideoVariant) -> Target[VideoVariant]:
        versions = self.benchmark.snapshot.versions
        evaluation = self._evaluations[partition.variant]
        version = versions.subtitles(partition.video, evaluation)
        assert version is not None, "every track has an alignment"
        return self.target_of(
            partition,
            version,
            self.store.subtitles(self.benchmark.name, partition.variant, partition.video),
            videos=versions.video(partition.video),
            frames=versions.sent_frames(partition.video, evaluation),
        )

    def build(self, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        return self._with_coverage(describe_each(targets, self._align), targets)

    def metadata(self, target: Target[VideoVariant]) -> dict[str, object]:
        return _metadata(stored_settings(target.path))

    def describe(self, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        return self._with_coverage(super().describe(targets), targets)

    def _with_coverage(
        self, results: Results[VideoVariant], targets: Targets[VideoVariant]
    ) -> Results[VideoVariant]:
        """Add the coverage of a track to the metadata of its last target."""
        last = {target.partition.variant: target for target in targets}
        for result in results:
            if (
                isinstance(result, Failed)
                or result.target is not last[result.target.partition.variant]
            ):
                yield result
                continue
            coverage = {"coverage_by_duration": self._coverage(result.target.partition.variant)}
            yield replace(result, metadata={**result.metadata, **coverage})

    def _align(self, target: Target[VideoVariant]) -> dict[str, object]:
        """Store the lines of one partition, and return their metadata."""
        video_id, evaluation = target.partition.video, self._evaluations[target.partition.variant]
        assert evaluation.alignment is not None, "every track has an alignment"
        file = self._cues(video_id, evaluation.alignment.parser)
        inputs = Inputs(self.benchmark, video_id, evaluation)
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
        facts: dict[str, Any] = {
            "has_subtitles": file is not None,
            "cues": len(file.cues) if file else 0,
            "skipped_cues": file.skipped if file else 0,
            "encoding": file.encoding if file else None,
            "lines": len(lines),
            "frames": frames,
            "frames_with_lines": with_lines,
        }
        write_rows(target.path, lines, AlignedLine, fingerprint=target.fingerprint, settings=facts)
        return _metadata(facts)

    def _coverage(self, track: str) -> dg.TableMetadataValue:
        """Table of the videos with subtitles and the frames with lines of a track, by duration."""
        by_duration: dict[str, list[dict[str, Any]]] = {str(d): [] for d in Duration}
        for video_id, questions in self.benchmark.snapshot.questions.items():
            path = self.store.subtitles(self.benchmark.name, track, video_id)
            if path.exists():
                duration = str(questions[0].duration or "all")
                by_duration.setdefault(duration, []).append(stored_settings(path))
        return table_of(
            {
                "duration": duration,
                "videos": len(videos),
                "with_subtitles": sum(bool(facts.get("has_subtitles")) for facts in videos),
                "frames": sum(facts.get("frames") or 0 for facts in videos),
                "frames_with_lines": sum(facts.get("frames_with_lines") or 0 for facts in videos),
            }
            for duration, videos in by_duration.items()
            if videos
        )

    @cached_property
    def _evaluations(self) -> dict[str, Evaluation]:
        """An evaluation with each track. All of a track have the same sampling and alignment."""
        evaluations = reversed(self.benchmark.evaluations.values())
        return {track: evaluation for evaluation in evaluations if (track := evaluation.track_name)}

    def _cues(self, video_id: str, parser: SrtParser) -> CueFile | None:
        snapshot = self.benchmark.snapshot
        video = snapshot.reference(video_id)
        path, shift = snapshot.source.subtitle(video), video.footage.subtitle_shift_seconds
        try:
            file = read_subtitles(path, parser) if path else None
        except SubtitleError as error:
            raise SubtitleError(f"video {video_id}: {error}") from error
        if file is None or shift is None:
            return file
        return within(file, shift, snapshot.videos[video_id].timing.duration_seconds)


def _metadata(facts: Mapping[str, Any]) -> dict[str, object]:
    metadata = {name: value for name, value in facts.items() if value is not None}
    if facts.get("frames"):
        metadata["coverage"] = round(facts["frames_with_lines"] / facts["frames"], 4)
    return metadata
