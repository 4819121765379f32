"""The score report of a results file in any registered format."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.benchmarks.videomme import DOMAINS, SUB_CATEGORIES, TASK_TYPES
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.formats.registry import read_results
from videomme_pipeline.scoring.readers.judge import (
    AskJudge,
    JudgeSummary,
    judge_rows,
    summarize_judge,
)
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import (
    Cell,
    GroupCell,
    breakdowns,
    group_breakdowns,
)
from videomme_pipeline.scoring.statistics.groups import GroupRule, Rating, UnscoredGroup, rating

V1 = "videomme"
V2 = "videomme_v2"
VIDEOS_PER_DURATION = 300
"""Number of v1 videos per duration, which the official script asserts."""
GROUPS = 800
"""Number of v2 groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """The settings for scoring a results file.

    `judge` is the name of the model that reads what `strict` cannot. Only the `durations` given
    are scored, in this order (v1 only). `skip_missing` leaves out videos that the official
    template marks as missing, as the official script does with the flag of that name.
    """

    benchmark: str = "videomme"
    reader: ReaderName = ReaderName.STRICT
    judge: str | None = None
    group_rule: GroupRule = GroupRule.CORRECTED
    durations: tuple[Duration, ...] = tuple(Duration)
    skip_missing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReport:
    """All results of a results file. Breakdowns have the names of the warehouse's views.

    Only v2 has `rating` and `group_breakdowns`. `notes` are the reasons not to publish the score:
    failures, an incomplete set of questions, rows that were left out.
    """

    options: ScoreOptions
    rows: tuple[ScoredQuestion, ...]
    breakdowns: Mapping[str, Sequence[Cell]]
    group_breakdowns: Mapping[str, Sequence[GroupCell]]
    rating: Rating | None
    judge: JudgeSummary | None
    unscored_groups: tuple[UnscoredGroup, ...]
    notes: tuple[str, ...]


def score_file(path: Path, options: ScoreOptions, ask_judge: AskJudge | None = None) -> ScoreReport:
    """Score the results in `path`, whose format is recognized automatically.

    Args:
        ask_judge: sends requests to the judge, if `options` name one.

    Raises:
        ScoringError: if the file cannot be read or has no questions that `options` select.
    """
    imported = read_results(path, options.benchmark, skip_missing=options.skip_missing)
    _check_benchmark(path, options, [question for question, _ in imported.pairs])
    evaluation_fingerprint = fingerprint(
        path.stem, [response.request_fingerprint for _, response in imported.pairs]
    )
    scored = [
        (
            question,
            score_question(
                question,
                response,
                options.reader,
                evaluation_fingerprint=evaluation_fingerprint,
                sampling="unknown",
                track="unknown",
            ),
        )
        for question, response in imported.pairs
        if question.duration is None or question.duration in options.durations
    ]
    if not scored:
        wanted = ", ".join(options.durations)
        raise ScoringError(f"{path}: it has no question on {wanted} videos; check `duration`")
    rows = [row for _, row in scored]
    if ask_judge is not None and options.judge is not None:
        rows = judge_rows(scored, options.judge, ask_judge)
    return score_rows(rows, options, imported.notes)


def _check_benchmark(path: Path, options: ScoreOptions, questions: Sequence[Question]) -> None:
    in_groups = any(question.group_type is not None for question in questions)
    if options.benchmark == V1 and in_groups:
        raise ScoringError(f"{path}: it has groups of questions; score it with --benchmark {V2}")
    if options.benchmark == V2 and not in_groups:
        raise ScoringError(
            f"{path}: no row has a `group_type`; score it with --benchmark {V1}, or add the "
            "dataset's columns"
        )


def score_rows(
    rows: Sequence[ScoredQuestion], options: ScoreOptions, notes: Sequence[str] = ()
) -> ScoreReport:
    """The report of the scored rows of one evaluation."""
    group_cells, groups, unscored = group_breakdowns(rows, options.group_rule)
    is_v2 = any(row.group_type is not None for row in rows)
    return ScoreReport(
        options=options,
        rows=tuple(rows),
        breakdowns={name: cells for name, cells in breakdowns(rows).items() if cells},
        group_breakdowns=group_cells if is_v2 else {},
        rating=rating(groups) if is_v2 else None,
        judge=summarize_judge(rows),
        unscored_groups=tuple(unscored),
        notes=(*notes, *_notes(rows, options, len(groups), unscored)),
    )


def parse_durations(text: str) -> tuple[Duration, ...]:
    """Durations in any of the notations `short,medium`, `short, medium`, `["short", "medium"]`.

    Raises:
        ScoringError: if a word is not a duration.
    """
    words = re.findall(r"\w+", text.lower())
    unknown = [word for word in words if word not in set(Duration)]
    if unknown or not words:
        near = get_close_matches(unknown[0], list(Duration), n=1) if unknown else []
        raise ScoringError(
            f"video durations {text!r}: "
            + (f"{unknown[0]!r} is not one of " if unknown else "name one or more of ")
            + ", ".join(Duration)
            + (f"; did you mean {near[0].value!r}?" if near else "")
        )
    return tuple(Duration(word) for word in words)


def _notes(
    rows: Sequence[ScoredQuestion],
    options: ScoreOptions,
    scored_groups: int,
    unscored: Sequence[UnscoredGroup],
) -> list[str]:
    notes = []
    outcomes = Counter(row.outcome for row in rows)
    if outcomes[Outcome.FAILED]:
        notes.append(
            f"{outcomes[Outcome.FAILED]} of {len(rows)} questions have no response. They are "
            "wrong in `accuracy` and left out of `accuracy_of_answered`; do not publish this score"
        )
    unjudged = sum(row.judge_error is not None for row in rows)
    if unjudged:
        notes.append(
            f"{unjudged} requests to the judge failed. Run again to repeat only those; do not "
            "publish this score"
        )
    if options.benchmark == V2:
        if scored_groups != GROUPS:
            notes.append(f"{scored_groups} complete groups, but the benchmark has {GROUPS}")
        notes += [f"video {group.video_id} is not scored: {group.reason}" for group in unscored]
        return notes
    videos: dict[Duration, set[str]] = {duration: set() for duration in Duration}
    for row in rows:
        if row.duration is not None:
            videos[row.duration].add(row.video_id)
    notes += [
        f"{len(videos[duration])} {duration} videos, but the benchmark has {VIDEOS_PER_DURATION}"
        for duration in dict.fromkeys(options.durations)
        if len(videos[duration]) != VIDEOS_PER_DURATION
    ]
    for column, known in (
        ("domain", DOMAINS),
        ("sub_category", SUB_CATEGORIES),
        ("task_type", TASK_TYPES),
    ):
        notes += _unknown_labels(rows, column, known)
    return notes


def _unknown_labels(rows: Sequence[ScoredQuestion], column: str, known: Sequence[str]) -> list[str]:
    found = Counter(getattr(row, column) for row in rows)
    notes = []
    for label, count in found.items():
        if label in known:
            continue
        near = get_close_matches(str(label), known, n=1)
        notes.append(
            f"{count} questions have the unknown {column} {label!r}"
            + (f" (did you mean {near[0]!r}?)" if near else "")
            + ": they count in the overall score, but in no line of the official report"
        )
    return notes
