"""The headline scores of several benchmarks side by side."""

from typing import Any

from rich.console import Console

from videomme_pipeline.reports.across import across_rows, with_settings
from videomme_pipeline.reports.terminal.runs import show_across


def cell(
    model: str, benchmark: str, score: float, questions: int = 10, **specification: Any
) -> dict[str, Any]:
    settings = {"model": model, "sampling": "none", "track": "without_subtitles", "reader": "r"}
    row = settings | {
        "benchmark": benchmark,
        "evaluation": f"{model}-{benchmark}",
        "answered_at": None,
        "repeats": 1,
        "score": score,
        "metric": "accuracy",
        "questions": questions,
        "benchmark_questions": 10,
        "complete": questions == 10,
        "failed": 0,
    }
    return with_settings(row, specification)


CELLS = [
    cell("a", "one", 0.5),
    cell("a", "two", 0.7),
    cell("b", "one", 0.6, questions=4),
]


def test_a_missing_cell_is_missing() -> None:
    first, second = across_rows(CELLS, ["one", "two"])
    assert (first["model"], second["scores"]["two"]) == ("a", None)


def test_a_score_of_a_part_shows_how_many_questions(capsys: Any) -> None:
    show_across(Console(), across_rows(CELLS, ["one", "two"]))
    _, _, second = capsys.readouterr().out.splitlines()
    assert second.split("\t")[-2:] == ["60.0% (4 of 10) b-one", "–"]


def test_no_evaluation_is_dropped() -> None:
    others = [
        cell("a", "one", 0.9, template={"name": "one.authors"}),
        cell("a", "two", 0.8, template={"name": "two.authors"}),
        cell("a", "one", 0.1, generation={"temperature": 0.7}),
        cell("a", "one", 0.4, questions=5),
    ]
    rows = across_rows([*CELLS, *others], ["one", "two"])
    scores = [[cell and cell["score"] for cell in row["scores"].values()] for row in rows]
    assert sorted(scores, key=str) == sorted(
        [[0.5, 0.7], [0.9, 0.8], [0.1, None], [0.4, None], [0.6, None]], key=str
    )
    assert {row["generation"] for row in rows} == {"default", "temperature 0.7"}
    assert {row["prompt"] for row in rows} == {"", "authors"}
