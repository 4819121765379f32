"""Zip archives: read the directory of one, and extract members atomically.

An archive is any seekable binary file: a file on disk, or one that is read from the hub by ranges.
"""

import io
import os
import stat
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from videomme_pipeline.errors import ArchiveError

MAX_COMPRESSION_RATIO = 200
"""A member with a higher ratio is rejected as a zip bomb. Subtitles have a ratio of about 10."""

BinaryFile = IO[bytes] | io.RawIOBase

# Also the length of a range request if the archive is on the hub.
_CHUNK_BYTES = 8 << 20
_SMALL_BYTES = 1 << 20
_ENCRYPTED = 0x1
_MACOS_FOLDER = "__MACOSX"
_DAMAGE = (BadZipFile, EOFError, KeyError, RuntimeError, ValueError, struct.error, zlib.error)
"""Exceptions that `zipfile` raises for damaged bytes, found by experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file in an archive, as the archive's directory declares it."""

    archive: str
    name: str
    size_bytes: int
    stored_bytes: int
    crc32: int

    @property
    def file_name(self) -> str:
        """Name without folders, which is its name on disk."""
        return PurePosixPath(self.name).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem


@contextmanager
def open_archive(file: BinaryFile, archive: str) -> Iterator[ZipFile]:
    """Open `file` as a zip archive called `archive`.

    Raises:
        ArchiveError: if it is not a zip archive.
    """
    try:
        opened = ZipFile(file)
    except _DAMAGE as error:
        raise ArchiveError(
            f"{archive}: not a readable zip archive ({error}); delete it and download it again"
        ) from error
    with opened:
        yield opened


def read_directory(file: BinaryFile, archive: str) -> tuple[Member, ...]:
    """List the files in a zip archive. Only its directory is read, at the end of `file`.

    Every member is checked before any is used. The whole archive is rejected if a member could be
    written outside the target folder, is not a plain file, overlaps another member or declares an
    absurd size. Folders, hidden files and the files that macOS adds are left out.

    Raises:
        ArchiveError: if the archive is rejected. The message names the member and the problem.
    """
    with open_archive(file, archive) as opened:
        infos = opened.infolist()
    end = file.seek(0, os.SEEK_END)
    _check_overlaps(infos, end, archive)
    members = tuple(_member(info, archive) for info in infos if not _is_left_out(info))
    counts = Counter(member.file_name.casefold() for member in members)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ArchiveError(
            f"{archive}: more than one member is called {repeated[0]}; nothing was unzipped"
        )
    return members


def extract(
    opened: ZipFile,
    member: Member,
    folder: Path,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Path:
    """Extract one member to `folder`, under its name without folders, and return the path.

    The file is written under a temporary name and renamed once its size and CRC are correct, so a
    file with the final name is complete. `on_bytes` gets the number of bytes of each write.

    Raises:
        ArchiveError: if the member is damaged, or not the one in the directory.
        OSError: if it cannot be read or written.
    """
    target = folder / member.file_name
    partial = folder / f".{member.file_name}.partial"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _copy(opened, member, partial, on_bytes)
        partial.replace(target)
    except _DAMAGE as error:
        raise ArchiveError(
            f"{member.archive}, member {member.name}: damaged ({error}); run again, and if it "
            "is still damaged, delete the stored archive"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _copy(opened: ZipFile, member: Member, partial: Path, on_bytes: Callable[[int], None]) -> None:
    info = opened.getinfo(member.name)
    if (info.file_size, info.CRC) != (member.size_bytes, member.crc32):
        raise BadZipFile("it is not the member that the archive's directory listed before")
    written = 0
    with opened.open(info) as source, partial.open("wb") as target:
        # zipfile stops at the declared size and compares the CRC there.
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
            written += len(chunk)
            on_bytes(len(chunk))
        target.flush()
        os.fsync(target.fileno())
    if written != member.size_bytes:
        raise BadZipFile(f"{written:,} bytes were extracted, {member.size_bytes:,} were declared")


def _is_left_out(info: ZipInfo) -> bool:
    parts = PurePosixPath(info.filename).parts
    return (
        not parts
        or info.is_dir()
        or parts[0] == _MACOS_FOLDER
        or (parts[-1].startswith(".") and parts[-1] != "..")
    )


def _member(info: ZipInfo, archive: str) -> Member:
    problem = _problem(info)
    if problem:
        raise ArchiveError(
            f"{archive}, member {info.orig_filename!r}: {problem}; nothing was unzipped. "
            "Compare the archive's sha256 with the one on the hub."
        )
    return Member(
        archive=archive,
        name=info.filename,
        size_bytes=info.file_size,
        stored_bytes=info.compress_size,
        crc32=info.CRC,
    )


def _problem(info: ZipInfo) -> str | None:
    """The reason not to extract a member, or None if it is safe."""
    name = info.orig_filename
    path = PurePosixPath(name)
    reasons = {
        "its name leads out of the folder": (
            path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
        ),
        "its name contains control characters": any(ord(character) < 32 for character in name),
        "it is a link or a device, not a file": (
            stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG)
        ),
        "it is encrypted": bool(info.flag_bits & _ENCRYPTED),
        f"it is compressed by method {info.compress_type}, which no published archive is": (
            info.compress_type not in (ZIP_STORED, ZIP_DEFLATED)
        ),
        f"{info.compress_size:,} bytes are declared to unzip to {info.file_size:,}": (
            info.file_size > max(_SMALL_BYTES, info.compress_size * MAX_COMPRESSION_RATIO)
        ),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _check_overlaps(infos: Sequence[ZipInfo], end: int, archive: str) -> None:
    """Reject members that share bytes: they would unzip to more than was downloaded."""
    placed = sorted(infos, key=lambda info: info.header_offset)
    starts = [info.header_offset for info in placed] + [end]
    for info, (start, following) in zip(placed, pairwise(starts), strict=True):
        if start < 0 or start + info.compress_size > following:
            raise ArchiveError(
                f"{archive}, member {info.orig_filename!r}: shares bytes with another member, "
                "or is outside the archive; nothing was unzipped"
            )
