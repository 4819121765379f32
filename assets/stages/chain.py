"""The stages of a project, in order."""

from typing import Any

from videomme_pipeline.assets.stages.base import AnyStage, BenchmarkStage
from videomme_pipeline.assets.stages.frames import Frames
from videomme_pipeline.assets.stages.prompts import Prompts
from videomme_pipeline.assets.stages.questions import Questions
from videomme_pipeline.assets.stages.reports import ReportPage
from videomme_pipeline.assets.stages.responses import Responses
from videomme_pipeline.assets.stages.scores import Scores
from videomme_pipeline.assets.stages.subtitles import Subtitles
from videomme_pipeline.assets.stages.videos import Videos
from videomme_pipeline.assets.stages.warehouse import Warehouse
from videomme_pipeline.project.project import Project

CHAIN: tuple[type[BenchmarkStage[Any]], ...] = (
    Questions,
    Videos,
    Frames,
    Subtitles,
    Prompts,
    Responses,
    Scores,
)
"""The stages of a benchmark, in order."""


def chain(project: Project, benchmark: str) -> list[BenchmarkStage[Any]]:
    """The stages of one benchmark, in order, without those that no evaluation needs."""
    stages = [stage(project, benchmark) for stage in CHAIN]
    return [
        stage
        for stage in stages
        if stage.variant_dimension is None or stage.graph.variants(stage.variant_dimension)
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
