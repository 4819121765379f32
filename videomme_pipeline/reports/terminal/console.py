"""Consoles that escape control characters in untrusted text."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from videomme_pipeline.errors import printable


class PlainConsole(Console):
    """A console that prints the text of every renderable as `printable` text.

    On a terminal, lines that are printed with `soft_wrap` are wrapped at spaces, and paths and URLs
    stay whole, so that they can be copied. Codes of emoji stay as they are: `a:x:b` can be a name.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        if soft_wrap and self.is_terminal:
            text = self.render_str(*objects, markup=options.pop("markup", True), highlight=False)
            objects = (Text("\n").join(_wrapped(text, self.width)),)
        super().print(*objects, soft_wrap=soft_wrap, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=printable(segment.text))


def _wrapped(text: Text, width: int) -> Iterator[Text]:
    """Yield the lines of `text`, broken at spaces before `width` cells, with the same indent."""
    for line in text.split("\n", allow_blank=True):
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        breaks: list[int] = []
        column = indent
        for word in re.finditer(r"\S+ *", line.plain):
            if column > indent and column + cell_len(word[0].rstrip()) > width:
                breaks.append(word.start())
                column = indent
            column += cell_len(word[0])
        first, *others = line.divide(breaks)
        for part in (first, *(Text(" " * indent) + part for part in others)):
            part.rstrip()
            yield part
