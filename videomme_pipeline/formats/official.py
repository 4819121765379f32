"""The official evaluators' results files, and the reports that their scripts print.

v1: the published template, a list of videos with their questions. The report equals that of
`eval_your_results.py` (thanku-all/parse_answer at afd52cf), byte for byte: accuracy is correct /
answered, where a response without a letter is not answered. A label without answers has 0.0.
v2: the dataset's rows with `prediction`. The report equals that of
`evaluation/test_video_mme_v2.py` (MME-Benchmarks/Video-MME-v2 at b24176a), without the two lines
that name the files which that script saved.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from videomme_pipeline.benchmarks.facets import Facet
from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import group_by_video
from videomme_pipeline.formats.dataset_rows import dataset_row, raw_text
from videomme_pipeline.formats.results_format import ResultsFormat, Row, mapping_or_empty
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.groups import GroupScore

_WIDE = "=" * 37
_THIN = "-" * 37
TABLES: Mapping[str, str] = {
    "domain": "Video Categories",
    "sub_category": "Video Sub Categories",
    "task_type": "Task Categories",
}
"""The titles of the tables that the official v1 report may contain, by facet."""

Rating = Mapping[str, Mapping[str, float]]
"""Mean group scores (0 to 100) by the keys of the official file: `final_rating`, and
`second_head_rating` and `third_head_rating` by head, in order of first appearance."""


def _read(video: Row) -> list[Row]:
    """One row per question."""
    shared = {key: value for key, value in video.items() if key != "questions"}
    questions = video.get("questions")
    entries = questions if isinstance(questions, list) else ()
    return [{**shared, **mapping_or_empty(entry)} for entry in entries]


def _rows(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]) -> list[Row]:
    """The v2 dataset's rows with predictions, or the v1 template.

    Questions of v2 without an answer are left out. A video of v1 without any answer is marked
    missing.
    """
    benchmark = find_benchmark(questions[0].benchmark)
    if benchmark.grouping is not None:
        return [
            dataset_row(question) | {"prediction": raw_text(answers[question.question_id])}
            for question in questions
            if question.question_id in answers
        ]
    of_a_video = [facet.column for facet in benchmark.published_facets if facet.of_video]
    of_a_question = [facet.column for facet in benchmark.published_facets if not facet.of_video]
    return [
        {
            "video_id": video_id,
            **{column: of_video[0].facets.get(column) for column in of_a_video},
            "missing": not any(question.question_id in answers for question in of_video),
            "questions": [
                {
                    "question_id": question.question_id,
                    **{column: question.facets.get(column) for column in of_a_question},
                    "question": question.question,
                    "options": list(question.options),
                    "answer": question.answer,
                    "response": raw_text(answers.get(question.question_id)),
                }
                for question in of_video
            ],
        }
        for video_id, of_video in group_by_video(questions).items()
    ]


FORMAT = ResultsFormat(
    name="official",
    recognizes=lambda row: "questions" in row,
    read=_read,
    rows=_rows,
    text=lambda rows: json.dumps(rows, indent=4, ensure_ascii=False) + "\n",
)


def official_report(
    rows: Sequence[ScoredQuestion], durations: Sequence[Duration], columns: Collection[str] = ()
) -> str:
    """The text that the official script prints for `rows`, with tables by the facets `columns`.

    There is one section per entry of `durations`, in the same order, also for repeated entries.
    The last section covers all durations.
    """
    parts = [[row for row in rows if row.facets.get("duration") == value] for value in durations]
    facets = find_benchmark(rows[0].benchmark).facets if rows else ()
    tables = [facet for column in TABLES for facet in facets if facet.column == column in columns]
    text = ""
    for duration, part in zip(durations, parts, strict=True):
        text += _section(f"video Type: {duration}", part, tables, TABLES) + "\n\n"
    titles = {**TABLES, "domain": "Video Domains"}
    return text + _section("the entire dataset", [*chain(*parts)], tables, titles)


def _section(
    title: str, rows: Sequence[ScoredQuestion], tables: Sequence[Facet], titles: Mapping[str, str]
) -> str:
    lines = [_WIDE, f"Evaluation on {title}", _WIDE]
    for facet in tables:
        lines += [_THIN, titles[facet.column], _THIN]
        for value in facet.values or ():
            of_value = [row for row in rows if row.facets.get(facet.column) == value]
            lines.append(f"{value}: {_percent(of_value): .1f}%")
    lines += [_THIN, "Overall Performance", _THIN, f"Overall: {_percent(rows): .1f}%", ""]
    return "\n".join(lines)


def rating(groups: Sequence[GroupScore]) -> Rating:
    """Mean scores over `groups`, which must belong to one evaluation and one repeat.

    `final_rating` has `level_1`…`level_3`, `relevance_score`, `relevance_linear_score`,
    `logic_score` and `total`. A part without groups is 0.0, as in the official file.
    """
    by_level, by_type = _mean_by(groups, "level"), _mean_by(groups, "group_type")
    linear = [g.linear_score for g in groups if g.facets.get("group_type") == "relevance"]
    final = {
        "relevance_score": by_type.get("relevance", 0.0),
        "relevance_linear_score": fmean(linear or [0.0]),
        "logic_score": by_type.get("logic", 0.0),
        "total": fmean([group.score for group in groups] or [0.0]),
    }
    return {
        "final_rating": {f"level_{n}": by_level.get(n, 0.0) for n in (1, 2, 3)} | final,
        "second_head_rating": _mean_by(groups, "second_head"),
        "third_head_rating": _mean_by(groups, "third_head"),
    }


def _mean_by(groups: Sequence[GroupScore], column: str) -> dict[Any, float]:
    """Mean score by the values of a facet, in order of first appearance."""
    scores: dict[Any, list[float]] = defaultdict(list)
    for group in groups:
        if column in group.facets:
            scores[group.facets[column]].append(group.score)
    return {value: fmean(of_value) for value, of_value in scores.items()}


def official_v2_report(rows: Sequence[ScoredQuestion], rating: Rating) -> str:
    """The text that the official v2 script prints for `rows` with this `rating`.

    "Simple accuracy" is over the responses from which a letter was read, and 0 without any.
    """
    outcomes = Counter(row.outcome for row in rows)
    lines = [
        f"Total: {outcomes.total()}, no prediction: {outcomes[Outcome.FAILED]}, "
        f"failed to extract: {outcomes[Outcome.UNREADABLE]}",
        f"Simple accuracy (valid only): {_percent(rows):.2f}%",
    ]
    for title, scores in zip(("Metric", "Second Head", "Third Head"), rating.values(), strict=True):
        lines += ["", f"{title:<30} {'Score':>8}", "-" * 40]
        lines += [f"{name:<30} {score:>8.2f}" for name, score in scores.items()]
    return "\n".join(lines) + "\n"


def _percent(rows: Sequence[ScoredQuestion]) -> float:
    correct = sum(row.outcome is Outcome.CORRECT for row in rows)
    answered = correct + sum(row.outcome is Outcome.INCORRECT for row in rows)
    return 100 * correct / answered if answered else 0.0
