"""Consoles that escape control characters in untrusted text."""

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and line feed, and characters that cannot be encoded."""


def printable(text: str) -> str:
    r"""`text` with an escape such as `\u001b` for each character that a terminal would act on.

    Responses, subtitles and error messages of endpoints may contain escape sequences that change
    the title, the colors or the clipboard of a terminal. JSON text keeps its meaning.
    """
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class PlainConsole(Console):
    """A console that prints the text of every renderable as `printable` text."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=printable(segment.text))
