"""`prompts`: the exact text that is sent with the frames, for every question."""

from collections.abc import Sequence

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Results,
    Target,
    Targets,
    describe_each,
)
from videomme_pipeline.assets.stages.metadata import fenced
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.estimate import CHARACTERS_PER_TOKEN
from videomme_pipeline.storage.tables import read_rows, write_rows

SHOWN_CHARACTERS = 2_000


class Prompts(BenchmarkStage[VideoVariant]):
    """Renders the prompts of one video for one evaluation into one file."""

    name = "prompts"
    description = "The rendered prompt of every question of every evaluation."
    upstream = ("questions", "frames", "subtitles")
    kinds = frozenset({"jinja", "parquet"})
    row_class = Prompt
    settings = ("sampling", "alignment", "template")

    def target(self, partition: VideoVariant) -> Target[VideoVariant]:
        versions = self.benchmark.snapshot.versions
        evaluation = self.benchmark.evaluations[partition.variant]
        return self.target_of(
            partition,
            versions.prompts(partition.video, evaluation),
            self.store.prompts(self.benchmark.name, partition.variant, partition.video),
            frames=versions.sent_frames(partition.video, evaluation),
            subtitles=versions.subtitles(partition.video, evaluation),
        )

    def build(self, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        return describe_each(targets, self._render)

    def _render(self, target: Target[VideoVariant]) -> dict[str, object]:
        """Store the prompts of one partition, and return their metadata."""
        video_id, name = target.partition.video, target.partition.variant
        prompts = Inputs(
            self.benchmark, video_id, self.benchmark.evaluations[name]
        ).render_prompts()
        write_rows(
            target.path,
            prompts,
            Prompt,
            fingerprint=target.fingerprint,
            settings=self.settings_of(name),
        )
        return self._metadata(prompts)

    def metadata(self, target: Target[VideoVariant]) -> dict[str, object]:
        return self._metadata(read_rows(target.path, Prompt))

    def _metadata(self, prompts: Sequence[Prompt]) -> dict[str, object]:
        characters = sum(len(prompt.text) for prompt in prompts)
        metadata: dict[str, object] = {
            "questions": len(prompts),
            "frames": prompts[0].num_frames,
            "subtitle_lines": prompts[0].subtitle_lines,
            "characters": characters,
            "text_tokens_about": round(characters / CHARACTERS_PER_TOKEN),
        }
        if find_benchmark(self.benchmark.name).is_public:
            metadata["example"] = fenced(prompts[0].text[:SHOWN_CHARACTERS])
        return metadata
