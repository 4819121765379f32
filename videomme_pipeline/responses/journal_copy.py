"""Copies of a journal from one database to another, which are verified."""

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice

from videomme_pipeline.errors import StorageError
from videomme_pipeline.responses.journal import is_dead
from videomme_pipeline.responses.journal_tables import (
    CHECKED,
    COLUMNS,
    JournalDatabase,
    Session,
    checked,
    insert,
)

_ROWS_PER_COMMIT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """Numbers of rows that were copied, that the target had, and that it keeps `different`."""

    name: str
    copied: int
    same: int
    different: int


def copy_journal(source: JournalDatabase, target: JournalDatabase) -> list[CopiedTable]:
    """Add the rows of `source` to `target`, and verify both. An interrupted copy can be repeated.

    Raises StorageError if there is no `source`, a process uses it, or a journal is damaged.
    """
    if not source.exists():
        raise StorageError(f"{source.title}: no journal is there; name another file or URL")
    source.verify()
    with (
        source.explaining(),
        closing(source.connect(is_durable=False)) as reader,
        target.explaining(),
        closing(target.connect(is_durable=True)) as writer,
    ):
        claims = reader.execute("select owner from claims where expires_at > ?", time.time())
        if any(not is_dead(owner) for (owner,) in claims):
            raise StorageError(f"{source.title}: a run is asking a model; copy when it has ended")
        copied = [_copy(table, reader, writer) for table in CHECKED]
    target.verify()
    return copied


def _copy(table: str, reader: Session, writer: Session) -> CopiedTable:
    expected, before = _stored(table, reader), _stored(table, writer)
    order = " order by rowid" if table == "attempts" else ""
    rows = reader.rows(f"select {', '.join(COLUMNS[table])} from {table}{order}")
    while batch := [checked(table, values) for values in islice(rows, _ROWS_PER_COMMIT)]:
        new = [row for row in batch if row[-1] not in before]
        writer.transact(partial(writer.execute_many, insert(table), new))
    after = _stored(table, writer)
    others = expected.keys() - after.keys()
    answered = set(after.values()) if table == "responses" else set()
    if lost := [key for key in others if expected[key] not in answered]:
        raise StorageError(f"{len(lost):,} rows of {table} were not stored; run the copy again")
    same = len(expected.keys() & before.keys())
    copied = len(expected) - same - len(others)
    return CopiedTable(name=table, copied=copied, same=same, different=len(others))


def _stored(table: str, session: Session) -> dict[object, object]:
    """The request fingerprint of each row, by the checksum of the row."""
    rows = session.rows(f"select checksum, request_fingerprint from {table}")
    return dict(map(tuple, rows))
