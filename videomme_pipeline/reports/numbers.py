"""Numbers of the page, from the views of the warehouse and from `scoring`.

No score is computed here. All rates are fractions of one, group scores too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import duckdb

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet, FacetValue, Measure
from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.models.identity import public_server, public_settings
from videomme_pipeline.reports.document import Json, rounded
from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.scoring.findings.run import CITATION_STATUSES
from videomme_pipeline.scoring.scored_question import (
    ScoredQuestion,
    apart,
    is_with_audio,
    is_with_subtitles,
)
from videomme_pipeline.warehouse.database import query

MAX_PARTS = 4
"""Facets with up to this many declared values have one number per value next to the score."""


@dataclass(frozen=True)
class Numbers:
    """Rows of the views of one benchmark, for the evaluations on the page."""

    connection: duckdb.DuckDBPyConnection
    benchmark: Benchmark
    questions: Sequence[Question]
    shown: Sequence[ScoredEvaluation]

    @cached_property
    def index(self) -> dict[str, int]:
        return {evaluation.name: index for index, evaluation in enumerate(self.shown)}

    def evaluations(self) -> list[Json]:
        """One entry per evaluation, ordered by `index`."""
        board = {row["evaluation"]: row for row in self.view("leaderboard")}
        parts, means, repeats = self._parts(), self._means(), self._repeats()
        findings = [row for row in self.view("citation_findings") if row["status"] != "ok"]
        findings.sort(key=lambda row: (CITATION_STATUSES.index(row["status"]), row["check_name"]))
        return [
            _scores(board[evaluation.name])
            | _about(index, evaluation)
            | {
                "parts": parts[evaluation.name],
                "mean": means.get(evaluation.name),
                "findings": [row for row in findings if row["evaluation"] == evaluation.name],
                "repeats": repeats.get(evaluation.name),
            }
            for index, evaluation in enumerate(self.shown)
        ]

    def mean_title(self) -> str | None:
        """Title of the headline metric if it is a mean over the values of a facet."""
        facet = self.benchmark.mean_of
        if facet is None:
            return None
        return f"Mean over {self.benchmark.facet(facet).title.lower()} (%)"

    def _means(self) -> dict[str, Json]:
        """The headline score of each evaluation if it is a mean over the values of a facet."""
        rows = self.view(self.benchmark.headline) if self.benchmark.mean_of else []
        return {row["evaluation"]: interval(row, "accuracy") for row in rows}

    def _repeats(self) -> dict[str, Json]:
        passed: dict[str, list[Json]] = defaultdict(list)
        for row in self.view("pass_at_k"):
            counts = {key: row[key] for key in ("k", "questions", "all_questions")}
            passed[row["evaluation"]].append(counts | interval(row, "pass_at_k"))
        return {
            row["evaluation"]: {
                "count": row["repeats"],
                "flip_rate": interval(row, "flip_rate"),
                "majority_vote": interval(row, "majority_vote"),
                "pass_at_k": passed[row["evaluation"]],
            }
            for row in self.view("repeats")
        }

    def part_columns(self) -> list[tuple[str, str]]:
        """Key and title of one column per value of the first facet (short, medium, long)."""
        return [
            (facet.part(value), facet.show(value).capitalize())
            for facet in self._short_facets()[:1]
            if facet.measure is Measure.ACCURACY
            for value in facet.values or ()
        ]

    def breakdowns(self) -> list[Json]:
        """One entry per facet of the questions, with one cell per value and evaluation."""
        return [
            {"key": facet.column, "title": facet.title, "measure": facet.measure, "rows": rows}
            for facet in self.benchmark.shown_facets
            if (rows := self._rows(facet.view, [facet], facet.measure))
        ]

    def crossed(self) -> list[Json]:
        """One entry per crossing of two facets."""
        entries = []
        for columns in self.benchmark.crossings:
            facets = first, second = [self.benchmark.facet(column) for column in columns]
            key = f"{first.column}_and_{second.column}"
            title = f"{first.title} × {second.title.lower()}"
            rows = self._rows(f"by_{key}", facets, Measure.ACCURACY)
            entries.append({"key": key, "title": title, "second_title": second.title, "rows": rows})
        return [entry for entry in entries if entry["rows"]]

    def tracks(self) -> list[Json]:
        """Effect of subtitles: pairs of evaluations that differ only in the track."""
        order = ["all", *Duration]
        pairs: dict[tuple[int, int], list[Json]] = defaultdict(list)
        rows = self.view("track_against_track")
        for row in sorted(rows, key=lambda row: order.index(row["duration"])):
            pair = row["with_subtitles"], row["without_subtitles"]
            if self.index.keys() >= {*pair}:
                of_all = row["duration"] == "all"
                difference = interval(row, "difference")
                pairs[self.index[pair[0]], self.index[pair[1]]].append(
                    {
                        "by": "" if of_all else "Duration",
                        "value": "All questions" if of_all else row["duration"],
                        "n": row["responses"],
                        "difference": difference.pop("value"),
                        **difference,
                    }
                )
        return [
            {"with": with_, "without": without, "rows": differences}
            for (with_, without), differences in sorted(pairs.items())
        ]

    def view(self, name: str) -> list[Json]:
        """Rows of a view for this benchmark and these evaluations."""
        select = f'select * from "{name}" where benchmark = ? order by all'
        rows = query(self.connection, select, [self.benchmark.name])
        shown = [row for row in rows if row.get("evaluation") in {None, *self.index}]
        for row in shown:
            for facet in self.benchmark.facets:
                # The column is text if another benchmark has texts in a facet of this name.
                if row.get(facet.column) is not None:
                    row[facet.column] = facet.kind(row[facet.column])
        return shown

    def _short_facets(self) -> list[Facet]:
        return [
            facet
            for facet in self.benchmark.shown_facets
            if facet.values is not None and len(facet.values) <= MAX_PARTS
        ]

    def _parts(self) -> dict[str, Json]:
        parts: dict[str, Json] = defaultdict(dict)
        for facet in self._short_facets():
            for row in self.view(facet.view):
                score = interval(row, facet.measure.value)["value"]
                parts[row["evaluation"]][facet.part(row[facet.column])] = score
        return parts

    def _rows(self, view: str, facets: Sequence[Facet], measure: Measure) -> list[Json]:
        """One row per value of a facet, or pair of values, with one cell or None per evaluation."""
        cells: dict[tuple[FacetValue, ...], list[Json | None]] = {}
        for row in self.view(view):
            key = tuple(row[facet.column] for facet in facets)
            row_cells = cells.setdefault(key, [None] * len(self.shown))
            row_cells[self.index[row["evaluation"]]] = _cell(row, measure)
        ordered = [key[::-1] for key in product(*map(self._values, reversed(facets)))]
        return [
            {
                "values": [facet.show(value) for facet, value in zip(facets, key, strict=True)],
                "filter": str(key[0]),
                "cells": cells[key],
            }
            for key in ordered
            if key in cells
        ]

    def _values(self, facet: Facet) -> list[FacetValue]:
        """Values of a facet in the declared order, or else in the order of the dataset."""
        values = dict.fromkeys(
            q.facets[facet.column] for q in self.questions if facet.column in q.facets
        )
        return list(values) if facet.values is None else sorted(values, key=facet.order)


def question_columns(benchmark: Benchmark, questions: Sequence[Question]) -> Json:
    """The questions by column, with every facet that some question has."""
    columns: Json = {
        "id": [question.question_id for question in questions],
        "video": [question.video_id for question in questions],
        "answer": [question.answer.value for question in questions],
    }
    for facet in benchmark.shown_facets:
        values = [question.facets.get(facet.column) for question in questions]
        if any(value is not None for value in values):
            columns[facet.column] = values
    return columns


def answer_cells(questions: Sequence[Question], rows: Iterable[ScoredQuestion]) -> list[str]:
    """Outcome and letter of each question: "cB" is correct with letter B, "u" is unreadable.

    Repeats are separated by spaces. A question that was not asked is "".
    """
    words: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.repeat):
        letter = row.extracted_answer.value if row.extracted_answer else ""
        words[row.question_id].append(f"{row.outcome.value[0]}{letter}")
    return [" ".join(words[question.question_id]) for question in questions]


def chance(questions: Sequence[Question]) -> float | None:
    """Expected accuracy of random guessing, or None without questions."""
    if not questions:
        return None
    return sum(1 / len(question.options) for question in questions) / len(questions)


def _flat(specification: Mapping[str, Any], path: str = "") -> Json:
    """`specification` with keys such as `sampling.frames`, without limits of local models."""
    flat: Json = {}
    for key, value in specification.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{path}{key}.")
        elif not path.startswith("model.limits."):
            flat[f"{path}{key}"] = value
    return flat


def _about(index: int, evaluation: ScoredEvaluation) -> Json:
    """Properties of an evaluation.

    `pairing` is equal for evaluations that differ only in their subtitles, and `frames_family`
    for evaluations that differ only in their sampling.
    """
    first, specification = evaluation.rows[0], evaluation.specification
    template = specification.get("template") or {}
    has_subtitles, has_audio = is_with_subtitles(first.track), is_with_audio(first.track)
    reasons = apart(first.track)
    plain = "with" if has_subtitles else "none"
    track = evaluation.alignment.name if evaluation.alignment else plain
    return {
        "index": index,
        "name": evaluation.name,
        "fingerprint": first.evaluation_fingerprint,
        "subtitles": has_subtitles,
        "audio": has_audio,
        "chosen": "chosen" in reasons,
        "conversation": "conversation" in reasons,
        "track": ", ".join((track, *["audio"] * has_audio, *reasons)),
        "template": template.get("name"),
        "baseline": first.sampling == "none",  # a blind model or a guess
        "input_key": evaluation.input_key,
        "pairing": _family(evaluation, "alignment"),
        "frames_family": _family(evaluation, "sampling"),
        "spec": _flat(specification),
        "public_spec": _flat(public_settings(specification)),
    }


def _family(evaluation: ScoredEvaluation, leaving_out: str) -> str:
    if not evaluation.specification:
        return evaluation.name
    kept = {k: v for k, v in evaluation.specification.items() if k != leaving_out}
    return fingerprint(kept)


def _scores(row: Mapping[str, Any]) -> Json:
    scores = {
        key: _fraction(key, value) if isinstance(value, float) else value
        for key, value in row.items()
    }
    return scores | {
        "frames": rounded(row["frames"], digits=1),
        "answered_at": row["answered_at"] and row["answered_at"].isoformat(timespec="seconds"),
        "servers": [public_server(server) for server in row["servers"] or ()],
    }


def _cell(row: Mapping[str, Any], measure: Measure) -> Json:
    return {
        "n": row["groups" if measure is Measure.GROUP_SCORE else "questions"],
        "videos": row["videos"],
        **interval(row, measure.value),
        "unreadable": row["unreadable"],
        "failed": row["failed"],
    }


def interval(row: Mapping[str, Any], column: str) -> Json:
    """An estimate of a view with its 95% CI, as fractions."""
    bounds = {"value": column, "low": f"{column}_low", "high": f"{column}_high"}
    return {key: _fraction(name, row[name]) for key, name in bounds.items()}


def _fraction(column: str, value: float | None) -> float | None:
    """A rounded value of a view. Group scores of a view are from 0 to 100."""
    return rounded(value, 100 if column.startswith("group_score") else 1)
