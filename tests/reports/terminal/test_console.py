"""Text from outside on a terminal."""

import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.markup import escape

from videomme_pipeline.errors import printable
from videomme_pipeline.reports.terminal.console import PlainConsole
from videomme_pipeline.reports.terminal.runs import show_failed
from videomme_pipeline.reports.terminal.tables import show_line, show_rows

HOSTILE = "\x1b]0;title\x07\x1b[31mred\x9b2J\rback\x08\x7f\ud800 [bold]end"
SHOWN = "\\u001b]0;title\\u0007\\u001b[31mred\\u009b2J\\u000dback\\u0008\\u007f\\ud800 [bold]end"

PRINTS: dict[str, Callable[[Console], None]] = {
    "line": lambda console: show_line(console, HOSTILE, "Failed", "bold red"),
    "failure": lambda console: show_failed(console, [("partition", HOSTILE)]),
    "text": lambda console: console.print(HOSTILE, markup=False, soft_wrap=True),
    "markup": lambda console: console.print(f"[red]{escape(HOSTILE)}[/]", soft_wrap=True),
    "table": lambda console: show_rows(console, [{"a": HOSTILE}]),
}


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("what", PRINTS)
def test_no_escape_sequence_of_a_text_reaches_the_terminal(what: str, terminal: bool) -> None:
    sink = io.StringIO()
    PRINTS[what](PlainConsole(file=sink, width=120, force_terminal=terminal, no_color=True))
    printed = sink.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")  # styles of ours
    assert printed == printable(printed)
    assert "\\u001b[31mred\\u009b2J" in printed


def test_escaped_text_stays_readable_and_json_keeps_its_meaning() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("tab\tline\nÄ 视 🎬") == "tab\tline\nÄ 视 🎬"
    text = json.dumps({"key": HOSTILE}, ensure_ascii=False)
    assert json.loads(printable(text)) == {"key": HOSTILE}


def test_a_value_stays_in_its_cell_of_a_plain_table() -> None:
    sink = io.StringIO()
    show_rows(PlainConsole(file=sink), [{"a": "x\ty\nz", "b": 1}])
    assert sink.getvalue() == "a\tb\nx\\ty\\nz\t1\n"
