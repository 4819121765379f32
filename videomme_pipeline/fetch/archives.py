"""Zip archives: what stands in one, and one member at a time on disk, whole or not at all.

The archive may be a file on disk or one that is read from the hub by ranges; both are seekable
binary files here. Which archives and members are wanted is not decided here.
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
"""More than this of a member that matters is a bomb: videos hardly compress, subtitles ~10×."""

BinaryFile = IO[bytes] | io.RawIOBase

# Also the length of a request when the archive is read from the hub.
_CHUNK_BYTES = 8 << 20
_SMALL_BYTES = 1 << 20
_ENCRYPTED = 0x1
_LEFT_BY_MACOS = "__MACOSX"
_DAMAGE = (BadZipFile, EOFError, KeyError, RuntimeError, ValueError, struct.error, zlib.error)
"""What `zipfile` raises on bytes that are not what they should be, found by damaging them."""


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
        """Its name without the folders: what it is called on disk."""
        return PurePosixPath(self.name).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem


@contextmanager
def open_archive(file: BinaryFile, archive: str) -> Iterator[ZipFile]:
    """`file` as a zip archive called `archive`.

    Raises:
        ArchiveError: when it is none.
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
    """The files in a zip archive. Only its directory is read, at the end of `file`.

    Every member is checked before any is used: one that could leave the folder it is unzipped
    into, that is not a plain file, that overlaps another or that claims an absurd size makes the
    whole archive untrusted. Folders, hidden files and what macOS leaves behind are left out.

    Raises:
        ArchiveError: naming the member and what is wrong with it.
    """
    with open_archive(file, archive) as opened:
        held = opened.infolist()
    end = file.seek(0, os.SEEK_END)
    _check_places(held, end, archive)
    members = tuple(_member(info, archive) for info in held if not _is_left_out(info))
    counts = Counter(member.file_name.casefold() for member in members)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ArchiveError(
            f"{archive}: more than one member is called {repeated[0]}; nothing of it is unzipped"
        )
    return members


def extract(
    opened: ZipFile,
    member: Member,
    folder: Path,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Path:
    """Write one member to `folder`, under its own name without folders, and return its path.

    It is written beside its place and renamed once its size and CRC are right, so a file with
    the final name is complete. `on_bytes` hears how many bytes were written.

    Raises:
        ArchiveError: when the member is not what the directory declared, or is damaged.
        OSError: when it cannot be read or written.
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
            "stays so, delete the archive where it was kept"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _copy(opened: ZipFile, member: Member, partial: Path, on_bytes: Callable[[int], None]) -> None:
    info = opened.getinfo(member.name)
    if (info.file_size, info.CRC) != (member.size_bytes, member.crc32):
        raise BadZipFile("it is not the member that the archive's directory held before")
    written = 0
    with opened.open(info) as source, partial.open("wb") as target:
        # zipfile stops at the declared size and compares the CRC when it gets there.
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
            written += len(chunk)
            on_bytes(len(chunk))
        target.flush()
        os.fsync(target.fileno())
    if written != member.size_bytes:
        raise BadZipFile(f"{written:,} bytes came out, {member.size_bytes:,} were declared")


def _is_left_out(info: ZipInfo) -> bool:
    parts = PurePosixPath(info.filename).parts
    return (
        not parts
        or info.is_dir()
        or parts[0] == _LEFT_BY_MACOS
        or (parts[-1].startswith(".") and parts[-1] != "..")
    )


def _member(info: ZipInfo, archive: str) -> Member:
    problem = _problem(info)
    if problem:
        raise ArchiveError(
            f"{archive}, member {info.orig_filename!r}: {problem}; nothing of it is unzipped. "
            "Compare the archive's sha256 with the one that the hub states."
        )
    return Member(
        archive=archive,
        name=info.filename,
        size_bytes=info.file_size,
        stored_bytes=info.compress_size,
        crc32=info.CRC,
    )


def _problem(info: ZipInfo) -> str | None:
    """Why a member must not be unzipped; None when it may."""
    name = info.orig_filename
    path = PurePosixPath(name)
    reasons = {
        "its name leads out of the folder": (
            path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
        ),
        "its name holds control characters": any(ord(character) < 32 for character in name),
        "it is a link or a device, not a file": (
            stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG)
        ),
        "it is encrypted": bool(info.flag_bits & _ENCRYPTED),
        f"it is compressed by method {info.compress_type}, which no published archive is": (
            info.compress_type not in (ZIP_STORED, ZIP_DEFLATED)
        ),
        f"{info.compress_size:,} bytes claim to unzip to {info.file_size:,}": (
            info.file_size > max(_SMALL_BYTES, info.compress_size * MAX_COMPRESSION_RATIO)
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _check_places(held: Sequence[ZipInfo], end: int, archive: str) -> None:
    """Members must not share bytes: overlapping ones unzip to more than was downloaded."""
    placed = sorted(held, key=lambda info: info.header_offset)
    starts = [info.header_offset for info in placed] + [end]
    for info, (start, following) in zip(placed, pairwise(starts), strict=True):
        if start < 0 or start + info.compress_size > following:
            raise ArchiveError(
                f"{archive}, member {info.orig_filename!r}: shares bytes with another member, "
                "or lies outside the archive; nothing of it is unzipped"
            )
