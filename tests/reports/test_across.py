"""The headline scores of several benchmarks side by side."""

from typing import Any

from rich.console import Console

from videomme_pipeline.reports.across import across_rows
from videomme_pipeline.reports.terminal.across import show_across


def cell(model: str, benchmark: str, score: float | None, questions: int = 10) -> dict[str, Any]:
    settings = {"model": model, "sampling": "none", "track": "without_subtitles", "reader": "r"}
    return settings | {
        "benchmark": benchmark,
        "score": score,
        "questions": questions,
        "benchmark_questions": 10,
        "complete": questions == 10,
        "failed": 0,
    }


CELLS = [
    cell("a", "one", 0.5),
    cell("a", "two", 0.7),
    cell("b", "one", 0.6, questions=4),
    cell("b", "two", None),
]


def test_a_missing_cell_is_missing_and_there_is_no_average_unless_requested() -> None:
    first, second = across_rows(CELLS, ["one", "two"], average=False)
    assert (first["model"], second["scores"]["two"]) == ("a", None)
    assert "average" not in first
    first, second = across_rows(CELLS, ["one", "two"], average=True)
    assert (first["average"], second["average"]) == (0.6, None)


def test_a_score_of_a_part_shows_how_many_questions(capsys: Any) -> None:
    show_across(Console(), across_rows(CELLS, ["one", "two"], average=False))
    _, _, second = capsys.readouterr().out.splitlines()
    assert second.split("\t")[-2:] == ["60.0% (4 of 10)", "–"]
