"""Commands about the differences of two evaluations: gate, race, power."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import instance_for, open_for_plan, open_project, own_store
from videomme_pipeline.cli.output import announce, err, note, print_json, show, write
from videomme_pipeline.cli.run import PLANNING
from videomme_pipeline.errors import ConfigurationError, VideoMMEError, printable
from videomme_pipeline.reports.terminal.runs import show_power

if TYPE_CHECKING:
    from videomme_pipeline.cli.stored_scores import NamedRun
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.scoring.statistics.gate import FailIf, Gate

commands = typer.Typer()

FAILED, WRONG_USAGE, UNDECIDED, NOT_EVALUATED = 1, 2, 3, 4
"""Exit status of a gate that did not pass."""


@commands.command(epilog="Example: videomme gate main.json candidate.json --margin 2")
def gate(
    baseline: Annotated[
        str, arguments.evaluation_argument("BASELINE", "An evaluation, or a results file.")
    ],
    candidate: Annotated[
        str, arguments.evaluation_argument("CANDIDATE", "Another one of the same benchmark.")
    ],
    baseline_run: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Another run of the baseline, for the mean of all."),
    ] = None,
    margin: arguments.Margin = 2.0,
    fail_if: arguments.FailIfVerdict = "worse",
    allow_undecided: arguments.AllowUndecided = False,
    facet: Annotated[
        list[str] | None,
        typer.Option(help="Fail if a value of this facet is worse, too. Repeatable."),
    ] = None,
    max_failed: arguments.MaxFailed = 0.1,
    common: Annotated[
        bool, typer.Option("--common", help="Compare only the questions that all files have.")
    ] = False,
    junit: arguments.JUnitFile = None,
    benchmark: arguments.BenchmarkName = None,
    reader: arguments.FileReader = "careful",
    annotations: arguments.Annotations = None,
    columns: arguments.Columns = None,
    columns_b: arguments.ColumnsOfSecond = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Decide if a candidate is as good as a baseline.

    The verdict is better, worse, equivalent (within the margin) or undecided. A
    question that one of two files lacks has no answer. Exits with 0 if the gate
    passes, 1 if it fails, 2 after wrong usage, 3 if undecided, and 4 if the two
    cannot be compared. In GitHub Actions, it writes the summary, the outputs and
    an annotation of the step.
    """
    announce("Comparing…")
    from videomme_pipeline.cli.stored_scores import file_options, note_same_answers, read_run
    from videomme_pipeline.scoring.statistics.gate import FailIf, decide
    from videomme_pipeline.scoring.statistics.power import as_repeats

    try:
        rule = arguments.choice(FailIf, fail_if, "rule for --fail-if")
        store = own_store()
        names = [baseline, *(baseline_run or ())]
        options = file_options(
            store, benchmark, annotations, columns, runs=[*names, candidate], reader=reader
        )
        of_candidate = arguments.renamed_columns(columns_b)
        runs = [read_run(name, store, options) for name in names]
        other = read_run(candidate, store, options, of_candidate)
        decision = replace(
            decide(
                as_repeats([run.rows for run in runs]),
                other.rows,
                margin=margin,
                facets=facet or [],
                asked=_asked([*runs, other], common=common),
                max_failed=max_failed,
            ),
            baseline=baseline,
            candidate=candidate,
        )
    except VideoMMEError as error:
        raise not_evaluated(error, baseline, candidate, junit) from error
    note_same_answers(runs[0], other)
    details: dict[str, object] | None = {} if as_json else None
    raise report("Gate", decision, rule, junit, details, allow_undecided=allow_undecided)


def _asked(runs: "Sequence[NamedRun]", *, common: bool) -> set[str]:
    """The questions that every run was to answer.

    An evaluation was to answer the questions that it selects. A results file does not say what was
    asked, so it was to answer all questions of the other runs, or those in `common`.
    """
    ids = [{row.question_id for row in run.rows} for run in runs]
    selected = [own for run, own in zip(runs, ids, strict=True) if common or not run.is_file]
    return set.intersection(*selected) if selected else set.union(*ids)


def not_evaluated(
    error: VideoMMEError, baseline: str, candidate: str, junit: Path | None
) -> typer.Exit:
    """Print the error, and write the files of CI unless the usage was wrong."""
    from videomme_pipeline.reports.gate import junit_error
    from videomme_pipeline.reports.markdown import in_markdown

    note(f"Error: {error}")
    if isinstance(error, ConfigurationError):
        return typer.Exit(WRONG_USAGE)
    _write_for_ci(junit, "--junit", junit_error(baseline, candidate, str(error)))
    summary = f"Not evaluated: {in_markdown(str(error))}\n"
    _report_to_github({"verdict": "not evaluated"}, summary, str(error))
    return typer.Exit(NOT_EVALUATED)


def report(
    title: str,
    decision: "Gate",
    rule: "FailIf",
    junit: Path | None,
    json_details: Mapping[str, object] | None,
    *,
    allow_undecided: bool,
) -> typer.Exit:
    """Print the decision, as JSON if there are `json_details`, and write the files of CI."""
    from videomme_pipeline.reports.gate import junit as as_junit
    from videomme_pipeline.reports.gate import markdown, sentence, summary

    status, outcome = 0, "passed"
    if decision.fails(rule):
        status, outcome = FAILED, "failed"
    elif decision.verdict == "undecided" and not allow_undecided:
        status, outcome = UNDECIDED, "undecided"
    verdict, sentences = decision.verdict.value, [sentence(check) for check in decision.checks]
    if json_details is not None:
        print_json(asdict(decision) | {"verdict": verdict, "outcome": outcome} | {**json_details})
    else:
        write("\n".join([f"{title} {outcome}", *sentences, summary(decision)]) + "\n")
    _write_for_ci(junit, "--junit", as_junit(decision))
    headline = decision.checks[0]
    outputs = {
        "verdict": verdict,
        "outcome": outcome,
        "difference": f"{headline.difference:.2f}",
        "low": "" if headline.low is None else f"{headline.low:.2f}",
        "high": "" if headline.high is None else f"{headline.high:.2f}",
        "p_value": f"{headline.p_value:.3g}",
    }
    problem = "; ".join(sentences) if status else None
    _report_to_github(outputs, markdown(decision, outcome), problem)
    return typer.Exit(status)


def _write_for_ci(path: Path | None, name: str, text: str, mode: str = "w") -> None:
    """Write the file that an option or variable called `name` chose, or end the command."""
    if path is None:
        return
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        note(f"Error: cannot write {name} {path} ({error.strerror}); choose another path")
        raise typer.Exit(WRONG_USAGE) from error


def _report_to_github(outputs: Mapping[str, str], summary: str, problem: str | None) -> None:
    """Append to the files of GitHub Actions, if there are any, and annotate the step."""
    files = {
        "GITHUB_STEP_SUMMARY": summary,
        "GITHUB_OUTPUT": "".join(f"{key}={value}\n" for key, value in outputs.items()),
    }
    for variable, text in files.items():
        if path := os.environ.get(variable):
            _write_for_ci(Path(path), variable, text, "a")
    if problem is not None and os.environ.get("GITHUB_ACTIONS"):
        escaped = printable(problem).replace("%", "%25").replace("\n", "%0A")
        err.file.write(f"::error title=videomme gate::{escaped}\n")


@commands.command(epilog="Example: videomme race smoke-random smoke-embedded --margin 2")
def race(
    baseline: Annotated[str, arguments.evaluation_argument("BASELINE", "An evaluation.")],
    candidate: Annotated[
        str, arguments.evaluation_argument("CANDIDATE", "Another one with the same questions.")
    ],
    margin: arguments.Margin = 2.0,
    fail_if: arguments.FailIfVerdict = "worse",
    allow_undecided: arguments.AllowUndecided = False,
    max_cost: arguments.MaxCost = None,
    max_questions: Annotated[
        int | None, typer.Option(min=1, help="Most questions that each evaluation is asked.")
    ] = None,
    max_failed: arguments.MaxFailed = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of the videos.")] = 0,
    junit: arguments.JUnitFile = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Ask two evaluations video by video, and stop when their difference is known.

    The videos are asked in a random order. The difference is tested at planned
    interim looks (group-sequential test), so stopping early does not raise the
    error rate. Every answer is stored as in `run`, and a race that was stopped continues.
    Exit status and files for CI are those of `gate`.
    """
    from videomme_pipeline.scoring.statistics.gate import FailIf

    try:
        rule = arguments.choice(FailIf, fail_if, "rule for --fail-if")
        note(PLANNING)
        from videomme_pipeline.assets.race import RaceConfig, RaceLook, race_here

        config = RaceConfig(
            baseline=baseline,
            candidate=candidate,
            seed=seed,
            margin=margin,
            max_cost_dollars=max_cost,
            max_questions=max_questions,
            max_failed=max_failed,
        )
        looks: list[RaceLook] = []
        with open_for_plan([baseline, candidate]) as project, instance_for(project) as instance:
            race_here(project, instance, config, looks.append)
    except VideoMMEError as error:
        raise not_evaluated(error, baseline, candidate, junit) from error
    last = looks[-1]
    details = {"stop": last.stop, "looks": looks} if as_json else None
    raise report("Race", last.gate, rule, junit, details, allow_undecided=allow_undecided)


@commands.command(epilog="Example: videomme power --benchmark videomme --videos 90")
def power(
    evaluation: Annotated[
        str | None,
        arguments.evaluation_argument(
            "EVALUATION", "Name of an evaluation that has scores, for its size and its noise."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Another evaluation: measure the noise between the two.")
    ] = None,
    benchmark: arguments.BenchmarkName = None,
    videos: Annotated[
        int | None, typer.Option(min=2, help="Number of videos, for a subset.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=2, help="Number of questions. Default: all of the videos.")
    ] = None,
    per_video: Annotated[
        str | None,
        typer.Option(help="Numbers of questions on a video, in equal shares, such as 1,3,6."),
    ] = None,
    discordance: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of questions that one side answers correctly."),
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Correlation of the differences within a video."),
    ] = None,
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Level of the test.")] = 0.05,
    power: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Probability of detecting the difference.")
    ] = 0.8,
    as_json: arguments.AsJson = False,
) -> None:
    """Show the smallest difference of accuracies that a comparison detects.

    The size is that of an evaluation, a subset, or a benchmark. The noise is stated,
    or measured between two evaluations or two repeats of one. Otherwise, usual
    values are shown.
    """
    from videomme_pipeline.scoring.statistics import power as analysis

    own_store()  # registers the benchmarks of the project
    if against is not None and evaluation is None:
        raise ConfigurationError("--against needs an evaluation: videomme power A --against B")
    benchmark = benchmark or arguments.DEFAULT_BENCHMARK
    rows = None if evaluation is None else _answered(evaluation)
    size = _size(rows, benchmark, videos, questions, per_video)
    shares = analysis.USUAL_DISCORDANCES if discordance is None else [discordance]
    noises = [analysis.Noise(share, analysis.USUAL_CORRELATION) for share in shares]
    pair: Sequence[Sequence[ScoredQuestion]] | None = None
    if rows is not None and discordance is None:
        pair = analysis.first_repeats(rows) if against is None else (rows, _answered(against))
    if pair:
        noises = [analysis.measure_noise(*pair)]
    analyses = [
        analysis.PowerAnalysis(
            videos=size[0],
            questions=size[1],
            cluster_size=size[2],
            discordance=noise.discordance,
            correlation=noise.correlation if correlation is None else correlation,
            alpha=alpha,
            power=power,
        )
        for noise in noises
    ]
    show(analyses, show_power, as_json=as_json)


def _answered(evaluation: str) -> "list[ScoredQuestion]":
    from videomme_pipeline.cli.stored_scores import stored_scores
    from videomme_pipeline.scoring.scored_question import Outcome

    rows = stored_scores(open_project().store, evaluation)
    return [row for row in rows if row.outcome is not Outcome.FAILED]


def _size(
    rows: "Sequence[ScoredQuestion] | None",
    benchmark: str,
    videos: int | None,
    questions: int | None,
    per_video: str | None,
) -> tuple[int, int, float]:
    """The numbers of videos and questions, and the mean number on the video of a question.

    The numbers that are not given are those of the rows, or of the benchmark without rows.
    """
    from videomme_pipeline.benchmarks.registry import find_benchmark
    from videomme_pipeline.scoring.statistics.power import mean_cluster_size

    declared = find_benchmark(benchmark).size
    sizes = [declared.questions_per_video] if declared.questions_per_video else []
    all_videos = declared.videos
    if rows is not None:
        asked = Counter(video for video, _ in {(row.video_id, row.question_id) for row in rows})
        sizes, all_videos = [*asked.values()], len(asked)
    if per_video is not None:
        if not re.fullmatch(r"\s*[1-9]\d*\s*(,\s*[1-9]\d*\s*)*", per_video):
            raise ConfigurationError(f"--per-video {per_video!r}: give numbers such as 1,3,6")
        sizes = list(map(int, per_video.split(",")))
    chosen, mean = videos or all_videos, fmean(sizes or [0])
    if questions is None and chosen:
        questions = round(chosen * mean)
    if not chosen or not questions:
        raise ConfigurationError(
            "the number of videos or questions is not known; give --videos and --questions"
        )
    unequal = mean_cluster_size(sizes) / mean if mean else 1.0
    return chosen, questions, unequal * questions / chosen
