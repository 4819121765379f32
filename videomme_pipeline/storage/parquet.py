"""Parquet files with checksums: how every table is written, verified and read.

A checksum trailer between data and footer, where Parquet readers expect nothing, covers the whole
file:

    data | CHECKSUM, digest of the data, digest of the footer | footer | length of the footer | PAR1

The digest of the footer also covers the digest of the data. So a footer can be verified without
reading the data. (Parquet's own page checksums cover neither footers nor page headers, and DuckDB
does not verify them.) A table without a trailer is damaged. Files of other programs have none and
are read by `read_foreign_table`.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from upath import UPath

from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.storage.copies import local_copies
from videomme_pipeline.storage.objects import cannot, get, is_local, reaching

_MARK = b"CHECKSUM"
_DIGEST_BYTES = 32
_TRAILER_BYTES = len(_MARK) + 2 * _DIGEST_BYTES
_END_BYTES = 8
"""Size of the length of the footer and of `PAR1` after it."""
_TAIL_BYTES = 1 << 16
"""Most footers with their trailer are smaller than this, so that one read is enough."""
_CHUNK_BYTES = 1 << 20
_PLAIN_BYTES = 1 << 14
"""A smaller table is stored without what helps only large ones: compression, dictionaries and
statistics. They take longer to read than its values."""


def encode(table: pa.Table) -> bytes:
    """`table` as a Parquet file with checksums. The metadata of its schema is in the footer."""
    is_large = table.nbytes >= _PLAIN_BYTES
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd" if is_large else "none",
        use_dictionary=is_large,
        write_statistics=is_large,
    )
    data, footer = _split(memoryview(sink.getvalue()))
    return b"".join((data, _trailer(blake3(data).digest(), footer), footer))


def add_checksums(path: Path) -> None:
    """Add the checksum trailer to a Parquet file that is not published yet."""
    _, footer = _split(memoryview(_tail(path)))
    with path.open("r+b") as file:
        file.seek(-len(footer), os.SEEK_END)
        file.truncate()
        file.seek(0)
        data = blake3()
        while chunk := file.read(_CHUNK_BYTES):
            data.update(chunk)
        file.write(_trailer(data.digest(), footer) + footer)


def read_table(path: UPath | Path, columns: list[str] | None = None) -> pa.Table:
    """The table at `path`, or some of its columns. All bytes of the file are verified.

    Raises FileNotFoundError without a file, DamagedFileError if it is damaged, has no checksums, or
    is not Parquet, and StorageError if it cannot be read for another reason.
    """
    return _decoded(path, _read(path), columns)


def read_foreign_table(path: Path, largest_bytes: int | None = None) -> pa.Table:
    """The table at `path`, which another program may have written, without checksums.

    Raises the errors of `read_table`, and ValueError if the table needs more memory than
    `largest_bytes`. A few bytes of a file can stand for any number of equal values.
    """
    content = _read(path)
    with _explained(path):
        file = _open(content)
        if largest_bytes is None:
            return file.read(use_threads=False)
        batches: list[pa.RecordBatch] = []
        size = _BYTES_PER_CELL * file.metadata.num_rows * file.metadata.num_columns
        rows = file.iter_batches(_ROWS_AT_ONCE, use_threads=False)
        while size <= largest_bytes and (batch := next(rows, None)) is not None:
            size += batch.nbytes
            batches.append(batch)
    if size > largest_bytes:
        raise ValueError(
            f"its rows need more than {largest_bytes:,} bytes, which is too much for a file of "
            "this size; convert it to JSON lines"
        )
    return pa.Table.from_batches(batches, file.schema_arrow)


def read_copied_table(path: UPath | Path) -> pa.Table:
    """As `read_table`, from a local copy of an object. A damaged copy is fetched again."""
    if is_local(path):
        return read_table(path)
    try:
        return _decoded(path, _read_copy(path))
    except DamagedFileError:
        local_copies().remove(path)
        return _decoded(path, _read_copy(path))


def read_metadata(path: UPath | Path) -> dict[str, str]:
    """The metadata in a file's footer, which alone is read and verified. Raises as `read_table`."""
    tail = _tail(path)
    with _explained(path):
        _verify_footer(tail)
        return _text(_open(tail).metadata.metadata)


def metadata_of(table: pa.Table) -> dict[str, str]:
    """The metadata in the footer of the file that `table` was read from."""
    return _text(table.schema.metadata)


def _read_copy(path: UPath) -> bytes:
    with _reading(path), reaching(path), local_copies().hold(path) as copy:
        return copy.read_bytes()


def _decoded(path: UPath | Path, content: bytes, columns: list[str] | None = None) -> pa.Table:
    """The table in the bytes of a file, all of which are verified."""
    with _explained(path):
        trailer = _verify_footer(content)
        before, _ = _split(memoryview(content))
        if blake3(before[:-_TRAILER_BYTES]).digest() != trailer[len(_MARK) : -_DIGEST_BYTES]:
            raise pa.ArrowInvalid("its checksum does not match")
        # One thread is faster for small tables.
        return _open(content).read(columns, use_threads=False)


_BYTES_PER_CELL = 16
_ROWS_AT_ONCE = 64
"""Small, because one row of a batch may have a large text."""


def _open(content: bytes) -> pq.ParquetFile:
    """A file, from its bytes, or from enough bytes of its end to read its metadata."""
    return pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)


def _text(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def _verify_footer(content: bytes) -> bytes:
    """The checksum trailer of a file, from its bytes or from enough bytes of its end."""
    before, footer = _split(memoryview(content))
    trailer = bytes(before[-_TRAILER_BYTES:])
    if not trailer.startswith(_MARK):
        raise pa.ArrowInvalid("its checksum is missing")
    if _trailer(trailer[len(_MARK) : -_DIGEST_BYTES], footer) != trailer:
        raise pa.ArrowInvalid("its checksum does not match")
    return trailer


def _split(content: memoryview) -> tuple[memoryview, memoryview]:
    """The footer of a file with its length and `PAR1`, and all bytes before it."""
    footer_bytes = _footer_bytes(content)
    if bytes(content[-4:]) != b"PAR1" or footer_bytes > len(content):
        raise pa.ArrowInvalid("it does not end like a Parquet file")
    return content[:-footer_bytes], content[-footer_bytes:]


def _footer_bytes(content: memoryview | bytes) -> int:
    """The size of the footer with its length and `PAR1`, from the last bytes of a file."""
    return int.from_bytes(content[-_END_BYTES:-4], "little") + _END_BYTES


def _tail(path: UPath | Path) -> bytes:
    """The end of a file, with at least the trailer and the footer."""
    count = _TAIL_BYTES
    while True:
        tail = _read(path, count)
        needed = _footer_bytes(tail) + _TRAILER_BYTES
        if needed <= count or len(tail) < count:
            return tail
        count = needed


def _trailer(data_digest: bytes, footer: memoryview) -> bytes:
    footer_digest = blake3(data_digest).update(footer).digest()
    return _MARK + data_digest + footer_digest


@contextmanager
def _explained(path: UPath | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        # Some errors of Arrow about content are OSErrors.
        raise DamagedFileError(f"{path}: the file is damaged ({str(error).strip()})") from error


def _read(path: UPath | Path, last_bytes: int | None = None) -> bytes:
    """All bytes of a file, or the last ones. Raises the errors of `read_table`."""
    with _reading(path):
        if not is_local(path):
            return get(path, last_bytes)
        with path.open("rb") as file:
            if last_bytes is not None:
                file.seek(max(0, file.seek(0, os.SEEK_END) - last_bytes))
            return file.read()


@contextmanager
def _reading(path: UPath | Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ELOOP):
            raise DamagedFileError(f"{path}: the file is damaged ({error.strerror})") from error
        raise cannot("read", path, error, "check the file and its disk") from error
