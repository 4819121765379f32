"""Numbers in the JSON data of the page."""

from typing import Any

Json = dict[str, Any]


def rounded(value: float | None, scale: float = 1, digits: int = 5) -> float | None:
    """`value / scale` with as many digits as the page can show, or None."""
    return None if value is None else round(float(value) / scale, digits)
