"""Tables on a terminal."""

import io

from rich.console import Console

from videomme_pipeline.reports.terminal.tables import interval, percent, show_rows


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
