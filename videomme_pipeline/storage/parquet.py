"""Parquet files with checksums: how every table is written, verified and read.

A seal between data and footer, where Parquet readers expect nothing, covers the whole file:

    data | mark, digest of the data, digest of the footer | footer | length of the footer | PAR1

The digest of the footer also covers the digest of the data. So a footer can be verified without
reading the data. (Parquet's own page checksums cover neither footers nor page headers, and DuckDB
does not verify them.) Files without a seal are read as they are: those of earlier versions, and
those of other programs.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from upath import UPath

from videomme_pipeline.errors import DamagedFileError, StorageError
from videomme_pipeline.storage.copies import local_copies
from videomme_pipeline.storage.objects import WHAT_TO_CHECK, FileState, get, is_local, reaching

SEALED = {"seal": "blake3"}
"""Metadata of a file with a seal. Without the seal itself, such a file is damaged."""

_MARK = b"VMMESEAL"
_DIGEST_BYTES = 32
_SEAL_BYTES = len(_MARK) + 2 * _DIGEST_BYTES
_END_BYTES = 8
"""Size of the length of the footer and of `PAR1` after it."""
_TAIL_BYTES = 1 << 16
"""Most footers with their seal are smaller than this, so that one read is enough."""
_CHUNK_BYTES = 1 << 20
_PLAIN_BYTES = 1 << 14
"""A smaller table is stored without what helps only large ones: compression, dictionaries and
statistics. They take longer to read than its values."""
_STALE_PAUSES_SECONDS = (0.1, 0.4, 1.6)

Read = ParamSpec("Read")
Value = TypeVar("Value")


def encode(table: pa.Table) -> bytes:
    """`table` as a sealed Parquet file. The metadata of its schema is in the footer."""
    metadata = {**(table.schema.metadata or {}), **SEALED}
    is_large = table.nbytes >= _PLAIN_BYTES
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata),
        sink,
        compression="zstd" if is_large else "none",
        use_dictionary=is_large,
        write_statistics=is_large,
    )
    data, _, footer = _split(memoryview(sink.getvalue()))
    return b"".join((data, _seal(_digest(data), footer), footer))


def seal(path: Path) -> None:
    """Seal a Parquet file that is not published yet. Its metadata must contain `SEALED`."""
    footer = _split(memoryview(_tail(path))).footer
    with path.open("r+b") as file:
        file.seek(-len(footer), os.SEEK_END)
        file.truncate()
        file.seek(0)
        data = blake3()
        while chunk := file.read(_CHUNK_BYTES):
            data.update(chunk)
        file.write(_seal(data.digest(), footer) + footer)


def _retrying_stale_handles(read: Callable[Read, Value]) -> Callable[Read, Value]:
    """`read`, repeated after pauses while the file is replaced on a network file system."""

    @wraps(read)
    def retried(*arguments: Read.args, **keywords: Read.kwargs) -> Value:
        for pause_seconds in _STALE_PAUSES_SECONDS:
            try:
                return read(*arguments, **keywords)
            except StorageError as error:
                if getattr(error.__cause__, "errno", None) != errno.ESTALE:
                    raise
                time.sleep(pause_seconds)
        return read(*arguments, **keywords)

    return retried


@_retrying_stale_handles
def read_table(path: UPath | Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The table at `path`, or some of its columns. All bytes of the file are verified.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        DamagedFileError: if the file is damaged, or is not Parquet.
        StorageError: if the file cannot be read for another reason.
    """
    with _explained(path):
        return _decode(_content(path), columns)


def read_copied_table(path: UPath | Path, state: FileState | None = None) -> pa.Table:
    """The table at `path`, from a local copy if it is in an object store.

    The copy is fetched if there is none of the object's `state`, or if it is damaged. Without
    `state`, that of the object is requested. Errors are those of `read_table`.
    """
    if is_local(path):
        return read_table(path)
    try:
        return _read_copy(path, state)
    except DamagedFileError:
        local_copies().remove(path)
        return _read_copy(path, state)


def _read_copy(path: UPath, state: FileState | None) -> pa.Table:
    with _explained(path):
        with reaching(path), local_copies().hold(path, state) as copy:
            content = copy.read_bytes()
        return _decode(content)


@_retrying_stale_handles
def read_metadata(path: UPath | Path) -> dict[str, str]:
    """The metadata in the footer of the file at `path`. Only the footer is read and verified.

    Errors are those of `read_table`.
    """
    with _explained(path):
        found = _verified(_tail(path), footer_only=True).metadata.metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}


@_retrying_stale_handles
def read_bytes(path: UPath | Path) -> bytes:
    """All bytes of the file at `path`, verified.

    Errors are those of `read_table`.
    """
    with _explained(path):
        content = _content(path)
        _verified(content)
        return content


@_retrying_stale_handles
def checksum(path: UPath | Path) -> str:
    """Checksum of the file at `path`. Only the end of a sealed file is read.

    Errors are those of `read_table`.
    """
    with _explained(path):
        tail = _tail(path)
        _verified(tail, footer_only=True)
        seal = _split(memoryview(tail)).seal
    return bytes(seal).hex() if seal else blake3(read_bytes(path)).hexdigest()


@_retrying_stale_handles
def verify(path: UPath | Path) -> None:
    """Verify all bytes of the file at `path`.

    Errors are those of `read_table`.
    """
    read_bytes(path)


def _decode(content: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    # One thread is faster for small tables.
    return _verified(content).read(columns, use_threads=False)


class _Parts(NamedTuple):
    """The parts of a file, or of its end. `footer` includes its length and `PAR1`."""

    data: memoryview
    seal: memoryview | None
    footer: memoryview


def _verified(content: bytes, *, footer_only: bool = False) -> pq.ParquetFile:
    """A file, from its bytes. With `footer_only`, its end is enough, and only the footer is read.

    Raises:
        pa.ArrowInvalid: if the file is damaged.
    """
    data, seal, footer = _split(memoryview(content))
    if seal is not None:
        digest = bytes(seal[len(_MARK) : -_DIGEST_BYTES])
        if _seal(digest, footer) != seal or not (footer_only or _digest(data) == digest):
            raise pa.ArrowInvalid("its checksum does not match")
    file = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)
    if seal is None and b"seal" in (file.metadata.metadata or {}):
        raise pa.ArrowInvalid("its checksum is missing")
    return file


def _split(content: memoryview) -> _Parts:
    """The parts of a file, from its bytes or from enough bytes of its end."""
    footer_bytes = _footer_bytes(content)
    if bytes(content[-4:]) != b"PAR1" or footer_bytes > len(content):
        raise pa.ArrowInvalid("its end is not that of a Parquet file")
    before, footer = content[:-footer_bytes], content[-footer_bytes:]
    found = before[-_SEAL_BYTES:]
    if found[: len(_MARK)] != _MARK:
        return _Parts(before, None, footer)
    return _Parts(before[:-_SEAL_BYTES], found, footer)


def _footer_bytes(content: memoryview | bytes) -> int:
    """The size of the footer with its length and `PAR1`, from the last bytes of a file."""
    return int.from_bytes(content[-_END_BYTES:-4], "little") + _END_BYTES


def _content(path: UPath | Path) -> bytes:
    return path.read_bytes() if is_local(path) else get(path)


def _tail(path: UPath | Path) -> bytes:
    """The end of a file, with at least the seal and the footer.

    Each read returns the end of one version of the file, even if it is replaced meanwhile.
    """
    count = _TAIL_BYTES
    while True:
        tail = _last_bytes(path, count)
        wanted = _footer_bytes(tail) + _SEAL_BYTES
        if wanted <= count or len(tail) < count:
            return tail
        count = wanted


def _last_bytes(path: UPath | Path, count: int) -> bytes:
    """The last `count` bytes of a file, or all if it is smaller."""
    if not is_local(path):
        return get(path, last_bytes=count)
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()


def _seal(data_digest: bytes, footer: memoryview) -> bytes:
    footer_digest = blake3(data_digest).update(footer).digest()
    return _MARK + data_digest + footer_digest


def _digest(data: memoryview) -> bytes:
    return blake3(data).digest()


@contextmanager
def _explained(path: UPath | Path) -> Iterator[None]:
    """Turn errors of reading `path` into errors that name it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        # An error of Arrow about the content can be an OSError, but it has no number.
        number = getattr(error, "errno", None)
        found = getattr(error, "strerror", None) or str(error).strip()
        if number in (None, errno.EISDIR, errno.ELOOP):
            raise DamagedFileError(f"{path}: the file is damaged ({found})") from error
        advice = "check the file and its permissions" if is_local(path) else WHAT_TO_CHECK
        raise StorageError(f"{path}: cannot read ({found}); {advice}, then run again") from error
