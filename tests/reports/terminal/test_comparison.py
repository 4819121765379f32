"""`videomme compare` prints the numbers of the comparison, in the right unit."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.support.made_up_results import (
    MadeUpEvaluation,
    store_evaluation,
    store_questions,
    v1_questions,
    v2_questions,
)
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.reports.terminal.comparison import marginal_rows, show_comparison
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import Comparison, compare
from videomme_pipeline.scoring.statistics.estimates import p_value_text
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows


def compared(store: Store, questions: list[Question]) -> Comparison:
    store_questions(store, questions)
    benchmark = questions[0].benchmark
    for name, skill in (("good", 0.9), ("bad", 0.3)):
        store_evaluation(store, questions, MadeUpEvaluation(name=name, skill=skill), texts=False)
    good, bad = (
        read_rows(store.scores(benchmark, name), ScoredQuestion) for name in ("good", "bad")
    )
    return compare(good, bad)


@pytest.fixture(scope="module")
def v1(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compared(Store.at(tmp_path_factory.mktemp("v1")), v1_questions(30))


def printed(comparison: Comparison, *, terminal: bool) -> str:
    sink = io.StringIO()
    show_comparison(Console(file=sink, force_terminal=terminal, width=120), comparison)
    return sink.getvalue()


def test_the_first_lines_have_the_difference_and_its_significance(v1: Comparison) -> None:
    mean = 100 * v1.accuracy.difference.mean
    assert f"Accuracy B − A  significant: {mean:+.1f} points (95% CI " in printed(
        v1, terminal=False
    )


def test_questions_with_answers_of_only_one_side_are_counted(v1: Comparison) -> None:
    assert "Only answers that both have" not in printed(v1, terminal=False)
    part = replace(v1, only_a=("001-1", "001-2"))
    assert "A has other answers to 2 questions, B to 0" in printed(part, terminal=False)


def test_rows_are_ordered_by_breakdown_and_size_of_difference(
    v1: Comparison,
) -> None:
    rows = marginal_rows(v1)
    columns = list(dict.fromkeys(row["by"] for row in rows))
    assert columns == ["duration", "domain", "sub_category", "task_type"]
    sizes = [abs(float(row["difference"])) for row in rows if row["by"] == "domain"]
    assert sizes == sorted(sizes, reverse=True)


def test_group_scores_are_in_points_from_0_to_100(tmp_path_factory: pytest.TempPathFactory) -> None:
    comparison = compared(Store.at(tmp_path_factory.mktemp("v2")), v2_questions(24))
    marginals = {(m.column, m.value): m for m in comparison.marginals}
    for row in marginal_rows(comparison):
        assert float(row["a"]) == pytest.approx(
            marginals[row["by"], row["value"]].accuracy_a, abs=0.051
        )
        assert 0 <= float(row["a"]) <= 100
        assert abs(float(row["difference"])) <= 100
    assert comparison.group_score is not None
    mean = comparison.group_score.difference.mean
    assert f"significant: {mean:+.1f} points" in printed(comparison, terminal=False)


def test_output_is_tab_separated_in_a_pipe_and_a_table_on_a_terminal(v1: Comparison) -> None:
    piped, shown = printed(v1, terminal=False), printed(v1, terminal=True)
    assert "\x1b" not in piped
    assert (
        "by\tvalue\ta\tb\tdifference\tinterval\tn\tp_value\tadjusted_p_value\tsignificant" in piped
    )
    lines = [line.split("\t") for line in piped.splitlines()]
    header = next(line for line in lines if "p_value" in line)
    rows = {(line[0], line[1]): dict(zip(header, line, strict=True)) for line in lines[-51:]}
    for marginal in v1.marginals:
        row = rows[marginal.column, marginal.value]
        assert row["p_value"] == p_value_text(marginal.difference.p_value)
        assert row["adjusted_p_value"] == p_value_text(marginal.adjusted_p_value)
    assert "\x1b[1m" in shown
    assert "\t" not in shown


def test_the_test_decides_if_the_interval_says_something_else(v1: Comparison) -> None:
    accuracy = replace(v1.accuracy, p_value=0.07)
    shown = printed(replace(v1, accuracy=accuracy), terminal=False)
    (line,) = (line for line in shown.splitlines() if line.startswith("Accuracy B − A"))
    assert line.startswith("Accuracy B − A  not significant: ")
    assert line.endswith("; the test (p) decides, because the interval is an approximation")
    assert "decides" not in printed(v1, terminal=False)
