"""Tables on a terminal."""

import io
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from videomme_pipeline.reports.terminal.console import PlainConsole
from videomme_pipeline.reports.terminal.tables import interval, percent, show_line, show_rows


def test_numbers_are_right_aligned() -> None:
    sink = io.StringIO()
    rows = [
        {"name": "a", "share": percent(0.05), "interval": interval(0.01, 0.09)},
        {"name": "b", "share": percent(1.0), "interval": interval(0.95, 1.0)},
    ]
    show_rows(
        Console(file=sink, force_terminal=True, width=80, no_color=True),
        rows,
        {"interval": "95% CI"},
    )
    lines = [line.rstrip() for line in sink.getvalue().splitlines()]
    assert lines[1:] == ["a       5.0%     1.0–9.0", "b     100.0%  95.0–100.0"]


SCORES = [
    {
        "benchmark": "smoke",
        "evaluation": name,
        "questions": 72,
        "accuracy": percent(share),
        "interval": interval(share - 0.1, share + 0.1),
        "of answered": percent(share),
        "group score": "",
        "unreadable": 0,
        "failed": 0,
        "citation": "ok",
        "because": "the prompts of twelve questions changed",
    }
    for name, share in (("smoke-embedded-subtitles", 0.64), ("smoke-blind", 0.31))
]
WORDS = {word for row in SCORES for value in row.values() for word in str(value).split()}


def lines_at(width: int, rows: Sequence[Mapping[str, object]] = SCORES) -> list[str]:
    sink = io.StringIO()
    console = PlainConsole(file=sink, force_terminal=True, width=width, color_system=None)
    show_rows(console, rows)
    return [line.rstrip() for line in sink.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_name_and_no_number_is_broken_at_any_width(width: int) -> None:
    lines = lines_at(width)
    assert max(map(len, lines)) <= width
    assert WORDS - {""} <= set(" ".join(lines).replace(",", "").split())


def test_a_wide_table_has_one_line_per_row_without_empty_columns() -> None:
    header, *rows = lines_at(200)
    assert len(rows) == len(SCORES)
    assert "group score" not in header
    assert "benchmark" in header


def test_values_that_all_rows_share_are_printed_once_if_a_table_is_too_wide() -> None:
    text = " ".join(lines_at(100))
    assert "benchmark " not in text.partition("In all rows: ")[0]
    assert "In all rows: benchmark smoke, questions 72, unreadable 0, failed 0" in text


def test_wide_tables_wrap_into_a_second_table_with_row_labels() -> None:
    lines = lines_at(40, [{"name": "a", **{f"column {i}": "some words" for i in range(4)}}])
    assert [line.split()[0] for line in lines if line.startswith(("name", "a "))] == [
        "name",
        "a",
        "name",
        "a",
    ]


def test_long_messages_are_wrapped_at_spaces_and_paths_stay_whole() -> None:
    sink = io.StringIO()
    path = "/a/long/path/" + "folder/" * 12 + "file.mp4"
    console = PlainConsole(file=sink, force_terminal=True, width=40, color_system=None)
    show_line(console, f"these words do not fit on one line together with {path}", "Failed", "red")
    lines = sink.getvalue().splitlines()
    assert path in lines
    assert all(len(line) <= 40 for line in lines if line != path)
    assert " ".join(line.strip() for line in lines).startswith("Failed these words do not fit on")
