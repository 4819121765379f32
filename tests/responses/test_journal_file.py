"""The file of the journal: damage is problem when it is opened, and old files are read."""

import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.full_disk import files_of_at_most
from tests.support.journal_rows import answer, attempt, committed
from videomme_pipeline.errors import StorageError
from videomme_pipeline.responses import journal_databases
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.journal_databases import SqliteJournal, checked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with 40 answers."""
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        for number in range(40):
            committed(journal.record(attempt(f"{number:02}"), answer(f"{number:02}")))
    return path


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def verify(path: Path) -> None:
    SqliteJournal(path).verify()


def test_an_intact_journal_is_verified(path: Path) -> None:
    verify(path)


def into_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def into_a_hole(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) // 4) + data[-(len(data) // 4) :])


def into_text(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be taken for one" * 50)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (into_half, r"database disk image is malformed|\*\*\* in database main .*"),
        (into_a_hole, r"database disk image is malformed|\*\*\* in database main .*"),
        (into_text, "file is not a database"),
    ],
)
def test_a_damaged_journal_says_what_is_lost_and_how_to_continue(
    path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    damage(path)
    damaged = path.read_bytes()
    other = path.rename(path.with_name("other.sqlite"))
    with pytest.raises(StorageError) as raised:
        Journal(other)
    before, _, after = DAMAGED.format(path=other, folder=path.parent).partition("FOUND")
    message = str(raised.value)
    assert message.startswith(before)
    assert message.endswith(after)
    assert re.fullmatch(problem, message.removeprefix(before).removesuffix(after))
    assert other.read_bytes()[100:] == damaged[100:]


DAMAGED = (
    "{path}: the journal is damaged (FOUND). It contains the answers of all models, so it is never "
    "replaced automatically. Restore it from a backup. Without one, recover what is readable and "
    "rename the result to other.sqlite: sqlite3 {path} .recover | sqlite3 "
    "{folder}/recovered-other.sqlite. As a last resort, move it away together with its -wal and "
    "-shm files, and run again: finished videos are stored elsewhere and are not asked again, but "
    "the answers of unfinished videos and the record of attempts and costs are lost."
)


def test_a_file_that_replaces_a_verified_one_is_verified(path: Path) -> None:
    into_half(other := Path(shutil.copy(path, path.with_name("other.sqlite"))))
    other.replace(path)
    with pytest.raises(StorageError, match="the journal is damaged"):
        Journal(path)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "update responses set raw_output = 'C' where request_fingerprint = '07'",
            "rows of responses that differ from their checksums: 1",
        ),
        (
            "update responses set request_fingerprint = 'x' where request_fingerprint = '07'",
            "rows of responses that differ from their checksums: 1",
        ),
        (
            "update attempts set cost_dollars = 5",
            "rows of attempts that differ from their checksums: 40",
        ),
        (
            "update responses set body = checksum, checksum = null",
            "rows of responses that differ from their checksums: 40",
        ),
        ("alter table responses rename to respnnses", "unknown tables"),
        (
            "alter table attempts rename column error to errer",
            r"damaged \(it does not have the columns of a journal\)",
        ),
    ],
)
def test_a_changed_row_or_table_is_damage(path: Path, statement: str, problem: str) -> None:
    change(path, statement)
    with pytest.raises(StorageError, match=problem):
        Journal(path.rename(path.with_name("other.sqlite")))


def test_the_command_in_the_message_removes_the_damaged_rows(path: Path) -> None:
    change(path, "update responses set raw_output = 'C' where request_fingerprint = '07'")
    with pytest.raises(StorageError) as raised:
        verify(path)
    statement = str(raised.value).split(f"sqlite3 {path} '")[1].split("'. As a last")[0]
    change(path, statement.replace("'\"'\"'", "'"))
    verify(path)
    with Journal(path) as journal:
        assert journal.settled(["06", "07", "08"]) == {"06", "08"}


@pytest.mark.parametrize(("rows", "advice"), [(20, "remove these rows"), (21, "recover what")])
def test_up_to_20_damaged_rows_are_listed(path: Path, rows: int, advice: str) -> None:
    change(path, f"update responses set raw_output = 'C' where request_fingerprint < '{rows}'")
    with pytest.raises(StorageError, match=f"Without one, {advice}"):
        verify(path)


def test_every_flipped_bit_of_a_row_is_detected_or_changes_nothing(path: Path) -> None:
    intact, copy = path.read_bytes(), path.with_name("copy.sqlite")
    rows = contents(path)
    for bit in random.Random(0).sample(range(8 * len(intact)), 60):
        data = bytearray(intact)
        data[bit // 8] ^= 1 << bit % 8
        copy.write_bytes(data)
        try:
            verify(copy)
        except StorageError:
            continue
        assert contents(copy) == rows


def test_an_index_with_a_name_that_is_not_text_is_damage(path: Path) -> None:
    intact = path.read_bytes()
    start = intact.index(b"attempts_of_request")
    path.write_bytes(intact[:start] + b"\xa0" + intact[start + 1 :])
    with pytest.raises(StorageError, match=r"journal.sqlite: the journal is damaged \("):
        verify(path)


def contents(path: Path) -> list[list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"select * from {table}").fetchall()
            for table in ("responses", "attempts")
        ]


def test_a_full_disk_is_one_sentence_and_the_next_run_works(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with files_of_at_most(3000), pytest.raises(StorageError, match="free some space"):
        Journal(path)
    with Journal(path) as journal:
        committed(journal.record(attempt("a"), answer("a")))
        assert journal.settled(["a"]) == {"a"}


def test_the_checksum_of_a_row_is_that_of_stored_journals() -> None:
    changes = {"error": "für", "repeat": 2**62 + 1, "status": 200, "cost_dollars": -0.0}
    row = dict.fromkeys(journal_databases.COLUMNS["attempts"]) | changes
    assert checked("attempts", list(row.values()))[-1] == "f7a1681815b1fb53"


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(st.none() | TEXTS, st.none() | INTEGERS, st.none() | st.floats() | st.integers(0, 2**53))
def test_a_row_has_the_same_checksum_once_it_is_stored(
    text: str | None, integer: int | None, real: float | None
) -> None:
    changes = {"error": text, "repeat": integer or 0, "status": integer, "cost_dollars": real}
    stored = dict.fromkeys(journal_databases.COLUMNS["attempts"]) | changes
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(journal_databases.TABLES[1].replace("not null", ""))
        row = checked("attempts", list(stored.values()))
        connection.execute(journal_databases.insert("attempts"), row)
        columns = ", ".join(journal_databases.COLUMNS["attempts"])
        read = connection.execute(f"select {columns} from attempts").fetchone()
    assert checked("attempts", read)[-1] == row[-1]


@pytest.mark.parametrize("change", [{"prompt_tokens": 1.5}, {"body": 5}, {"cost_dollars": "1"}])
def test_a_value_of_another_type_is_not_stored(change: dict[str, object]) -> None:
    row = dict.fromkeys(journal_databases.COLUMNS["attempts"]) | change
    with pytest.raises(TypeError, match=next(iter(change))):
        checked("attempts", list(row.values()))
