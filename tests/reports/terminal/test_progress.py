"""Progress of long work, with what it waits for."""

import io

from rich.console import Console

from videomme_pipeline.reports.terminal.progress import ProgressLines


def test_a_wait_is_printed_once_and_at_once() -> None:
    sink = io.StringIO()
    with ProgressLines(Console(file=sink)) as lines:
        lines.show("served: responses", 1, 9)
        for done in (2, 3):
            lines.show("served: responses", done, 9, "the endpoint asks for a pause of 40 s")
        lines.show("served: responses", 9, 9)
    assert sink.getvalue().splitlines() == [
        "served: responses: 1 of 9",
        "served: responses: 2 of 9, the endpoint asks for a pause of 40 s",
        "served: responses: 9 of 9",
    ]


def test_a_bar_shows_a_wait() -> None:
    sink = io.StringIO()
    with ProgressLines(Console(file=sink, force_terminal=True, width=120)) as lines:
        lines.show("responses", 1, 9, "a pause of 40 s")
    assert "responses, a pause of 40 s" in sink.getvalue()
