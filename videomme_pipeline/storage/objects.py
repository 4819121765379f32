"""Files and objects: listings, states, writes, and the errors of the packages of object stores."""

import atexit
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from upath import UPath

from videomme_pipeline.errors import ConfigurationError, StorageError, one_line
from videomme_pipeline.processes.secrets import has_password

if TYPE_CHECKING:
    from typing_extensions import TypeIs

WHAT_TO_CHECK = "check the address, the credentials, the network and the space of the object store"
"""Advice about an error of an object store."""
HOW_TO_SHARE = (
    "check who owns it, choose another data folder, or share this one with a group: `chgrp -R "
    "GROUP` and `chmod -R g+rwXs` for its files, and `umask 002` for every user"
)
"""Advice about a file or folder that the user of this process may not read or write."""
_FORBIDDEN = (errno.EACCES, errno.EPERM)
_STOP_SECONDS = 5.0
_DEPTH = 4
"""The levels of folders with files of stages: the data folder, a benchmark, a stage, a variant."""
_TIME_KEYS = ("LastModified", "mtime", "created")
"""The time of the last change of an object, as the packages name it."""
_VERSION_KEYS = ("ETag", "etag", "generation", "blob_id", "LastModified", "mtime", "created")
"""Facts that change with the content of an object, as the packages name them, the best first."""


@dataclass(frozen=True, slots=True, order=True)
class FileState:
    """Size and version of a file or an object, which change with its content."""

    bytes: int
    version: str
    modified: float | None = field(default=None, compare=False)
    """Seconds since 1970 of the last change, or None if the store does not say."""

    @classmethod
    def of(cls, status: os.stat_result) -> "FileState":
        """The state of a file, by its size, mtime and inode."""
        return cls(status.st_size, f"{status.st_mtime_ns} {status.st_ino}", status.st_mtime)


@dataclass(frozen=True, slots=True, order=True)
class RemoteFile:
    """An object that is read in the state in which it was listed."""

    path: UPath
    state: FileState

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return str(self.path.name)

    @property
    def stem(self) -> str:
        return str(self.path.stem)

    @property
    def suffix(self) -> str:
        return str(self.path.suffix)


@overload
def is_local(path: UPath) -> bool: ...


@overload
def is_local(path: UPath | Path) -> "TypeIs[Path]": ...


def is_local(path: UPath | Path) -> bool:
    """Return True if `path` is on a file system, where a rename publishes a file."""
    return not isinstance(path, UPath) or path.protocol in ("", "file", "local")


@contextmanager
def reaching(path: UPath | Path) -> Iterator[None]:
    """Turn every error of an object store in the block into an OSError with number and text.

    The package of each store has its own classes of errors. Many of them are not subclasses of
    OSError. The error about a missing object is a FileNotFoundError.
    """
    try:
        yield
    except Exception as error:
        if is_local(path):
            raise
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, "no such object", str(path)) from error
        problem = getattr(error, "strerror", None) or str(error)
        text = " ".join(problem.split()) or type(error).__name__
        raise OSError(getattr(error, "errno", None) or errno.EIO, text) from error


@contextmanager
def listing(folder: UPath | Path) -> Iterator[None]:
    """Turn an error about a folder in the block into a `StorageError` that names `folder`."""
    try:
        with reaching(folder):
            yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise cannot("list", folder, error, "check the folder and the links in its path") from error


def cannot(action: str, path: UPath | Path, error: OSError, advice: str) -> StorageError:
    """The error for a file, folder or object that cannot be read, written or listed.

    `advice` is what to do about a local file or folder that the user may read and write.
    """
    if not is_local(path):
        advice = WHAT_TO_CHECK
    elif error.errno in _FORBIDDEN:
        advice = HOW_TO_SHARE
    return StorageError(
        f"{path}: cannot {action} ({error.strerror or error}); {advice}, then run again: "
        "everything that is already stored is kept"
    )


def open_folder(root: str | Path | UPath, name: str) -> UPath:
    """The path of a folder or URL that the user chose. Errors contain its `name`.

    Listings of an object store are not cached: other processes write objects, too, and a cached
    listing would not contain them. Raises ConfigurationError if the URL contains a password, needs
    a package that is not installed, or its scheme is unknown.
    """
    if has_password(str(root)):
        raise ConfigurationError(
            f"{name}: the URL contains a password, which would be stored with the results; use the "
            "variables of the storage for it, such as AWS_SECRET_ACCESS_KEY"
        )
    try:
        path = UPath(root)
        if not is_local(path):
            atexit.register(_stop_thread)
            path = UPath(path, use_listings_cache=False)
        if "s3" in path.fs.protocol and path.fs.session is None:
            path.fs.session = _s3_session(path.fs)
    except Exception as error:  # each package of fsspec has its own errors
        problem = one_line(str(error)) or type(error).__name__
        raise ConfigurationError(
            f"{name} {root}: {problem}; install the fsspec package of this storage, or choose "
            "another folder"
        ) from error
    return path


def _s3_session(files: Any) -> object:
    """The session that s3fs would create, but it reads times without dateutil, which is slow."""
    from aiobotocore.session import AioSession  # noqa: PLC0415 - as s3fs, which a user chose
    from botocore.utils import parse_timestamp  # noqa: PLC0415

    session = AioSession(**files.kwargs)
    session.get_component("response_parser_factory").set_parser_defaults(
        timestamp_parser=lambda text: (
            datetime.fromisoformat(text) if str(text).endswith("Z") else parse_timestamp(text)
        )
    )
    return session


def _stop_thread() -> None:
    """Stop the thread of fsspec before the interpreter ends.

    The thread keeps references to what its callers used. If these objects are alive when the
    interpreter ends, DuckDB prints its types as leaked.
    """
    from fsspec.asyn import iothread, loop  # noqa: PLC0415 - slow to import

    if loop[0] is not None:
        loop[0].call_soon_threadsafe(loop[0].stop)
        iothread[0].join(_STOP_SECONDS)


def object_state(path: UPath) -> FileState:
    """The state of an object, from one request. Raises FileNotFoundError, or another OSError."""
    with reaching(path):
        return _state(path.fs.info(path.path))


def list_objects(folder: UPath) -> dict[str, FileState]:
    """All objects under `folder` by their name in it, in alphabetical order; {} without any.

    One request lists about 1,000 objects. Raises OSError if the store cannot be reached.
    """
    start = len(folder.path.rstrip("/")) + 1
    try:
        with reaching(folder):
            infos = folder.fs.find(folder.path, detail=True)
    except FileNotFoundError:
        return {}
    return {path[start:]: _state(info) for path, info in sorted(infos.items())}


def get(path: UPath, last_bytes: int | None = None) -> bytes:
    """The content of an object, or its last bytes, of one version. Raises as `object_state`."""
    with reaching(path):
        data: bytes = path.fs.cat_file(path.path, start=None if last_bytes is None else -last_bytes)
        return data


def list_folders(folder: UPath) -> list[str]:
    """The names of the folders in `folder`, in alphabetical order, as `list_objects` lists them."""
    try:
        with reaching(folder):
            infos = folder.fs.ls(folder.path, detail=True)
    except FileNotFoundError:
        return []
    names = (info["name"].rstrip("/") for info in infos if info["type"] == "directory")
    return sorted(name.rpartition("/")[2] for name in names)


def put(path: UPath, data: bytes, *, only_new: bool = False) -> None:
    """Write an object with one request, or with one multipart upload if it is large.

    With `only_new`, an object that exists is kept. The store decides that (`If-None-Match`), so of
    several writers at most one succeeds. Raises OSError.
    """
    mode = {"mode": "create"} if only_new else {}  # not every package has a mode
    try:
        with reaching(path):
            path.fs.pipe_file(path.path, data, **mode)
    except OSError:
        if not only_new or not path.exists():
            raise


def put_file(path: UPath, file: Path) -> None:
    """Write an object with the content of `file`, as `put` does. Raises OSError."""
    with reaching(path):
        path.fs.put_file(str(file), path.path)


def _state(info: Mapping[str, Any]) -> FileState:
    version = next((info[key] for key in _VERSION_KEYS if info.get(key)), "")
    if isinstance(version, datetime):  # listings of some packages contain seconds instead
        version = version.timestamp()
    modified = next((info[key] for key in _TIME_KEYS if info.get(key)), None)
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    return FileState(
        int(info["size"] or 0), str(version), modified if isinstance(modified, float) else None
    )


def file_state(path: UPath | Path) -> FileState:
    """The state of a file, object or broken link. Raises FileNotFoundError or StorageError."""
    with listing(path):
        if not is_local(path):
            return object_state(path)
        try:
            return FileState.of(path.stat())
        except OSError:  # a link may lead to nothing or to itself
            return FileState.of(path.lstat())


def file_names(folder: UPath) -> Iterable[str]:
    """The names of all files under `folder`, relative to it; none if there is no such folder."""
    with listing(folder):
        return list(_walk(folder.path)) if is_local(folder) else list_objects(folder)


def file_states(folder: UPath) -> dict[str, FileState]:
    """The states of all files under `folder` by their names in it, sorted; empty without one."""
    with listing(folder):
        if not is_local(folder):
            return list_objects(folder)
        states = {}
        for name in sorted(_walk(folder.path)):
            with suppress(OSError):  # another process has removed it, or it is a link to itself
                states[name] = FileState.of(os.stat(f"{folder.path}/{name}"))  # noqa: PTH116 - fast
        return states


def _walk(folder: str, prefix: str = "") -> Iterator[str]:
    """Yield the names of the files in a local folder and in its folders, up to `_DEPTH` levels.

    A link to itself and a folder with the name of a table count as files, whose reading fails.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            try:
                is_file = name.endswith(".parquet") or entry.is_file()
            except OSError:
                is_file = True
            if is_file:
                yield name
            elif entry.is_dir() and prefix.count("/") < _DEPTH - 1:
                yield from _walk(entry.path, f"{name}/")
