"""Scores of an evaluation by its name, or of a results file, and what blocks their citation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.cli.arguments import DEFAULT_BENCHMARK, choice, renamed_columns
from videomme_pipeline.cli.output import err, note
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.formats.files import files_of_run
from videomme_pipeline.formats.score_file import ScoreOptions, audited_file, score_file
from videomme_pipeline.reports.findings import show_citation
from videomme_pipeline.reports.terminal.console import PlainConsole
from videomme_pipeline.reports.terminal.runs import show_repeats, show_scores
from videomme_pipeline.scoring.findings.run import Run
from videomme_pipeline.scoring.findings.sameness import same_pairs
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import TRACKS, UNKNOWN_TRACK, ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.results import Results, ShownScores
from videomme_pipeline.storage.tables import read_rows, stored_settings


@dataclass(frozen=True, slots=True)
class NamedRun:
    """The scored questions and the settings of an evaluation, or of a results file."""

    name: str
    rows: Sequence[ScoredQuestion]
    settings: Mapping[str, object]
    is_file: bool


def read_run(
    name: str, store: Store | None, options: ScoreOptions, columns: Mapping[str, str] = {}
) -> NamedRun:
    """The run of a results file, folder or pattern, or else the evaluation with this name.

    Files are scored with `options` and further `columns`, and remarks about them are printed; the
    reader is their only setting. `store` is None outside of a project.
    """
    if _is_file(name, store):
        report = score_file(Path(name), replace(options, columns={**options.columns, **columns}))
        for remark in report.remarks:
            note(f"{name}: {remark}")
        return NamedRun(name, report.rows, {"reader": options.reader.value}, is_file=True)
    results = Results(store) if store else None
    shown = results.find(name) if results else None
    if shown is None:
        scored = [other.evaluation for other in results.scores()] if results else []
        raise ConfigurationError(_not_found(name, scored))
    rows = read_rows(shown.path, ScoredQuestion)
    return NamedRun(name, rows, stored_settings(shown.path), is_file=False)


def _is_file(name: str, store: Store | None) -> bool:
    """True if `name` is a file, a pattern of files, or a folder that no evaluation is called."""
    path = Path(name)
    if path.is_dir():
        return store is None or Results(store).find(name) is None
    return files_of_run(path)[0].exists()


def note_same_answers(a: NamedRun, b: NamedRun) -> str | None:
    """Print a note if two runs, one of them a file, have the same answers, and return its text.

    The requests of results files are not known, so equal requests cannot explain equal answers.
    """
    pairs = same_pairs([a.rows, b.rows], requests_are_stored=[False, False])
    if not (a.is_file or b.is_file) or not (same := next(pairs, None)):
        return None
    fact = (
        f"{a.name} and {b.name} have {same[-1].fact}, so they are probably one run; cite only one "
        "of these scores"
    )
    note(f"Note: {fact}")
    return fact


def audited_run(name: str, store: Store | None, options: ScoreOptions) -> Run:
    """The run in a results file, or that of an evaluation."""
    if store is None or _is_file(name, store):
        return audited_file(Path(name), options)
    from videomme_pipeline.warehouse.database import connect
    from videomme_pipeline.warehouse.evidence import stored_runs

    rows = read_run(name, store, options).rows
    with connect(store) as connection:
        (run,) = stored_runs(connection, Results(store), rows[0].benchmark, name)
    return replace(run, answers=rows)


def _not_found(name: str, evaluations: Sequence[str]) -> str:
    path = Path(name)
    nearby = path.parent.iterdir() if path.suffix and path.parent.is_dir() else ()
    files = [str(file) for file in nearby if file.suffix == path.suffix and file.is_file()]
    names = [*evaluations, *files]
    return (
        f"no file and no scored evaluation `{name}`: "
        f"{nearest(name, names) if names else 'nothing has been scored yet'} "
        "(`videomme run EVALUATION` builds the scores of an evaluation)"
    )


def file_options(
    store: Store | None,
    benchmark: str | None,
    annotations: Path | None,
    columns: Sequence[str] | None,
    *,
    runs: Sequence[str] = (),
    reader: str = "careful",
    track: str = "unknown",
    **others: Any,
) -> ScoreOptions:
    """The settings for scoring results files, with the questions that the project stores.

    Without a benchmark, it is that of the first evaluation among `runs`, or else the default one.
    """
    results = Results(store) if store else None
    evaluations = results.scores() if results and not benchmark else []
    benchmarks = {shown.evaluation: shown.benchmark for shown in evaluations}
    of_runs = (benchmarks[name] for name in runs if name in benchmarks)
    name = find_benchmark(benchmark or next(of_runs, DEFAULT_BENCHMARK)).name
    stored = results.questions(name) if results and annotations is None else None
    return ScoreOptions(
        benchmark=name,
        reader=choice(ReaderName, reader, "reader"),
        annotations=annotations,
        questions=() if stored is None else tuple(read_rows(stored, Question)),
        columns=renamed_columns(columns),
        track=choice([*TRACKS, UNKNOWN_TRACK], track, "track"),
        **others,
    )


def stored_scores(store: Store, evaluation: str) -> Sequence[ScoredQuestion]:
    """The scored questions of `evaluation`, with the errors of `shown_scores`."""
    return read_rows(shown_scores(store, evaluation).path, ScoredQuestion)


def shown_scores(store: Store, evaluation: str) -> ShownScores:
    """The scores of `evaluation`. Raise ConfigurationError if it has none."""
    results = Results(store)
    shown = results.find(evaluation)
    if shown is None:
        scored = [other.evaluation for other in results.scores()]
        hint = nearest(evaluation, scored) if scored else "nothing has been scored yet"
        raise ConfigurationError(
            f"evaluation {evaluation} has no scores: {hint} (videomme run {evaluation})"
        )
    return shown


def open_findings(store: Store, evaluations: Sequence[str]) -> list[dict[str, Any]]:
    """The citation findings about `evaluations` that are not ok, the worst ones first."""
    order = "list_position(['blocked', 'warning', 'unknown'], status), evaluation, check_name"
    findings = _rows_of(store, "citation_findings", evaluations, order)
    return [row for row in findings if row["status"] != "ok"]


def print_findings(store: Store, evaluations: Sequence[str]) -> None:
    """Print the open findings on standard error, so that tables can be read by programs."""
    show_citation(err, open_findings(store, evaluations))


def score_tables(store: Store, evaluations: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The scores, repeats and open findings of `evaluations`, as rows of three views."""
    order = "benchmark, accuracy desc, evaluation"
    return {
        "scores": _rows_of(store, "leaderboard", evaluations, order),
        "repeats": _rows_of(store, "repeats", evaluations, "all"),
        "citation": open_findings(store, evaluations),
    }


def _rows_of(
    store: Store, view: str, evaluations: Sequence[str], order: str
) -> list[dict[str, Any]]:
    from videomme_pipeline.warehouse.database import connect, query

    select = f"select * from {view} where list_contains(?, evaluation) order by {order}"
    with connect(store) as connection:
        return query(connection, select, [list(evaluations)])


def show_score_tables(console: PlainConsole, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Print the result of `score_tables`. Findings go to standard error."""
    show_scores(console, tables["scores"])
    show_repeats(console, tables["repeats"])
    if any(0 < row["failed"] < row["responses"] for row in tables["scores"]):
        note("≥ is a lower bound: failed questions count as wrong.")
    show_citation(err, tables["citation"])
