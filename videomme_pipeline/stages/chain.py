"""The stages of a project, in order."""

from videomme_pipeline.project.project import Project
from videomme_pipeline.stages.frames import FRAMES
from videomme_pipeline.stages.prompts import PROMPTS
from videomme_pipeline.stages.questions import QUESTIONS
from videomme_pipeline.stages.responses import RESPONSES
from videomme_pipeline.stages.scores import SCORES
from videomme_pipeline.stages.shared import ReportPage, Warehouse
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage, Stage
from videomme_pipeline.stages.subtitles import SUBTITLES
from videomme_pipeline.stages.videos import VIDEOS

CHAIN: tuple[Stage, ...] = (QUESTIONS, VIDEOS, FRAMES, SUBTITLES, PROMPTS, RESPONSES, SCORES)
"""The stages of a benchmark, in order."""


def chain(project: Project, benchmark: str) -> list[BenchmarkStage]:
    """The stages of one benchmark, in order, without those that no evaluation needs."""
    state = project.benchmarks[benchmark]
    stages = [BenchmarkStage(stage, project, state) for stage in CHAIN]
    return [
        stage
        for stage in stages
        if stage.variant_dimension is None or state.variants(stage.variant_dimension)
    ]


def steps(project: Project) -> dict[str, list[AnyStage]]:
    """Every stage of the project by name, upstream first."""
    by_name: dict[str, list[AnyStage]] = {stage.name: [] for stage in CHAIN}
    for benchmark in project.benchmarks:
        for stage in chain(project, benchmark):
            by_name[stage.name].append(stage)
    by_name |= {stage.name: [stage(project)] for stage in (Warehouse, ReportPage)}
    return {name: stages for name, stages in by_name.items() if stages}


def all_stages(project: Project) -> list[AnyStage]:
    """Every stage of the project, upstream first."""
    return [stage for members in steps(project).values() for stage in members]
