"""The runs of an evaluation as arrays."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.scored_rows import group_of, scored
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.nightly.history import history_of
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

CORRECT, INCORRECT, UNREADABLE, FAILED = Outcome
QUESTIONS = ("001-1", "001-2", "002-1")


def run(answers: str) -> list[ScoredQuestion]:
    """One letter per question: A is right, ? is unreadable, - has failed."""
    outcomes = {"A": CORRECT, "?": UNREADABLE, "-": FAILED}
    return [
        scored(
            question,
            outcomes.get(answer, INCORRECT),
            extracted_answer=Letter(answer) if answer.isalpha() else None,
            domain="Knowledge" if question == "001-1" else None,
        )
        for question, answer in zip(QUESTIONS, answers, strict=True)
    ]


RUNS = [run("AB?"), run("AC-"), run("BBA")]


def test_answers_are_counted_by_run_and_video() -> None:
    history, runs = history_of(RUNS), range(3)
    assert history.wrong(runs).tolist() == [[1, 1], [1, 1], [2, 0]]
    assert history.wrong([2, 0]).tolist() == [[2, 0], [1, 1]]
    assert history.unreadable(runs).tolist() == [[0, 1], [0, 0], [0, 0]]
    assert history.complete.tolist() == [[True, True], [True, False], [True, True]]


def test_an_answer_is_unusual_if_another_one_is_more_frequent() -> None:
    assert history_of(RUNS).unusual(range(3)).tolist() == [[0, 0], [1, 0], [1, 0]]
    assert history_of(RUNS).unusual([0, 1]).tolist() == [[0, 0], [0, 0]]


def test_columns_are_selected_by_facet() -> None:
    history = history_of(RUNS)
    labels = history.labels["domain"]
    assert labels.tolist() == ["Knowledge", "", ""]
    assert history.wrong(range(3), labels == "Knowledge").tolist() == [[0, 0], [0, 0], [1, 0]]


def two_repeats(
    first: Sequence[Outcome], second: Sequence[Outcome], *, video_id: str
) -> list[ScoredQuestion]:
    return [
        row
        for repeat, outcomes in enumerate((first, second))
        for row in group_of(outcomes, "4", video_id, repeat=repeat)
    ]


def test_a_group_is_whole_if_all_its_repeats_were_answered() -> None:
    """Half of the answers of a relevance group are a quarter of its points."""
    right, half, failed = [CORRECT] * 4, [CORRECT, CORRECT, INCORRECT, INCORRECT], [FAILED] * 4
    runs = [
        [*two_repeats(half, right, video_id="001"), *two_repeats(half, half, video_id="002")],
        [*two_repeats(right, right, video_id="001"), *two_repeats(failed, right, video_id="002")],
    ]
    history = history_of(runs)
    assert history.most_missed == 2 * 240
    assert history.missed_points([0, 1]).tolist() == [[180, 360], [0, 240]]
    assert history.whole_groups.tolist() == [[True, True], [True, False]]
    assert history.has_groups
    assert not history_of(RUNS).has_groups


def test_a_video_may_be_missing_in_the_reference() -> None:
    history = history_of([run("AAA")[:2], run("AAA")])
    assert np.array_equal(history.complete, [[True, False], [True, True]])


def test_a_history_needs_a_reference() -> None:
    without: list[list[list[ScoredQuestion]]] = [[], [[]], [[], run("AAA")]]
    for runs in without:
        with pytest.raises(ScoringError, match=r"^a nightly run needs a reference .* first$"):
            history_of(runs)
