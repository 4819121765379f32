"""The two consoles, and output as text or JSON."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

from videomme_pipeline.errors import printable
from videomme_pipeline.reports.terminal.console import PlainConsole

out = PlainConsole()
err = PlainConsole(stderr=True)


def note(text: str) -> None:
    """Print one unwrapped line of plain text on standard error."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def announce(text: str) -> None:
    """Tell a user at a terminal what a command does, before it imports what it needs."""
    if err.is_terminal:
        note(text)


def print_json(value: Any) -> None:
    """Print `value` on standard output as indented JSON."""
    write(json.dumps(value, indent=2, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def show(value: Any, show_text: Callable[[PlainConsole, Any], None], *, as_json: bool) -> None:
    """Print `value` as JSON or, with `show_text`, as text."""
    if as_json:
        print_json(value)
    else:
        show_text(out, value)


def write(text: str) -> None:
    """Write printable text on standard output, without changing its lines."""
    sys.stdout.write(printable(text))
