"""Names in files of strangers that a terminal, a CI log, Markdown or XML would act on."""

from videomme_pipeline.errors import printable

HOSTILE = (
    "::add-mask::a", " ::stop-commands::x", "##[error]x", "a\n::error::b", "\x1b[31mred\x07",
    "\u202ereversed", "<script>alert(1)</script>", "![x](http://127.0.0.1/x)", "[x](y)", "a | b",
    "a\r\nb", "\u2028next", "\ud800half", "\ufffe", "`code`", "__init__", "&lt;", "a:x:b.json",
)  # fmt: skip


def is_safe(line: str) -> bool:
    """True if a log shows the line as it is."""
    return (
        line == printable(line)
        and line.splitlines() in ([line], [])
        and not line.lstrip().startswith("::")
        and "##[" not in line
    )
