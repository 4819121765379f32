"""Numbers in the JSON data of the page."""

from typing import Any

Json = dict[str, Any]


def rounded(value: float | None, scale: float = 1, digits: int = 7) -> float | None:
    """`value / scale`, or None, with more digits than are shown: no value is rounded twice."""
    return None if value is None else round(float(value) / scale, digits)
