"""`subtitles`: the subtitle lines that are aligned to the frames of each track."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from assets.stages.base import BenchmarkStage, Built, Failed, Target
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import SubtitleError, VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.project.partitions import VideoVariantPartition
from videomme_pipeline.project.stored import sampled_frames
from videomme_pipeline.store import stored_footer, write_rows
from videomme_pipeline.subtitles.align import AlignedLine, align
from videomme_pipeline.subtitles.cues import CueFile, read_subtitles
from videomme_pipeline.subtitles.srt_parsers import SrtParser


class Subtitles(BenchmarkStage[VideoVariantPartition]):
    """A track is a sampling and an alignment, because the chosen lines depend on both."""

    name = "subtitles"
    description = "The subtitle lines that are aligned to the frames of each track."
    upstream = ("videos", "frames")
    kinds = frozenset({"parquet"})
    row_class = AlignedLine

    def target(self, partition: VideoVariantPartition) -> Target[VideoVariantPartition]:
        versions, evaluation = self.benchmark.snapshot.versions, self._evaluation(partition.variant)
        version = versions.subtitles(partition.video, evaluation)
        assert version is not None, "every track has an alignment"
        return Target(
            partition=partition,
            fingerprint=version,
            data_version=version,
            path=self.store.subtitles(self.benchmark.name, partition.variant, partition.video),
            inputs=self.inputs(
                videos=versions.video(partition.video),
                frames=versions.sent_frames(partition.video, evaluation),
            ),
        )

    def build(
        self, targets: Sequence[Target[VideoVariantPartition]]
    ) -> Iterator[Built[VideoVariantPartition] | Failed[VideoVariantPartition]]:
        last = {target.partition.variant: target for target in targets}
        for target in targets:
            track = target.partition.variant
            try:
                built = self._align(target)
            except VideoMMEError as error:
                yield Failed(partition=target.partition, reason=str(error))
                continue
            if target is last[track]:
                coverage = {"coverage_by_duration": self._coverage(track)}
                built = replace(built, metadata={**built.metadata, **coverage})
            yield built

    def _align(self, target: Target[VideoVariantPartition]) -> Built[VideoVariantPartition]:
        video_id, evaluation = target.partition.video, self._evaluation(target.partition.variant)
        assert evaluation.alignment is not None, "every track has an alignment"
        file = self._cues(video_id, evaluation.alignment.parser)
        frames = sampled_frames(self.benchmark, video_id, evaluation)
        lines = align(evaluation.alignment, file, frames)
        facts: dict[str, Any] = {
            "has_subtitles": file is not None,
            "cues": len(file.cues) if file else 0,
            "skipped_cues": file.skipped if file else 0,
            "encoding": file.encoding if file else None,
            "lines": len(lines),
            "frames": len(frames.seconds),
            "frames_with_lines": len({line.frame for line in lines if line.frame is not None}),
        }
        write_rows(target.path, lines, AlignedLine, fingerprint=target.fingerprint, footer=facts)
        metadata = {name: value for name, value in facts.items() if value is not None}
        if frames.seconds:
            metadata["coverage"] = round(facts["frames_with_lines"] / len(frames.seconds), 4)
        return Built(target=target, metadata=metadata)

    def _coverage(self, track: str) -> dg.TableMetadataValue:
        """Table of the videos with subtitles and the frames with lines of a track, by duration."""
        by_duration: dict[str, list[dict[str, Any]]] = {str(d): [] for d in Duration}
        for video_id, questions in self.benchmark.snapshot.questions.items():
            path = self.store.subtitles(self.benchmark.name, track, video_id)
            if path.exists():
                duration = str(questions[0].duration or "all")
                by_duration.setdefault(duration, []).append(stored_footer(path))
        return dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "duration": duration,
                        "videos": len(videos),
                        "with_subtitles": sum(bool(facts.get("has_subtitles")) for facts in videos),
                        "frames": sum(facts.get("frames") or 0 for facts in videos),
                        "frames_with_lines": sum(
                            facts.get("frames_with_lines") or 0 for facts in videos
                        ),
                    }
                )
                for duration, videos in by_duration.items()
                if videos
            ]
        )

    def _evaluation(self, track: str) -> Evaluation:
        """Any evaluation with this track. All of them have the same sampling and alignment."""
        return next(e for e in self.benchmark.evaluations.values() if e.track_name == track)

    def _cues(self, video_id: str, parser: SrtParser) -> CueFile | None:
        snapshot = self.benchmark.snapshot
        path = snapshot.source.subtitle(snapshot.reference(video_id))
        try:
            return read_subtitles(path, parser) if path else None
        except SubtitleError as error:
            raise SubtitleError(f"video {video_id}: {error}") from error
