"""Zip and tar archives: read the directory of one, and extract members atomically.

An archive is any seekable binary file: a file on disk, or one that is read from the hub by ranges.
Names that end with `.tar` or `.tar.gz` are tar archives. All others are zip archives.
"""

import gzip
import hashlib
import shutil
import stat
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from fsspec.spec import AbstractBufferedFile

from videomme_pipeline.errors import ArchiveError
from videomme_pipeline.storage.publish import put_in_place, scratch_folder

MAX_COMPRESSION_RATIO = 200
"""A member with a higher ratio is rejected as a zip bomb. Subtitles have a ratio of about 10."""

# Also the length of a range request if the archive is on the hub.
_CHUNK_BYTES = 8 << 20
_SMALL_BYTES = 1 << 20
_CHANGED = "the archive changed while it was read: size or CRC differ from its directory"
_NO_FILE = "it is a link or a device, not a file"
_ENCRYPTED = 0x1
_MAX_TAR_BYTES = 1 << 33
"""Larger sizes are not in the header of a member but in an extension before it."""
_MACOS_FOLDER = "__MACOSX"
_DAMAGE = (
    BadZipFile,
    EOFError,
    KeyError,
    RuntimeError,
    ValueError,
    gzip.BadGzipFile,
    struct.error,
    tarfile.TarError,
    zlib.error,
)
"""Exceptions that `zipfile` and `tarfile` raise for damaged bytes, found by experiment."""

BinaryFile: TypeAlias = IO[bytes] | AbstractBufferedFile
OpenArchive = ZipFile | tarfile.TarFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file in an archive, as the archive's directory declares it.

    `offset` is the position of its bytes in a tar archive, which has no `crc32`.
    """

    archive: str
    name: str
    size_bytes: int
    stored_bytes: int
    crc32: int | None
    offset: int | None = None

    @property
    def file_name(self) -> str:
        """Name without folders, which is its name on disk."""
        return PurePosixPath(self.name).name


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_compressed_tar(archive: str) -> bool:
    """True if reading a member needs all bytes before the member, so that ranges are useless."""
    return archive.endswith((".tar.gz", ".tgz"))


@contextmanager
def open_archive(file: BinaryFile, archive: str) -> Iterator[OpenArchive]:
    """Open `file` as the archive called `archive`. Raises ArchiveError if it cannot be read."""
    file.seek(0)
    is_tar = archive.endswith(".tar") or is_compressed_tar(archive)
    try:
        open_tar = tarfile.TarFile.gzopen if is_compressed_tar(archive) else tarfile.TarFile.taropen
        with open_tar(name=archive, fileobj=file) if is_tar else ZipFile(file) as opened:
            yield opened
    except _DAMAGE as error:
        kind = "tar" if is_tar else "zip"
        raise ArchiveError(
            f"{archive}: not a readable {kind} archive ({error}); delete it and download it again"
        ) from error


def read_directory(file: BinaryFile, archive: str, *, keeps_folders: bool) -> tuple[Member, ...]:
    """List the files in an archive. Only its directory is read.

    The whole archive is rejected with an ArchiveError if a member could be written outside the
    target folder, is not a plain file or declares an absurd size. Folders, hidden files and those
    of macOS are left out. `keeps_folders` allows the same file name in several folders.
    """
    with open_archive(file, archive) as opened:
        listed = list(_members(opened, archive))
    members: dict[str, Member] = {}
    for name, problem, member in listed:
        if _is_hidden(member.name):
            continue
        if problem := _problem_of_name(name) or problem:
            raise ArchiveError(
                f"{archive}, member {name!r}: {problem}; nothing was unzipped. "
                "Compare the archive's sha256 with the one on the hub."
            )
        key = (member.name if keeps_folders else member.file_name).casefold()
        if key in members:
            raise ArchiveError(
                f"{archive}: more than one member is called {key}; nothing was unzipped"
            )
        members[key] = member
    return tuple(members.values())


def _members(opened: OpenArchive, archive: str) -> Iterator[tuple[str, str | None, Member]]:
    """Yield each member, after its name as it is written and the reason not to extract it."""
    if isinstance(opened, ZipFile):
        for info in opened.infolist():
            if not info.is_dir():
                member = Member(
                    archive=archive,
                    name=info.filename,
                    size_bytes=info.file_size,
                    stored_bytes=info.compress_size,
                    crc32=info.CRC,
                )
                yield info.orig_filename, _problem(info), member
        return
    for entry in opened:
        if not entry.isdir():
            member = Member(
                archive=archive,
                name=str(PurePosixPath(entry.name)),
                size_bytes=entry.size,
                stored_bytes=entry.size,
                crc32=None,
                offset=entry.offset_data,
            )
            yield entry.name, None if entry.isfile() else _NO_FILE, member


def extract(opened: OpenArchive, member: Member, folder: Path) -> Path:
    """Extract one member to `folder`, under its name without folders, and return the path.

    A file with the final name is complete: its size and, in a zip archive, its CRC are correct.
    Raises ArchiveError if the member is damaged, or not the one in the directory, and OSError.
    """
    target = folder / member.file_name
    try:
        with scratch_folder(target) as scratch:
            new = scratch / "member"
            with _content(opened, member) as source, new.open("wb") as copy:
                # zipfile stops at the declared size and compares the CRC there.
                shutil.copyfileobj(source, copy, _CHUNK_BYTES)
                written = copy.tell()
            if written != member.size_bytes:
                raise BadZipFile(f"{written:,} of {member.size_bytes:,} declared bytes")
            put_in_place(new, target)
    except _DAMAGE as error:
        raise ArchiveError(
            f"{member.archive}, member {member.name}: damaged ({error}); run again, and if it "
            "is still damaged, delete the stored archive"
        ) from error
    return target


def _content(opened: OpenArchive, member: Member) -> IO[bytes]:
    if isinstance(opened, ZipFile):
        info = opened.getinfo(member.name)
        if (info.file_size, info.CRC) != (member.size_bytes, member.crc32):
            raise BadZipFile(_CHANGED)
        return opened.open(info)
    offset, file = member.offset or 0, cast("BinaryFile", opened.fileobj)
    file.seek(offset - tarfile.BLOCKSIZE)
    header = tarfile.TarInfo.frombuf(file.read(tarfile.BLOCKSIZE) or b"", "utf-8", "replace")
    if header.size != member.size_bytes and member.size_bytes < _MAX_TAR_BYTES:
        raise tarfile.HeaderError(_CHANGED)
    entry = tarfile.TarInfo(member.name)
    entry.size, entry.offset_data = member.size_bytes, offset
    return cast("IO[bytes]", opened.extractfile(entry))


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return (
        not parts or parts[0] == _MACOS_FOLDER or (parts[-1].startswith(".") and parts[-1] != "..")
    )


def _problem(info: ZipInfo) -> str | None:
    """The reason not to extract a member, or None if there is none but perhaps its name."""
    reasons = {
        _NO_FILE: stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG),
        "it is encrypted": bool(info.flag_bits & _ENCRYPTED),
        f"it is compressed by method {info.compress_type}, which no published archive is": (
            info.compress_type not in (ZIP_STORED, ZIP_DEFLATED)
        ),
        f"{info.compress_size:,} bytes are declared to unzip to {info.file_size:,}": (
            info.file_size > max(_SMALL_BYTES, info.compress_size * MAX_COMPRESSION_RATIO)
        ),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _problem_of_name(name: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        return "its name leads out of the folder"
    if any(ord(character) < 32 for character in name):
        return "its name contains control characters"
    return None


class JoinedFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """The bytes of `parts` in order. Each part has its file and its size."""

    def __init__(self, parts: Sequence[tuple[BinaryFile, int]]) -> None:
        size = sum(size for _, size in parts)
        super().__init__(None, "joined", cache_type="none", size=size)
        self._parts = parts

    def _fetch_range(self, start: int, end: int) -> bytes:
        content, first = b"", 0
        for file, size in self._parts:
            if start < first + size and first < end:
                file.seek(max(start - first, 0))
                content += file.read(min(end, first + size) - max(start, first)) or b""
            first += size
        return content

    def close(self) -> None:
        for file, _ in self._parts:
            file.close()
        super().close()
