"""All results-file formats by name, and functions that read and write files in any of them."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from videomme_pipeline.benchmarks.columns import read_rows
from videomme_pipeline.benchmarks.declared_source import declared_questions
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import AnnotationError, ScoringError, listed
from videomme_pipeline.formats import dataset_rows, harnesses, official, row_files
from videomme_pipeline.formats.answers import Answers, answers_of
from videomme_pipeline.formats.columns import advice, usual_columns, with_columns, with_usual_names
from videomme_pipeline.formats.files import files_of_run, read_rows_of
from videomme_pipeline.formats.results_format import TEXT_COLUMNS, ResultsFormat, Row, TableRow
from videomme_pipeline.scoring.scored_question import ScoredQuestion

FORMATS: Mapping[str, ResultsFormat] = {
    form.name: form
    for form in (
        official.FORMAT,
        row_files.CONTRACT,
        *harnesses.FORMATS,
        row_files.LMMS_EVAL,
        row_files.VLMEVALKIT,
    )
}
"""Formats by name. The first format that recognizes a file reads it."""

_AGGREGATES: Mapping[str, Set[str]] = {
    "the aggregate of lmms-eval, which has no answers; score the file of samples beside it "
    "(`*_samples_<task>.jsonl`, written with --log_samples)": {"results", "configs"},
    "the aggregate of Every Eval Ever, which has no answers; score the file of instances that its "
    "`detailed_evaluation_results` names": {"evaluation_results", "source_metadata"},
}
"""The keys of files that have scores and no answers, by what to say about the file."""
_MAX_NOTES = 20
_SUFFIXES = {".json", ".jsonl", ".csv", ".tsv", ".parquet", ".xlsx", ".eval"}
"""Endings of the files in a folder that may have results."""
_PLAIN = ResultsFormat(name="rows of the dataset", recognizes=bool, read=lambda row: [row])
"""The format of a file that no registered format recognizes."""


def read_results(
    path: Path,
    benchmark: str,
    dataset: dataset_rows.Annotations | None,
    columns: Mapping[str, str],
    *,
    skip_missing: bool,
) -> Answers:
    """The results of one run in `path`, in any registered format. Nothing is scored.

    `path` is a file, or a folder or a pattern with several files of the same format. Files without
    answers are left out with a remark, and rows that cannot be used with a note. `dataset` is for
    results files without options. `columns` are the file's columns by their standard names, such as
    `prediction`. ScoringError if the file is missing, empty or in no known format, or the formats
    differ.
    """
    contents = _contents_of_run(path, skip_missing, columns)
    form, notes = contents.form, contents.notes
    rows: Sequence[Row] = contents.rows
    # In other formats, `--columns` names what is in the file, and not the columns of the rows.
    advice_for_rows = advice(max(rows, key=len)) if rows and form is _PLAIN else ""
    if dataset is None and rows and not any(row.get("options") for row in rows):
        rows = dataset_rows.with_lettered_options(
            rows, benchmark, has_texts=form is not _PLAIN, has_shards=contents.has_shards
        )
        if not any(row.get("options") for row in rows):
            raise ScoringError(
                f"{path}: recognized as {form.name}, but it has no options; give the annotations "
                "of the dataset (its Parquet, JSON or CSV file) with --annotations, or convert it "
                f"to the official template. {advice_for_rows}"
            )
        contents.remarks.append("the file has no options, so only letters are read as answers")
    if dataset is None and not any(row.get("video_id") for row in rows):
        rows = list(map(dataset_rows.with_video_of_id, rows))
        contents.remarks.append("no row names its video, which is taken from the question's id")
    questions: list[tuple[Question, Row]] = []
    left_out, differing = list[str](), list[str]()
    for number, row in enumerate(dataset_rows.with_letters(rows, benchmark), start=1):
        try:
            question, differs = _question_in(row, benchmark, dataset, contents.has_shards)
        except ValueError as error:
            left_out.append(f"row {number} ({row.get('question_id', 'no id')}) left out: {error}")
            continue
        questions.append((question, row))
        if differs:
            differing.append(f"row {number} ({question.question_id}): {differs}")
    differences = (
        f"{len(differing):,} rows differ from the dataset, whose questions and answers count; "
        f"do not publish this score: {listed(differing)}",
    )[: len(differing)]
    notes += left_out[:_MAX_NOTES]
    if len(left_out) > _MAX_NOTES:
        notes.append(f"rows left out in addition: {len(left_out) - _MAX_NOTES:,}")
    _check_ids([question for question, _ in questions], path)
    if not questions:
        raise ScoringError(
            f"{path}: recognized as {form.name}, but no row can be used; "
            f"{f'{notes[0]}. {advice_for_rows}' if notes and rows else 'it is empty'}"
        )
    answers = answers_of(questions, path.stem, is_table=contents.is_table)
    return replace(
        answers,
        notes=(*differences, *notes, *answers.notes),
        remarks=(*contents.remarks, *answers.remarks),
        stored=replace(
            answers.stored, left_out=(*notes, *contents.remarks), differences=differences
        ),
    )


def _question_in(
    row: Row,
    benchmark: str,
    dataset: dataset_rows.Annotations | None,
    has_shards: bool,
) -> tuple[Question, str]:
    """The question that `row` answers, and how the row differs from the dataset, or ""."""
    if dataset is None:
        return dataset_rows.question_of(row, benchmark), ""
    if has_shards and not row.get("options") and dataset_rows.name_of(row, "question_id") is None:
        raise ValueError("no `question_id`, and `doc_id` restarts in each file of a run")
    return dataset_rows.known_question(row, benchmark, dataset)


@dataclass(slots=True, kw_only=True)
class _Contents:
    """The rows of a file, or of a run in several files (`has_shards`).

    `notes` are about videos that were left out, `remarks` about files and texts. `is_table` is True
    if the cells are texts.
    """

    form: ResultsFormat
    rows: list[Row]
    notes: list[str]
    remarks: list[str]
    is_table: bool
    has_shards: bool = False


def _contents_of_run(path: Path, skip_missing: bool, columns: Mapping[str, str]) -> _Contents:
    files = files_of_run(path)
    if files == [path]:
        return _contents(path, skip_missing, columns)
    run: _Contents | None = None
    first, left_out = "", list[str]()
    for file in files:
        if file.is_fifo():
            raise ScoringError(f"{file}: this is a pipe, which may never end; remove it")
        if file.name.startswith(".") or file.suffix not in _SUFFIXES:
            left_out.append(file.name)
            continue
        try:
            part = _contents(file, skip_missing, columns)
        except _NoAnswersError:
            left_out.append(file.name)
            continue
        if run is None:
            run, first = part, file.name
            continue
        if part.form != run.form:
            raise ScoringError(
                f"{path}: its files have different formats ({first} is {run.form.name}, "
                f"{file.name} is {part.form.name}); score each alone"
            )
        run.rows += part.rows
        run.notes += part.notes
        run.remarks += part.remarks
        run.is_table &= part.is_table
        run.has_shards = True
    if run is None:
        raise ScoringError(
            f"{path}: no file in it has answers: {listed(left_out) or 'it is empty'}"
        )
    if left_out:
        run.remarks.append(f"files without answers, which are left out: {listed(left_out)}")
    return run


def _contents(path: Path, skip_missing: bool, columns: Mapping[str, str]) -> _Contents:
    objects, remarks = read_rows_of(path)
    if not objects:
        raise ScoringError(f"{path}: contains no results")
    for aggregate, keys in _AGGREGATES.items():
        if len(objects) == 1 and keys <= objects[0].keys():
            raise _NoAnswersError(f"{path}: this is {aggregate}")
    is_table = isinstance(objects[0], TableRow)
    objects = [*with_columns(objects, columns, path)]
    form = next((form for form in FORMATS.values() if any(map(form.recognizes, objects))), _PLAIN)
    notes, missing, empty = list[str](), list[str](), list[str]()
    rows: list[Row] = []
    try:
        for item in objects:
            if item.get("missing") is True:
                missing.append(str(item.get("video_id")))
                if skip_missing:
                    continue
            if of_item := list(form.read(item)):
                # A format may not know the columns that the user has named.
                is_one_question = len(of_item) == 1 or all("copy" in row for row in of_item)
                named = {name: item[name] for name in columns} if is_one_question else {}
                rows += [{**row, **named} for row in of_item] if named else of_item
            elif form is official.FORMAT:
                empty.append(str(item.get("video_id")))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ScoringError(
            f"{path}: recognized as {form.name}, but its rows have another structure ({error}); "
            "convert it to the official template"
        ) from error
    renamed = usual_columns(rows[0]) if rows and form is _PLAIN else {}
    remarks += [f"the column `{column}` is read as `{name}`" for name, column in renamed.items()]
    rows = list(map(with_usual_names, rows))
    if empty:
        notes.append(f"{len(empty)} videos have no list of `questions`: {listed(empty)}")
    if missing:
        left_out = "left out" if skip_missing else "counted (--skip_missing leaves them out)"
        notes.append(f"{len(missing)} videos are marked missing and {left_out}: {listed(missing)}")
    if rows and all(row.keys().isdisjoint(TEXT_COLUMNS) for row in rows):
        raise _NoAnswersError(
            f"{path}: no row has a column with a response ({listed(TEXT_COLUMNS)}); name it with "
            "--columns prediction=COLUMN, or convert the file to the official template. "
            f"{advice(objects[0])}"
        )
    return _Contents(form=form, rows=rows, notes=notes, remarks=remarks, is_table=is_table)


class _NoAnswersError(ScoringError):
    """A readable file has no answers, as the aggregates beside results files."""


def read_annotations(path: Path, benchmark: str) -> dataset_rows.Annotations:
    """The questions in a file with the columns of Video-MME, or those that `benchmark` declares."""
    questions: Sequence[Question]
    try:
        questions = declared_questions(path, find_benchmark(benchmark))
    except AnnotationError as error:
        try:
            rows = map(with_usual_names, read_rows(path))
            questions = [dataset_rows.question_of(row, benchmark) for row in rows]
        except ValueError as other:
            raise ScoringError(
                f"{path}: not the annotations of {benchmark}: {error}; nor rows of Video-MME: "
                f"{other}"
            ) from error
    _check_ids(questions, path)
    annotations = dataset_rows.Annotations(questions, are_whole=True)
    for question in questions:
        if annotations.by_id[question.question_id] != question:
            raise ScoringError(
                f"{path}: two different questions have the id {question.question_id!r}; make the "
                "ids unique"
            )
    return annotations


def _check_ids(questions: Sequence[Question], path: Path) -> None:
    """Check that no two ids differ only by blanks. They would count as two questions or videos."""
    spellings: dict[str, str] = {}
    for name in {name: None for q in questions for name in (q.video_id, q.question_id)}:
        if (first := spellings.setdefault(name.strip(), name)) != name:
            raise ScoringError(
                f"{path}: the ids {first!r} and {name!r} differ only by blanks; write them alike"
            )


def write_results(
    questions: Sequence[Question],
    rows: Sequence[ScoredQuestion],
    form: ResultsFormat,
    *,
    not_citable: str = "",
) -> str:
    """The text of a results file with the answers of one evaluation.

    Every row has `not_citable`, the reason why the score must not be cited, in a column of this
    name. If questions were asked several times, the first answers are written, and every row has a
    column `repeats`. A failed question has an empty text: the official script fails on null.
    ScoringError if no row answers any of `questions`.
    """
    if form.rows is None:
        raise ScoringError(f"format {form.name} is only read; export another one")
    answers = {row.question_id: row for row in rows if row.repeat == 0}
    if not any(question.question_id in answers for question in questions):
        raise ScoringError(
            f"{len(rows)} scored rows belong to none of {len(questions)} questions; "
            "export an evaluation with its own benchmark"
        )
    repeats = 1 + max(row.repeat for row in rows)
    marks = {
        **({"not_citable": not_citable} if not_citable else {}),
        **({"repeats": f"first of {repeats}"} if repeats > 1 else {}),
    }
    return form.text([{**row, **marks} for row in form.rows(questions, answers)])
