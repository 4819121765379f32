"""Names and texts in generated SQL."""


def literal(text: str) -> str:
    """`text` as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL name, so that it may be a keyword."""
    return '"' + name.replace('"', '""') + '"'
