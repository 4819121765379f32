"""Text in Markdown."""

import re

from videomme_pipeline.errors import one_line

_SPECIAL = re.compile(r"[\\`*|<\[\]!&~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning inside of a line. An underscore between letters has none."""


def in_markdown(text: str) -> str:
    r"""`text` as one line that Markdown shows as it is, also in a cell of a table."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", one_line(text))
