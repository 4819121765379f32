"""`prompts`: the exact text that is sent with the frames, for every question."""

from collections.abc import Mapping
from functools import partial

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VideoVariant
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.estimate import CHARACTERS_PER_TOKEN
from videomme_pipeline.stages.facts import Facts, fenced
from videomme_pipeline.stages.stage import BenchmarkStage, Stage, Target, each

SHOWN_CHARACTERS = 2_000


def _inputs(benchmark: BenchmarkState, partition: VideoVariant) -> Mapping[str, str | None]:
    versions, evaluation = benchmark.snapshot.versions, benchmark.evaluations[partition.variant]
    return {
        "frames": versions.sent_frames(partition.video, evaluation),
        "subtitles": versions.subtitles(partition.video, evaluation),
    }


def _render(stage: BenchmarkStage, target: Target) -> Facts:
    video_id, name = str(target.partition.video), str(target.partition.variant)
    inputs = Inputs(stage.benchmark, video_id, stage.benchmark.evaluations[name])
    prompts = inputs.render_prompts()
    stage.write(target, prompts)
    characters = sum(len(prompt.text) for prompt in prompts)
    facts: dict[str, object] = {
        "questions": len(prompts),
        "frames": prompts[0].num_frames,
        "subtitle_lines": prompts[0].subtitle_lines,
        "characters": characters,
        "text_tokens_about": round(characters / CHARACTERS_PER_TOKEN),
    }
    if find_benchmark(stage.benchmark.name).is_public:
        facts["example"] = fenced(prompts[0].text[:SHOWN_CHARACTERS])
    return facts


PROMPTS = Stage(
    name="prompts",
    description="The rendered prompt of every question of every evaluation.",
    dimensions=frozenset({Dimension.VIDEO, Dimension.EVALUATION}),
    upstream=("questions", "frames", "subtitles"),
    kinds=frozenset({"jinja", "parquet"}),
    row_class=Prompt,
    fingerprint=lambda benchmark, partition: benchmark.snapshot.versions.prompts(
        partition.video, benchmark.evaluations[partition.variant]
    ),
    inputs=_inputs,
    settings=("sampling", "alignment", "template", "questions", "conversation"),
    build=lambda stage, targets: each(targets, partial(_render, stage)),
)
