"""Facts about built partitions, which the Dagster UI shows beside them.

A fact is a number, a text, or one of the values of this module. A list of mappings is a table, and
a mapping is JSON.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

from videomme_pipeline.extras import is_installed, needs_extra
from videomme_pipeline.processes.children import Child, ChildFailedError, TaskLimits
from videomme_pipeline.reports.markdown import in_markdown

Facts: TypeAlias = Mapping[str, object]
"""Facts by name. None is left out."""


class Markdown(str):
    """A text that is shown as Markdown."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """The bytes of a picture."""

    data: bytes
    media_type: str
    title: str


def fenced(text: str) -> Markdown:
    """`text` unchanged, in a Markdown fence that is longer than any fence inside it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return Markdown(f"{fence}text\n{text}\n{fence}")


def chart_picture(draw: Callable[[ModuleType], Any], title: str) -> Picture | Markdown:
    """The Altair chart that `draw` returns, or a note that says why there is none.

    `draw` gets the module `reports.charts`, which loads Altair.
    """
    if not is_installed("charts"):
        return Markdown("Charts need the extra `charts`: `pip install 'videomme-pipeline[charts]'`")
    from videomme_pipeline.reports import charts  # noqa: PLC0415 - loads Altair

    try:
        svg = _renderer().run(_render, draw(charts).to_json(), TaskLimits(seconds=120))
        return Picture(svg.encode(), "image/svg+xml", title)
    except ChildFailedError as error:
        return Markdown(in_markdown(f"{title}: the chart cannot be drawn ({error})"))


@cache
def _renderer() -> Child:
    """A child, because vl-convert aborts its process without enough address space."""
    return Child()


def _render(vega_lite: str) -> str:
    """A Vega-Lite chart as SVG."""
    with needs_extra("charts", "drawing charts"):
        import vl_convert  # noqa: PLC0415 - loads a JavaScript engine

    image: str = vl_convert.vegalite_to_svg(vega_lite)
    return image
