"""Scores of an evaluation by its name, or of a results file, and what blocks their citation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videomme_pipeline.cli.arguments import DEFAULT_BENCHMARK, choice
from videomme_pipeline.cli.context import err, note
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from upath import UPath

    from videomme_pipeline.formats.score_file import ScoreOptions
    from videomme_pipeline.reports.terminal.console import PlainConsole
    from videomme_pipeline.scoring.findings.run import Run
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.storage.layout import Store

_SCORE_ORDER = "benchmark, accuracy desc, evaluation"


def rows_and_settings(
    name: str, store: "Store | None", options: "ScoreOptions"
) -> "tuple[Sequence[ScoredQuestion], Mapping[str, object]]":
    """The scored questions and the settings of an evaluation, or of a results file.

    `name` is the name of the evaluation, or the path of a file, a folder or a pattern. Files are
    scored with `options`, and remarks about them are printed; the reader is their only setting.
    `store` is None outside of a project.

    Raises:
        ConfigurationError: if there is neither such a file nor such an evaluation.
    """
    if names_files(name, store):
        from videomme_pipeline.formats.score_file import score_file

        report = score_file(Path(name), options)
        for remark in report.remarks:
            note(f"{name}: {remark}")
        return report.rows, {"reader": options.reader.value}
    from videomme_pipeline.storage.tables import stored_settings

    evaluations = [path.stem for path in store.score_files()] if store else []
    if store is None or name not in evaluations:
        raise ConfigurationError(_not_found(name, evaluations))
    benchmark, rows = stored_scores(store, name)
    return rows, stored_settings(store.scores(benchmark, name))


def names_files(name: str, store: "Store | None") -> bool:
    """True if `name` is a file, a pattern of files, or a folder that no evaluation is called."""
    from videomme_pipeline.formats.files import files_of_run

    path = Path(name)
    if path.is_dir():
        return store is None or all(name != file.stem for file in store.score_files())
    return files_of_run(path)[0].exists()


def benchmark_of(store: "Store | None", runs: Sequence[str]) -> str:
    """The benchmark of the first evaluation among `runs`, or the default one if all are files."""
    files = {path.stem: path for path in store.score_files()} if store else {}
    named = (files[run] for run in runs if run in files and not names_files(run, store))
    return next((path.parent.parent.name for path in named), DEFAULT_BENCHMARK)


def note_same_answers(
    names: tuple[str, str], runs: "Sequence[Sequence[ScoredQuestion]]"
) -> str | None:
    """Print a note if two runs have the same answers, and return its text."""
    from videomme_pipeline.scoring.findings.sameness import same_pairs

    for _, _, same in same_pairs(runs, requests_are_stored=[False, False]):
        fact = (
            f"{names[0]} and {names[1]} have {same.fact}, so they are probably one run; cite only "
            "one of these scores"
        )
        note(f"Note: {fact}")
        return fact
    return None


def audited_run(name: str, store: "Store | None", options: "ScoreOptions") -> "Run":
    """The run in a results file, or that of an evaluation.

    Raises:
        ConfigurationError: if there is neither such a file nor such an evaluation.
    """
    if names_files(name, store) or store is None:
        from videomme_pipeline.formats.score_file import audited_file

        return audited_file(Path(name), options)
    from videomme_pipeline.warehouse.database import connect
    from videomme_pipeline.warehouse.evidence import stored_runs

    rows, _ = rows_and_settings(name, store, options)
    with connect(store) as connection:
        (run,) = stored_runs(connection, store, rows[0].benchmark, name)
    return replace(run, answers=rows)


def _not_found(name: str, evaluations: Sequence[str]) -> str:
    """The error message for a name that is neither a file nor an evaluation with scores."""
    from videomme_pipeline.configuration import nearest

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
    store: "Store | None", benchmark: str, reader: str, annotations: Path | None, **others: Any
) -> "ScoreOptions":
    """The settings for scoring results files, with the questions that the project stores.

    Raises:
        ConfigurationError: if there is no such benchmark or reader.
    """
    from videomme_pipeline.benchmarks.question import Question
    from videomme_pipeline.benchmarks.registry import find_benchmark
    from videomme_pipeline.formats.score_file import ScoreOptions
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.storage.tables import read_rows

    name = find_benchmark(benchmark).name
    stored = store.questions(name) if store and annotations is None else None
    return ScoreOptions(
        benchmark=name,
        reader=choice(ReaderName, reader, "reader"),
        annotations=annotations,
        questions=tuple(read_rows(stored, Question)) if stored and stored.exists() else (),
        **others,
    )


def stored_scores(store: "Store", evaluation: str) -> "tuple[str, Sequence[ScoredQuestion]]":
    """The benchmark and the scored questions of `evaluation`."""
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.storage.tables import read_rows

    path = scores_file(store, evaluation)
    return path.parent.parent.name, read_rows(path, ScoredQuestion)


def scores_file(store: "Store", evaluation: str) -> "UPath":
    """The file with the scores of `evaluation`.

    Raises:
        ConfigurationError: if the evaluation has no scores.
    """
    from videomme_pipeline.configuration import nearest

    files = {path.stem: path for path in store.score_files()}
    if evaluation not in files:
        hint = nearest(evaluation, list(files)) if files else "nothing has been scored yet"
        raise ConfigurationError(
            f"evaluation {evaluation} has no scores: {hint} (videomme run {evaluation})"
        )
    return files[evaluation]


def open_findings(store: "Store", evaluations: Sequence[str]) -> list[dict[str, Any]]:
    """The citation findings about `evaluations` that are not ok, the worst ones first."""
    from videomme_pipeline.warehouse.database import connect, query

    with connect(store) as connection:
        return query(
            connection,
            "select * from citation_findings "
            "where status <> 'ok' and list_contains(?, evaluation) "
            "order by list_position(['blocked', 'warning', 'unknown'], status), evaluation, "
            "check_name",
            [list(evaluations)],
        )


def print_findings(store: "Store", evaluations: Sequence[str]) -> None:
    """Print the open findings on standard error, so that tables can be read by programs."""
    from videomme_pipeline.reports.findings import show_citation

    show_citation(err, open_findings(store, evaluations))


def score_tables(store: "Store", evaluations: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The scores, repeats and open findings of `evaluations`, as rows of three views."""
    from videomme_pipeline.warehouse.database import connect, query

    with connect(store) as connection:
        scores, repeats = (
            query(
                connection,
                f"select * from {view} where list_contains(?, evaluation) order by {order}",
                [list(evaluations)],
            )
            for view, order in (("leaderboard", _SCORE_ORDER), ("repeats", "all"))
        )
    findings = open_findings(store, evaluations)
    return {"scores": scores, "repeats": repeats, "citation": findings}


def show_score_tables(console: "PlainConsole", tables: dict[str, list[dict[str, Any]]]) -> None:
    """Print the result of `score_tables`. Findings go to standard error."""
    from videomme_pipeline.reports.findings import show_citation
    from videomme_pipeline.reports.terminal.runs import show_repeats, show_scores

    show_scores(console, tables["scores"])
    show_repeats(console, tables["repeats"])
    if any(0 < row["failed"] < row["responses"] for row in tables["scores"]):
        note("≥ is a lower bound: failed questions count as wrong.")
    show_citation(err, tables["citation"])
