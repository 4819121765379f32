"""`subtitles`: the lines of each video's subtitles that go with the frames really sent."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from assets.partitions import Cell
from assets.stages.base import BenchmarkStage, Failed, Made, Target
from assets.stages.frames import sampled_frames
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import SubtitleError, VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.store import stored_recipe, write_rows
from videomme_pipeline.subtitles.align import ALIGN_VERSION, AlignedLine, align
from videomme_pipeline.subtitles.cues import CueFile, read_subtitles


class Subtitles(BenchmarkStage):
    """A track is a sampling and an alignment: the same cues give other lines to other frames."""

    name = "subtitles"
    description = "The subtitle lines that go with the frames of each track, cue by cue."
    upstream = ("videos", "frames")
    kinds = frozenset({"parquet"})
    row_class = AlignedLine
    code_version = f"1.{ALIGN_VERSION}"

    def target(self, cell: Cell) -> Target:
        assert cell.video is not None
        assert cell.variant is not None
        versions, evaluation = self.benchmark.versions, self._evaluation(cell.variant)
        version = versions.subtitles(cell.video, evaluation)
        assert version is not None
        return Target(
            cell=cell,
            fingerprint=version,
            data_version=version,
            path=self.benchmark.store.subtitles(self.benchmark.name, cell.variant, cell.video),
            inputs=self.inputs(
                videos=versions.video(cell.video),
                frames=versions.frames(cell.video, evaluation.sampling),
            ),
        )

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        last = {target.cell.variant: target for target in targets}
        for target in targets:
            try:
                made = self._make(target)
            except VideoMMEError as error:
                yield Failed(cell=target.cell, reason=str(error))
                continue
            if target is last[target.cell.variant]:
                coverage = {"coverage_by_duration": self._coverage(target.cell)}
                made = replace(made, metadata={**made.metadata, **coverage})
            yield made

    def _make(self, target: Target) -> Made:
        assert target.cell.video is not None
        assert target.cell.variant is not None
        evaluation = self._evaluation(target.cell.variant)
        assert evaluation.alignment is not None
        video_id = target.cell.video
        file = self._cues(video_id)
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
        write_rows(target.path, lines, AlignedLine, fingerprint=target.fingerprint, recipe=facts)
        metadata = {name: value for name, value in facts.items() if value is not None}
        if frames.seconds:
            metadata["coverage"] = round(facts["frames_with_lines"] / len(frames.seconds), 4)
        return Made(target=target, metadata=metadata)

    def _coverage(self, cell: Cell) -> dg.TableMetadataValue:
        """How many videos of each duration have subtitles, and frames a line: the whole track."""
        assert cell.variant is not None
        held: dict[str, list[dict[str, Any]]] = {str(duration): [] for duration in Duration}
        for video_id, questions in self.benchmark.questions.items():
            path = self.benchmark.store.subtitles(self.benchmark.name, cell.variant, video_id)
            if path.exists():
                duration = str(questions[0].duration or "all")
                held.setdefault(duration, []).append(stored_recipe(path))
        return dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "duration": duration,
                        "videos": len(facts),
                        "with_subtitles": sum(bool(one.get("has_subtitles")) for one in facts),
                        "frames": sum(one.get("frames") or 0 for one in facts),
                        "frames_with_lines": sum(
                            one.get("frames_with_lines") or 0 for one in facts
                        ),
                    }
                )
                for duration, facts in held.items()
                if facts
            ]
        )

    def _evaluation(self, track: str) -> Evaluation:
        """Any evaluation that reads this track: they all have the same sampling and alignment."""
        return next(e for e in self.benchmark.evaluations.values() if e.track_name == track)

    def _cues(self, video_id: str) -> CueFile | None:
        path = self.benchmark.media.subtitle(self.benchmark.reference(video_id))
        try:
            return read_subtitles(path) if path else None
        except SubtitleError as error:
            raise SubtitleError(f"video {video_id}: {error}") from error
