"""The store: every file appears whole or not at all, and says what it was made of."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from upath import UPath

from videomme_pipeline.errors import StorageError
from videomme_pipeline.store import Store, publish, read_rows, stored_fingerprint, write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str


def test_rows_are_stored_with_their_fingerprint(tmp_path: Path) -> None:
    path = Store.at(tmp_path).scores("smoke", "mine")
    write_rows(path, [Row(name="x")], Row, fingerprint="abc")
    assert read_rows(path, Row) == [Row(name="x")]
    assert stored_fingerprint(path) == "abc"


def test_a_missing_or_damaged_file_has_no_fingerprint(tmp_path: Path) -> None:
    path = UPath(tmp_path / "x.parquet")
    assert stored_fingerprint(path) is None
    path.write_bytes(b"PAR1 but not really")
    assert stored_fingerprint(path) is None


def test_a_failed_write_leaves_the_old_file_and_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = UPath(tmp_path / "x.bin")
    publish(path, b"old")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(StorageError, match=r"No space left on device.*free some space"):
        publish(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["x.bin"]


def test_an_object_store_holds_the_same_rows() -> None:
    path = Store.at("memory://videomme-test").questions("smoke")
    write_rows(path, [Row(name="x")], Row, fingerprint="abc")
    assert read_rows(path, Row) == [Row(name="x")]


def test_what_needs_a_local_disk_is_local_also_beside_an_object_store() -> None:
    store = Store.at("memory://videomme-test")
    assert store.journal.is_absolute()
    assert store.journal.name == "journal.sqlite"
