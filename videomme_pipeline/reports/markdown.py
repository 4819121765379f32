"""Text in Markdown."""

import re
from collections.abc import Mapping, Sequence

from videomme_pipeline.errors import one_line

_SPECIAL = re.compile(r"[\\`*|<\[\]!&~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning inside of a line. An underscore between letters has none."""


def in_markdown(text: str) -> str:
    r"""`text` as one line that Markdown shows as it is, also in a cell of a table."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", one_line(text))


def markdown_table(rows: Sequence[Mapping[str, object]], titles: Mapping[str, str] = {}) -> str:
    """`rows` as a table, one column per key of the first row, with its title in `titles` if any."""
    names = [titles.get(name, name) for name in rows[0]]
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    for row in rows:
        cells = ("" if value is None else in_markdown(str(value)) for value in row.values())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
