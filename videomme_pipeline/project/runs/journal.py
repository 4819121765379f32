"""The journal of a project: in PostgreSQL if there is a database, otherwise in an SQLite file."""

import os
import shlex
from pathlib import Path

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.responses.journal import CopiedTable, copy_journal
from videomme_pipeline.responses.journal_databases import JournalDatabase, SqliteJournal
from videomme_pipeline.responses.journal_postgres import PostgresJournal
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import listing
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

COPIED = ".copied"
"""The suffix of the SQLite file of a journal whose rows were copied to PostgreSQL."""


def journal_of(store: Store) -> JournalDatabase:
    """The journal of the project with this store. Raises StorageError if its folder is unreadable.

    Raises ConfigurationError if the project has a journal with paid answers elsewhere.
    """
    url = os.environ.get(POSTGRES_VARIABLE)
    file = store.journal
    copied = file.with_name(file.name + COPIED)
    with listing(file.parent):
        is_here, is_copied = file.exists(), copied.exists()
    if url and is_here:
        raise ConfigurationError(
            f"{file}: the journal contains paid answers, but {POSTGRES_VARIABLE} is set, so it "
            f"belongs into PostgreSQL; run `videomme cache journal {shlex.quote(str(file))}`, "
            "which copies and verifies it"
        )
    if not url and is_copied and not is_here:
        raise ConfigurationError(
            f"{copied}: the journal was copied to PostgreSQL, but {POSTGRES_VARIABLE} is not set; "
            "set it, or copy the journal back with `videomme cache journal URL`"
        )
    return _place(store)


def copy_into(store: Store, source: str) -> list[CopiedTable]:
    """Copy the journal `source`, a file or a URL, into the journal of the project with this store.

    A file is renamed afterwards, so that no run uses it. Raises StorageError as `copy_journal`, and
    ConfigurationError if `source` is the journal of the project.
    """
    target = _place(store)
    origin = PostgresJournal(source) if "://" in source else SqliteJournal(Path(source).resolve())
    if origin == target:
        raise ConfigurationError(
            f"{origin.title}: this is the journal of the project already; to move it to "
            f"PostgreSQL, set {POSTGRES_VARIABLE}"
        )
    copied = copy_journal(origin, target)
    if isinstance(origin, SqliteJournal):
        origin.path.rename(origin.path.with_name(origin.path.name + COPIED))
    return copied


def _place(store: Store) -> JournalDatabase:
    url = os.environ.get(POSTGRES_VARIABLE)
    return PostgresJournal(url) if url else SqliteJournal(store.journal.resolve())
