"""The command `power`: which differences a comparison can detect."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import (
    DEFAULT_BENCHMARK,
    AsJson,
    BenchmarkName,
    evaluation_argument,
)
from videomme_pipeline.cli.context import open_project, own_store, show
from videomme_pipeline.cli.stored_scores import stored_scores
from videomme_pipeline.errors import AnnotationError, ConfigurationError, LicenseNotAcceptedError

if TYPE_CHECKING:
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.scoring.statistics.power import Noise

commands = typer.Typer()


@commands.command(epilog="Example: videomme power --benchmark videomme --videos 90")
def power(
    evaluation: Annotated[
        str | None,
        evaluation_argument(
            "EVALUATION", "Name of an evaluation that has scores, for its size and its noise."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Another evaluation: measure the noise between the two.")
    ] = None,
    benchmark: BenchmarkName = None,
    videos: Annotated[
        int | None, typer.Option(min=2, help="Number of videos, for a subset.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=2, help="Number of questions. Default: all of the videos.")
    ] = None,
    discordance: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Share of questions that exactly one side answers correctly."
        ),
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Correlation of the differences within a video."),
    ] = None,
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Level of the test.")] = 0.05,
    power: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Probability of detecting the difference.")
    ] = 0.8,
    as_json: AsJson = False,
) -> None:
    """Show the smallest difference of accuracies that a comparison detects.

    The number of videos and questions is that of an evaluation, a benchmark or a
    subset. If benchmarks.yaml selects some of the videos (`duration`, `subset` …),
    the selection follows the complete benchmark. The noise is stated, or measured
    between two evaluations or between two repeats of one. Otherwise, usual values
    are shown.
    """
    from videomme_pipeline.reports.terminal.lists import show_power
    from videomme_pipeline.scoring.statistics.power import (
        USUAL_CORRELATION,
        USUAL_DISCORDANCES,
        PowerAnalysis,
    )

    own_store()
    if against is not None and evaluation is None:
        raise ConfigurationError("--against needs an evaluation: videomme power A --against B")
    rows = None if evaluation is None else _answered(evaluation)
    sizes = [_size(rows, benchmark or DEFAULT_BENCHMARK, videos, questions)]
    if evaluation is None and videos is None and questions is None:
        sizes += [
            size for size in _selected_sizes(benchmark or DEFAULT_BENCHMARK) if size != sizes[0]
        ]
    noise = None if rows is None or discordance is not None else _noise(rows, against)
    measured = USUAL_CORRELATION if noise is None else noise.correlation
    if discordance is not None:
        discordances: Sequence[float] = (discordance,)
    else:
        discordances = USUAL_DISCORDANCES if noise is None else (noise.discordance,)
    analyses = [
        PowerAnalysis(
            questions=number_of_questions,
            videos=number_of_videos,
            discordance=share,
            correlation=measured if correlation is None else correlation,
            alpha=alpha,
            power=power,
        )
        for number_of_videos, number_of_questions in sizes
        for share in discordances
    ]
    show(analyses, show_power, as_json=as_json)


def _answered(evaluation: str) -> "list[ScoredQuestion]":
    from videomme_pipeline.scoring.scored_question import Outcome

    rows = stored_scores(open_project().store, evaluation)
    return [row for row in rows if row.outcome is not Outcome.FAILED]


def _size(
    rows: "Sequence[ScoredQuestion] | None",
    benchmark: str,
    videos: int | None,
    questions: int | None,
) -> tuple[int, int]:
    """The numbers of videos and questions: `videos` and `questions`, where they are given.

    The numbers left out are those of the rows, or of the benchmark without rows.
    """
    from videomme_pipeline.benchmarks.registry import find_benchmark

    if rows is not None:
        all_videos: int | None = len({row.video_id for row in rows})
        asked = len({row.question_id for row in rows})
        per_video: float | None = asked / all_videos if all_videos else None
    else:
        size = find_benchmark(benchmark).size
        all_videos, per_video = size.videos, size.questions_per_video
    chosen = videos or all_videos
    if questions is None and chosen and per_video:
        questions = round(chosen * per_video)
    if not chosen or not questions:
        raise ConfigurationError(
            "the number of videos or questions is not known; give --videos and --questions"
        )
    return chosen, questions


def _selected_sizes(benchmark: str) -> list[tuple[int, int]]:
    """The numbers of videos and questions that benchmarks.yaml selects, as a list of one pair.

    The list is empty without such a file, or if the questions have not been fetched yet.
    """
    from videomme_pipeline.project.project import configuration_folder, is_project

    if not is_project(configuration_folder()):
        return []
    state = open_project().benchmarks.get(benchmark)
    try:
        questions = state.open_source().known_questions() if state else None
    except (AnnotationError, LicenseNotAcceptedError):
        return []
    return [(len({row.video_id for row in questions}), len(questions))] if questions else []


def _noise(rows: "Sequence[ScoredQuestion]", against: str | None) -> "Noise | None":
    """The noise between two evaluations, or between two repeats, or None with neither."""
    from videomme_pipeline.scoring.statistics.power import first_repeats, measure_noise

    if against is not None:
        return measure_noise(rows, _answered(against))
    repeats = first_repeats(rows)
    return None if repeats is None else measure_noise(*repeats)
