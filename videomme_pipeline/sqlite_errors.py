"""Errors of SQLite, and which of them mean that a file is damaged."""

import sqlite3

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a statement. SQLite's message about a damaged file may not be UTF-8."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB)
"""Errors about the content of the file. SQLITE_ERROR is a table or column with another name."""


def is_damage(error: Exception) -> bool:
    """True if `error` means that the content of the file is wrong."""
    # A text that is not UTF-8 is an error without a code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return isinstance(error, SQLITE_ERRORS) and code & 0xFF in _DAMAGE
