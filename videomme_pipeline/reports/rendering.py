"""Charts as SVG, rendered in a child process.

The JavaScript engine of vl-convert aborts its process without enough address space.
"""

from functools import cache

from videomme_pipeline.extras import needs_extra
from videomme_pipeline.processes.children import Child, TaskLimits


def render_svg(vega_lite: str) -> str:
    """A Vega-Lite chart as SVG. Raises ChildFailedError or MissingExtraError."""
    return _renderer().run(_render, vega_lite, TaskLimits(seconds=120))


@cache
def _renderer() -> Child:
    return Child()


def _render(vega_lite: str) -> str:
    with needs_extra("charts", "drawing charts"):
        import vl_convert  # noqa: PLC0415 - loads a JavaScript engine

    image: str = vl_convert.vegalite_to_svg(vega_lite)
    return image
