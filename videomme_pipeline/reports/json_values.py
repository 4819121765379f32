"""Numbers in the JSON data of the page."""

from typing import Any

Json = dict[str, Any]


def rounded(value: float | None, scale: float = 1, digits: int = 7) -> float | None:
    """`value / scale`, or None. Has more digits than are shown, so that none is rounded twice."""
    return None if value is None else round(float(value) / scale, digits)
