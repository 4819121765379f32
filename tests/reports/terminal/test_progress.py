"""Progress of long work, with what it waits for."""

import io

from rich.console import Console

from videomme_pipeline.reports.terminal.progress import PlainLines, progress_on


def test_a_wait_is_printed_once_and_at_once() -> None:
    sink = io.StringIO()
    with progress_on(Console(file=sink)) as show:
        show("served: responses", 1, 9)
        for done in (2, 3):
            show("served: responses", done, 9, wait="the endpoint asks for a pause of 40 s")
        show("served: responses", 9, 9)
    assert sink.getvalue().splitlines() == [
        "served: responses: 1 of 9",
        "served: responses: 2 of 9, the endpoint asks for a pause of 40 s",
        "served: responses: 9 of 9",
    ]


def test_a_bar_shows_a_wait() -> None:
    sink = io.StringIO()
    with progress_on(Console(file=sink, force_terminal=True, width=120)) as show:
        show("responses", 1, 9, failed=1, wait="a pause of 40 s")
    assert "responses, 0 answered, 1 failed, a pause of 40 s" in sink.getvalue()


def test_a_line_has_failures_and_the_time_left_at_the_recent_rate() -> None:
    written, now = list[str](), iter(range(0, 1000, 10))
    lines = PlainLines(written.append, clock=lambda: next(now))
    for done in (1, 2, 3, 4, 5, 6, 106):
        lines.show("served: responses", done, 1006, failed=done // 2)
    first, second, *_, last = written
    assert first == "served: responses: 1 of 1,006"
    counts = "served: responses: 2 of 1,006, 1 answered, 1 failed"
    assert second == f"{counts}, 0.1 per second, about 2.8 hours left"
    assert last.endswith("53 answered, 53 failed, 2.1 per second, about 7.2 min left")
