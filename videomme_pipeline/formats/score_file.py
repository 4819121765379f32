"""The score report of a results file in any registered format."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet
from videomme_pipeline.benchmarks.question import Duration, Question, example_ids
from videomme_pipeline.benchmarks.registry import find_benchmark, registered_benchmarks
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ScoringError, listed
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.formats.answers import Answers
from videomme_pipeline.formats.dataset_rows import Annotations
from videomme_pipeline.formats.official import Rating, rating
from videomme_pipeline.formats.registry import read_annotations, read_results
from videomme_pipeline.judge.judge import AskJudge, JudgeSummary, judge_rows, summarize_judge
from videomme_pipeline.scoring.findings.reader_scores import ReaderScores, scores_by_reader
from videomme_pipeline.scoring.findings.run import Run
from videomme_pipeline.scoring.readers.careful import is_error_text
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.score import failed, score_question
from videomme_pipeline.scoring.scored_question import UNKNOWN_TRACK, Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import (
    AccuracyRow,
    GroupScoreRow,
    breakdowns,
    group_breakdowns,
)
from videomme_pipeline.scoring.statistics.groups import GroupRule, UnscoredGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """The settings for scoring a results file.

    `judge` is the name of the model that reads the responses that `careful` cannot read. Only these
    `durations` are scored, in this order (v1 only). `skip_missing` leaves out videos that the
    official template marks as missing, as the official script does with the flag of that name.
    `annotations` is a file of the dataset, for results files without options; `questions` are the
    questions of the dataset in their order, for the same purpose. `columns` are the file's columns
    by the names that they stand for. `track` is that of the answers, such as `with_subtitles`.
    """

    benchmark: str = "videomme"
    reader: ReaderName = ReaderName.CAREFUL
    judge: str | None = None
    group_rule: GroupRule = GroupRule.CORRECTED
    durations: tuple[Duration, ...] = tuple(Duration)
    skip_missing: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    annotations: Path | None = None
    questions: tuple[Question, ...] = ()
    track: str = UNKNOWN_TRACK


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReport:
    """All results of a results file. Breakdowns have the names of the warehouse's views.

    Only v2 has `rating`, `group_breakdowns` and the scores `by_reader`. `notes` are the reasons not
    to publish the score: failures, an incomplete set of questions, rows that were left out.
    `remarks` are none: they say how the file was read.
    """

    options: ScoreOptions
    rows: tuple[ScoredQuestion, ...]
    breakdowns: Mapping[str, Sequence[AccuracyRow]]
    group_breakdowns: Mapping[str, Sequence[GroupScoreRow]]
    rating: Rating | None
    judge: JudgeSummary | None
    unscored_groups: tuple[UnscoredGroup, ...]
    notes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    by_reader: tuple[ReaderScores, ...] = ()


def score_file(path: Path, options: ScoreOptions, ask_judge: AskJudge | None = None) -> ScoreReport:
    """Score the results in `path`, whose format is recognized automatically.

    `ask_judge` sends requests to the judge, if `options` name one. ScoringError if the file cannot
    be read or has no questions that `options` select.
    """
    run, scored, imported = _score_answers(path, options)
    rows = [row for _, row in scored]
    if ask_judge is not None and options.judge is not None:
        rows = judge_rows(scored, options.judge, ask_judge)
    by_reader = scores_by_reader(run) if run.benchmark.grouping else ()
    report = score_rows(rows, options, imported.notes)
    return replace(report, remarks=imported.remarks, by_reader=tuple(by_reader))


def audited_file(path: Path, options: ScoreOptions) -> Run:
    """The run whose results are in `path`. Raises ScoringError as `score_file` does."""
    return _score_answers(path, options)[0]


def _score_answers(
    path: Path, options: ScoreOptions
) -> tuple[Run, list[tuple[Question, ScoredQuestion]], Answers]:
    dataset = Annotations(options.questions) if options.questions else None
    if options.annotations is not None:
        dataset = read_annotations(options.annotations, options.benchmark)
    imported = read_results(
        path, options.benchmark, dataset, options.columns, skip_missing=options.skip_missing
    )
    _check_benchmark(path, options, [question for question, _ in imported.pairs])
    evaluation_fingerprint = fingerprint(
        path.stem, [response.request_fingerprint for _, response in imported.pairs]
    )
    ids = example_ids(question for question, _ in imported.pairs)
    scored: list[tuple[Question, ScoredQuestion]] = []
    error_texts: dict[tuple[str, int], str] = {}
    for question, response in imported.pairs:
        if question.duration not in (None, *options.durations):
            continue
        row = score_question(
            question,
            response,
            options.reader,
            example_id=ids[question.question_id],
            evaluation_fingerprint=evaluation_fingerprint,
            sampling="unknown",
            track=options.track,
        )
        text = row.raw_output
        if text and is_error_text(text, question.letters, question.options):
            error_texts[row.question_id, row.repeat] = text
            row = failed(row, text) if options.reader is ReaderName.CAREFUL else row
        scored.append((question, row))
    if not scored:
        durations = ", ".join(options.durations)
        raise ScoringError(f"{path}: it has no question on {durations} videos; check `duration`")
    run = Run(
        name=str(path),
        benchmark=find_benchmark(options.benchmark),
        questions={question.question_id: question for question, _ in scored},
        answers=[row for _, row in scored],
        stored=replace(imported.stored, failures={**imported.stored.failures, **error_texts}),
    )
    notes = imported.notes
    if error_texts and options.reader is not ReaderName.CAREFUL:
        # A published reader reads these texts as its authors do.
        texts = listed([repr(text[:40]) for text in error_texts.values()])
        notes += (
            f"{len(error_texts):,} responses are texts of errors, which {options.reader} reads "
            f"like answers: {texts}; do not publish this score",
        )
    return run, scored, replace(imported, notes=notes)


def _check_benchmark(path: Path, options: ScoreOptions, questions: Sequence[Question]) -> None:
    """Check that the questions have the facet of groups if and only if the benchmark has groups."""
    benchmark, others = find_benchmark(options.benchmark), registered_benchmarks()
    columns = {column for question in questions for column in question.facets}
    if benchmark.group_facet not in (None, *columns):
        names = [other.name for other in others if other.grouping is None]
        raise ScoringError(
            f"{path}: no row has a `{benchmark.group_facet}`, which {options.benchmark} needs; "
            f"score it with --benchmark {' or '.join(names)}, or add the dataset's columns"
        )
    undeclared = columns - {facet.column for facet in benchmark.facets}
    grouped = [other for other in others if other.group_facet in undeclared]
    if grouped and benchmark.grouping is None:
        raise ScoringError(
            f"{path}: it has groups of questions (`{grouped[0].group_facet}`), which "
            f"{options.benchmark} does not have; score it with --benchmark "
            f"{' or '.join(other.name for other in grouped)}"
        )


def score_rows(
    rows: Sequence[ScoredQuestion], options: ScoreOptions, notes: Sequence[str] = ()
) -> ScoreReport:
    """The report of the scored rows of one evaluation."""
    benchmark = find_benchmark(options.benchmark)
    group_rows, groups, unscored = group_breakdowns(benchmark, rows, options.group_rule)
    return ScoreReport(
        options=options,
        rows=tuple(rows),
        breakdowns={name: cells for name, cells in breakdowns(benchmark, rows).items() if cells},
        group_breakdowns=group_rows,
        rating=rating(groups) if benchmark.reader == ReaderName.OFFICIAL_V2 else None,
        judge=summarize_judge(rows),
        unscored_groups=tuple(unscored),
        notes=(*notes, *_notes(rows, options, len({group.video_id for group in groups}), unscored)),
    )


def parse_durations(text: str) -> tuple[Duration, ...]:
    """Durations in any of the notations `short,medium`, `short, medium`, `["short", "medium"]`."""
    words = re.findall(r"\w+", text.lower())
    unknown = [word for word in words if word not in set(Duration)]
    if unknown or not words:
        hint = (
            f"; {unknown[0]!r} is not one: {nearest(unknown[0], list(Duration))}" if unknown else ""
        )
        raise ScoringError(
            f"video durations {text!r}: name one or more of {', '.join(Duration)}{hint}"
        )
    return tuple(Duration(word) for word in words)


def _notes(
    rows: Sequence[ScoredQuestion],
    options: ScoreOptions,
    scored_groups: int,
    unscored: Sequence[UnscoredGroup],
) -> Iterator[str]:
    """Yield the reasons not to publish the score."""
    benchmark = find_benchmark(options.benchmark)
    missing = sum(row.outcome is Outcome.FAILED for row in rows)
    if missing:
        yield (
            f"{missing} of {len(rows)} answers are missing. They are "
            "wrong in `accuracy` and left out of `accuracy_of_answered`; do not publish this score"
        )
    unjudged = sum(row.judge_error is not None for row in rows)
    if unjudged:
        yield (
            f"{unjudged} requests to the judge failed. Run again to repeat only those; do not "
            "publish this score"
        )
    if benchmark.grouping:
        if benchmark.size.videos not in (None, scored_groups):
            yield f"{scored_groups} complete groups, but the benchmark has {benchmark.size.videos}"
        yield from dict.fromkeys(
            f"video {group.video_id} is not scored: {group.reason}" for group in unscored
        )
        return
    yield from _size_notes(rows, benchmark, options.durations)
    for facet in benchmark.published_facets:
        yield from _unknown_labels(rows, facet)


def _size_notes(
    rows: Sequence[ScoredQuestion], benchmark: Benchmark, durations: Sequence[Duration]
) -> list[str]:
    """One note for each part of the benchmark that is not complete, or the number of questions."""
    size = benchmark.size
    parts = [] if size.videos_by else [("", size.videos, rows)]
    for column, videos_of_value in size.videos_by.items():
        values = durations if column == "duration" else benchmark.facet(column).values or ()
        for value in dict.fromkeys(values):
            of_value = [row for row in rows if row.facets.get(column) == value]
            parts.append((f"{value} ", videos_of_value, of_value))
    notes = []
    for part, expected, of_part in parts:
        videos = len({row.video_id for row in of_part})
        if expected not in (None, videos):
            notes.append(f"{videos} {part}videos, but the benchmark has {expected}")
    questions = len({row.question_id for row in rows})
    is_whole = set(durations) == set(Duration)
    if not notes and is_whole and size.questions not in (None, questions):
        notes.append(f"{questions:,} questions, but the benchmark has {size.questions:,}")
    return notes


def _unknown_labels(rows: Sequence[ScoredQuestion], facet: Facet) -> Iterator[str]:
    """Yield a note for each value that a facet with declared values does not have."""
    if facet.values is None:
        return
    labels = {row.question_id: row.facets.get(facet.column) for row in rows}
    for label, count in Counter(labels.values()).items():
        if label in facet.values:
            continue
        near = get_close_matches(str(label), map(str, facet.values), n=1)
        unknown = f"no {facet.column}" if label is None else f"the unknown {facet.column} {label!r}"
        yield (
            f"{count} questions have {unknown}"
            + (f" (did you mean {near[0]!r}?)" if near else "")
            + ": they count in the overall score, but in no line of the official report"
        )
