"""`prompts`: the exact text that stands beside the frames, for every question."""

from collections.abc import Iterator, Sequence

from assets.failures import FailureLog
from assets.partitions import Cell
from assets.stages.base import BenchmarkStage, Failed, Made, Target
from assets.stages.frames import load_frames
from assets.stages.metadata import fenced
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.prompts.render import RENDER_VERSION, Prompt, render
from videomme_pipeline.responses.estimate import CHARACTERS_PER_TOKEN
from videomme_pipeline.store import read_rows, stored_fingerprint, write_rows
from videomme_pipeline.subtitles.align import AlignedLine

SHOWN_CHARACTERS = 2_000


class Prompts(BenchmarkStage):
    name = "prompts"
    description = "The rendered prompt of every question of every evaluation."
    upstream = ("questions", "frames", "subtitles")
    kinds = frozenset({"jinja", "parquet"})
    row_class = Prompt
    settings = ("sampling", "alignment", "template")
    code_version = f"1.{RENDER_VERSION}"

    def target(self, cell: Cell) -> Target:
        assert cell.video is not None
        assert cell.variant is not None
        versions, evaluation = self.benchmark.versions, self.benchmark.evaluations[cell.variant]
        version = versions.prompts(cell.video, evaluation)
        return Target(
            cell=cell,
            fingerprint=version,
            data_version=version,
            path=self.benchmark.store.prompts(self.benchmark.name, cell.variant, cell.video),
            inputs=self.inputs(
                frames=versions.frames(cell.video, evaluation.sampling),
                subtitles=versions.subtitles(cell.video, evaluation),
            ),
        )

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        for target in targets:
            try:
                yield self._make(target)
            except VideoMMEError as error:
                yield Failed(cell=target.cell, reason=str(error))

    def _make(self, target: Target) -> Made:
        assert target.cell.video is not None
        assert target.cell.variant is not None
        evaluation = self.benchmark.evaluations[target.cell.variant]
        video_id = target.cell.video
        frames = load_frames(self.benchmark, video_id, evaluation)
        lines = self._lines(video_id, evaluation)
        prompts = [
            render(
                evaluation.template,
                question,
                lines,
                frame_seconds=frames.seconds,
                interleaved=evaluation.alignment is not None
                and evaluation.alignment.is_interleaved,
            )
            for question in self.benchmark.questions[video_id]
        ]
        write_rows(
            target.path,
            prompts,
            Prompt,
            fingerprint=target.fingerprint,
            recipe=self.recipe(target.cell),
        )
        characters = sum(len(prompt.text) for prompt in prompts)
        metadata: dict[str, object] = {
            "questions": len(prompts),
            "frames": prompts[0].num_frames,
            "subtitle_lines": prompts[0].subtitle_lines,
            "characters": characters,
            "text_tokens_about": round(characters / CHARACTERS_PER_TOKEN),
        }
        if self.benchmark.media.is_public:
            metadata["example"] = fenced(prompts[0].text[:SHOWN_CHARACTERS])
        return Made(target=target, metadata=metadata)

    def _lines(self, video_id: str, evaluation: Evaluation) -> list[AlignedLine] | None:
        """The lines of the evaluation's track; None where it has none.

        Raises:
            NotReadyError: when they are not there, or belong to other frames or settings.
        """
        track, store, name = evaluation.track_name, self.benchmark.store, self.benchmark.name
        if track is None:
            return None
        path = store.subtitles(name, track, video_id)
        if stored_fingerprint(path) != self.benchmark.versions.subtitles(video_id, evaluation):
            failures = FailureLog.of(store, f"{name}/subtitles")
            raise failures.not_ready(Cell(video=video_id, variant=track))
        return read_rows(path, AlignedLine)
