"""Parquet files with checksums: any reader can read them, and every changed bit is detected."""

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from videomme_pipeline.errors import DamagedFileError, StorageError
from videomme_pipeline.storage.parquet import (
    add_checksums,
    encode,
    read_foreign_table,
    read_metadata,
    read_table,
)

TABLE = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]}).replace_schema_metadata(
    {"fingerprint": "abc"}
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    path.write_bytes(encode(TABLE))
    return path


def test_a_file_with_checksums_is_ordinary_parquet(path: Path) -> None:
    assert read_table(path).equals(TABLE)
    assert read_table(path, ["text"]).column_names == ["text"]
    assert read_metadata(path)["fingerprint"] == "abc"
    assert pq.read_table(path).equals(TABLE)
    with duckdb.connect() as connection:
        rows = connection.execute("select * from read_parquet(?)", [str(path)]).fetchall()
    assert rows == [(1, "a"), (2, "b"), (3, None)]


def test_only_a_large_table_is_compressed() -> None:
    """Decompression takes longer than reading the values of a small one."""
    small, large = "0" * 1_000, "0" * 100_000
    assert len(encode(pa.table({"text": [small]}))) > len(small)
    assert len(encode(pa.table({"text": [large]}))) < len(small)
    assert pq.read_table(pa.BufferReader(encode(pa.table({"text": [large]})))).num_rows == 1


def test_every_flipped_bit_is_detected(path: Path) -> None:
    intact = path.read_bytes()
    chosen = random.Random(0).sample(range(8 * len(intact)), 1000)
    for bit in chosen:
        data = bytearray(intact)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match=r"x\.parquet: the file is damaged"):
            read_table(path)


def test_a_footer_is_verified_without_the_data(path: Path) -> None:
    intact = path.read_bytes()
    path.write_bytes(intact[:10] + b"\0" + intact[11:])
    assert read_metadata(path)["fingerprint"] == "abc"
    path.write_bytes(intact.replace(b"abc", b"abd"))
    with pytest.raises(DamagedFileError, match="checksum"):
        read_metadata(path)


def test_checksums_that_were_overwritten_are_noticed(path: Path) -> None:
    intact = path.read_bytes()
    start = intact.index(b"CHECKSUM")
    path.write_bytes(intact[:start] + bytes(72) + intact[start + 72 :])
    with pytest.raises(DamagedFileError, match="checksum is missing"):
        read_table(path)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_truncated_file_is_damaged(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])
    for read in (read_table, read_metadata):
        with pytest.raises(DamagedFileError, match="does not end like a Parquet file"):
            read(path)


def test_a_file_that_was_written_piece_by_piece_gets_checksums_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pq.ParquetWriter(path, TABLE.schema, store_schema=False) as writer:
        writer.write_table(TABLE)
        writer.write_table(TABLE)
    add_checksums(path)
    read_table(path)
    assert read_table(path).num_rows == 6


def test_a_footer_larger_than_one_read_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(encode(TABLE.replace_schema_metadata({"long": "x" * 200_000})))
    assert read_metadata(path)["long"] == "x" * 200_000


def test_only_a_file_of_another_program_may_have_no_checksums(tmp_path: Path, path: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(TABLE, foreign)
    assert read_foreign_table(foreign).equals(TABLE)
    assert read_foreign_table(path).equals(TABLE)
    for read in (read_table, read_metadata):
        with pytest.raises(DamagedFileError, match="its checksum is missing"):
            read(foreign)


def test_a_file_that_cannot_be_read_is_not_damaged(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_table(path.with_name("y.parquet"))
    with pytest.raises(StorageError, match=r"cannot read \(Not a directory\)"):
        read_table(path / "y.parquet")
    path.unlink()
    path.mkdir()
    with pytest.raises(DamagedFileError, match="Is a directory"):
        read_table(path)
