"""The interface of a results-file format."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import accuracy_of
from videomme_pipeline.scoring.statistics.estimates import Estimate, ScoreInterval

Row = Mapping[str, Any]
"""One object of a results file: a question, or a video with its questions."""


class TableRow(dict[str, Any]):
    """A row of a CSV or TSV file or of a workbook, whose cells are texts."""


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """`value` if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def objects_in(values: Iterable[object] | None) -> list[Row]:
    """The objects among `values`, such as the samples of a log."""
    return [value for value in values or () if isinstance(value, Mapping)]


def json_lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsFormat:
    """One format: a name on the command line, and the functions that read and write files.

    `recognizes(row)` returns True for an object of a file in this format. `read(row)` returns the
    questions in one object: rows with the columns of the published dataset and the model's text
    (`prediction`). A row without options is completed from the annotations, by `question_id` or
    else by `doc_id`, the number of the question in the dataset. `repeat` is the number of the
    repeat, from 0. `copy` numbers the texts of a file that does not say whether they are repeats.

    `has_letters` is True if all right answers are letters, so that no options are needed.

    `rows(questions, answers)` returns the rows of a written file, or is None if the format is only
    read. `answers` are scored rows by question id, possibly not for all questions. `text(rows)`
    returns the text of the file, and `suffix` is its usual ending.
    """

    name: str
    recognizes: Callable[[Row], bool]
    read: Callable[[Row], Iterable[Row]]
    has_letters: bool = False
    rows: Callable[[Sequence[Question], Mapping[str, ScoredQuestion]], Sequence[Row]] | None = None
    text: Callable[[Sequence[Row]], str] = json_lines
    suffix: str = ".jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResults:
    """An evaluation to be published: questions, the rows of all repeats, and settings."""

    questions: Sequence[Question]
    rows: Sequence[ScoredQuestion]
    settings: Mapping[str, object]
    not_citable: str = ""

    @property
    def benchmark(self) -> Benchmark:
        return find_benchmark(self.rows[0].benchmark)

    @property
    def accuracy(self) -> tuple[Estimate, ScoreInterval]:
        """The accuracy of all questions, and its interval.

        Raises:
            ScoringError: if no question was answered, so there is nothing to publish.
        """
        accuracy = accuracy_of(self.rows)
        if accuracy is None:
            raise ScoringError(
                f"{self.rows[0].evaluation}: none of {len(self.rows):,} requests was answered, so "
                "there is no accuracy; run the evaluation again"
            )
        return accuracy

    @property
    def coverage(self) -> str:
        """The number of questions: "2,700 of 2,700 questions on 900 videos, asked once"."""
        asked = len({row.question_id for row in self.rows})
        videos = len({row.video_id for row in self.rows})
        size = self.benchmark.size.questions
        of_all = f"{asked:,}" if size is None else f"{asked:,} of {size:,}"
        repeats = 1 + max(row.repeat for row in self.rows)
        times = "once" if repeats == 1 else f"{repeats} times"
        return f"{of_all} questions on {videos:,} videos, asked {times}"

    @property
    def answered_at(self) -> datetime | None:
        """The time of the last answer, or None if it is not known."""
        times = [row.served.answered_at for row in self.rows if row.served.answered_at]
        return max(times, default=None)
