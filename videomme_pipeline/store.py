"""The data folder: every path in it, every set of files, and how files are written and read.

A file appears whole or not at all. Paths depend on names and content hashes only, so any process
finds the files of another one. This module does not decide which files are stale.
"""

import fcntl
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import pyarrow as pa
from upath import UPath

from videomme_pipeline import parquet
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, StorageError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.network_disks import network_kind
from videomme_pipeline.object_stores import (
    WHAT_TO_CHECK,
    FileState,
    is_local,
    list_folders,
    list_objects,
    object_state,
    open_root,
    put,
    put_new,
    reaching,
)
from videomme_pipeline.processes import ProcessIdentity, has_password
from videomme_pipeline.rows import from_table, to_table

Row = TypeVar("Row")
Item = TypeVar("Item")
Value = TypeVar("Value")

ANY = "*"
"""Matches every benchmark or variant in the methods that list files."""
_NO_BENCHMARKS = ("failures", "frames", "packets", "servers", "sound")
"""The folders in a data folder that do not belong to one benchmark."""
_log = logging.getLogger(__name__)
_SCRATCH_NAME = re.compile(r"\..+\.\d+")
_MAX_SCRATCH_FOLDERS = 1_000
"""The largest number of scratch folders of one machine beside the same path."""
_NEW_FILE = "new"
"""Name of a file in a scratch folder, until it is finished."""
_UNFINISHED = re.compile(r"\..+\.(?!fingerprint$|checksum$)[^.]+")
"""Names of the unfinished files of earlier versions, such as `.a.parquet.x8fk`."""
REQUESTS = 8
"""Requests to an object store that are sent at the same time."""
UNFINISHED_SECONDS = 86_400
"""An unfinished file that is older than this was left by a killed run."""
SET_ASIDE = ".corrupt"
"""Suffix of a damaged file that was set aside."""
_RENAMED_SETTINGS = {"samples": "repeats"}
"""Settings that were renamed after files with the old name had been written."""


@dataclass(frozen=True, slots=True)
class Store:
    """The data folder; `root` is a local path or any fsspec URL (`s3://…`)."""

    root: UPath
    local_disk: Path | None = None
    """The folder of SQLite files, if they are not in the data folder."""
    _paths: dict[tuple[str, ...], UPath] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The paths so far, because joining is slow and a plan needs every path."""

    @classmethod
    def at(cls, root: str | Path | UPath, local_disk: Path | None = None) -> "Store":
        """The data folder at a path or URL, with SQLite files in `local_disk`.

        Raises:
            ConfigurationError: if the URL contains a password or needs a package that is not
                installed, or its scheme is unknown, or DuckDB cannot use the path.
        """
        path = open_folder(root, "data folder")
        if is_local(path) and "?" in str(path.absolute()):
            raise ConfigurationError(
                f"data folder {root}: DuckDB cannot use a folder with `?` in its path; choose "
                "another data folder"
            )
        return cls(path, local_disk)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out the paths when a worker process gets the store."""
        return Store, (self.root, self.local_disk)

    def path(self, *parts: str) -> UPath:
        if parts not in self._paths:
            self._paths[parts] = self.root.joinpath(*parts)
        return self._paths[parts]

    def local(self, *parts: str) -> Path:
        """A folder or file that must be on a local disk (videos, SQLite, DuckDB)."""
        path = self.path(*parts)
        if not is_local(path):
            path = UPath(_local_companion(str(self.root))).joinpath(*parts)
        return Path(path.path)

    # Paths. `fingerprint` parts are those of the stage's settings.

    def questions(self, benchmark: str) -> UPath:
        return self.path(benchmark, "questions.parquet")

    def videos(self, benchmark: str) -> UPath:
        """The folder of all video rows, one file per video."""
        return self.path(benchmark, "videos")

    def video(self, benchmark: str, video_id: str) -> UPath:
        return self.path(benchmark, "videos", f"{video_id}.parquet")

    def media(self, benchmark: str) -> Path:
        """The folder of video and subtitle files, as they were downloaded or drawn."""
        return self.local(benchmark, "media")

    def packets(self, video_hash: str) -> UPath:
        return self.path("packets", f"{video_hash}.parquet")

    def frames(self, video_hash: str, settings_fingerprint: str) -> UPath:
        """One file per video content and frame settings, shared by all benchmarks."""
        return self.path("frames", video_hash, f"{settings_fingerprint}.parquet")

    def sound(self, video_hash: str, version: int) -> UPath:
        """One file per video content, shared by all benchmarks."""
        return self.path("sound", video_hash, f"{version}.parquet")

    def subtitles(self, benchmark: str, track: str, video_id: str) -> UPath:
        return self.path(benchmark, "subtitles", track, f"{video_id}.parquet")

    def prompts(self, benchmark: str, evaluation: str, video_id: str) -> UPath:
        return self.path(benchmark, "prompts", evaluation, f"{video_id}.parquet")

    def responses(self, benchmark: str, evaluation: str, video_id: str) -> UPath:
        return self.path(benchmark, "responses", evaluation, f"{video_id}.parquet")

    def attempts(self, benchmark: str, evaluation: str, video_id: str) -> UPath:
        return self.path(benchmark, "attempts", evaluation, f"{video_id}.parquet")

    def scores(self, benchmark: str, evaluation: str) -> UPath:
        return self.path(benchmark, "scores", f"{evaluation}.parquet")

    def evaluated_videos(self, benchmark: str, evaluation: str) -> UPath:
        """What the scores of an evaluation were computed from, one row per video."""
        return self.path(benchmark, "evaluated_videos", f"{evaluation}.parquet")

    def observation(self, benchmark: str, evaluation: str, date: str) -> UPath:
        """The scored questions of one nightly run; `date` is ISO (`2026-11-20`)."""
        return self.path(benchmark, "observations", evaluation, f"{date}.parquet")

    def baseline_repeat(self, benchmark: str, evaluation: str, name: str) -> UPath:
        """The scored questions of one repeat of the baseline of nightly runs."""
        return self.path(benchmark, "baselines", evaluation, f"{name}.parquet")

    def findings(self, benchmark: str, evaluation: str, date: str) -> UPath:
        """The findings of one nightly run."""
        return self.path(benchmark, "findings", evaluation, f"{date}.parquet")

    def failure(self, asset: str, name: str) -> UPath:
        """One failed partition of an asset ("smoke/frames")."""
        return self.path("failures", *asset.split("/"), f"{name}.json")

    def sqlite(self, name: str) -> Path:
        """An SQLite file, which must be on a local disk."""
        return self.local_disk / name if self.local_disk else self.local(name)

    @property
    def journal(self) -> Path:
        return self.sqlite("journal.sqlite")

    @property
    def turns(self) -> Path:
        """The folder of the lock files with which runs take turns."""
        return self.local("turns")

    def servers(self, model_fingerprint: str) -> UPath:
        """The servers that a model had."""
        return self.path("servers", f"{model_fingerprint}.json")

    @property
    def server_logs(self) -> Path:
        """The folder of the logs of servers that runs have started."""
        return self.local("servers", "logs")

    @property
    def hashes(self) -> Path:
        """The cache of content hashes."""
        return self.sqlite("hashes.sqlite")

    @property
    def warehouse(self) -> Path:
        return self.local("videomme.duckdb")

    def report(self, name: str = "index.html") -> Path:
        """A report page, or a folder of pages."""
        return self.local("reports", name)

    # Files that exist, sorted by path.

    def benchmarks(self) -> list[str]:
        """The benchmarks with stored questions."""
        return [file.parent.name for file in self.question_files()]

    def question_files(self) -> list[UPath]:
        return self._files(ANY, "questions.parquet")

    def video_files(self, benchmark: str = ANY) -> list[UPath]:
        return self._files(benchmark, "videos", "*.parquet")

    def packet_files(self) -> list[UPath]:
        return self._files("packets", "*.parquet")

    def sound_files(self) -> list[UPath]:
        return self._files("sound", "*", "*.parquet")

    def frame_files(self) -> list[UPath]:
        return self._files("frames", "*", "*.parquet")

    def set_aside_files(self) -> list[UPath]:
        """Damaged files that were set aside, except results, which cannot be built again."""
        kept = {"media", "observations", "findings", "baselines"}
        return [
            file
            for depth in range(4)
            for file in self._files(*[ANY] * depth, f"*{SET_ASIDE}")
            if not kept.intersection(file.relative_to(self.root).parts)
        ]

    def unfinished_files(self) -> list[Path]:
        """Files that earlier versions began to write, and did not touch for a day.

        Files that this version begins to write are in scratch folders (`remove_left_over`).
        """
        root = self.local()
        return sorted(
            path
            for folder, _, files in os.walk(root)
            if "media" not in Path(folder).relative_to(root).parts
            for path in (Path(folder, name) for name in files if _UNFINISHED.fullmatch(name))
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS
        )

    def variant_files(self, kind: str, benchmark: str = ANY, variant: str = ANY) -> list[UPath]:
        """Files of a kind with one folder per track or evaluation.

        The kinds are subtitles, prompts, responses, attempts, observations, baselines and
        findings.
        """
        return self._files(benchmark, kind, variant, "*.parquet")

    def score_files(self, benchmark: str = ANY) -> list[UPath]:
        return self._files(benchmark, "scores", "*.parquet")

    def evaluated_video_files(self, benchmark: str = ANY) -> list[UPath]:
        return self._files(benchmark, "evaluated_videos", "*.parquet")

    def observation_files(self, benchmark: str = ANY, evaluation: str = ANY) -> list[UPath]:
        return self.variant_files("observations", benchmark, evaluation)

    def tables(self) -> list[UPath]:
        """Every Parquet file except those in media folders."""
        kinds = (
            "subtitles",
            "prompts",
            "responses",
            "attempts",
            "observations",
            "findings",
            "baselines",
        )
        return [
            *self.question_files(),
            *self.video_files(),
            *self.packet_files(),
            *self.frame_files(),
            *(file for kind in kinds for file in self.variant_files(kind)),
            *self.score_files(),
            *self.evaluated_video_files(),
        ]

    def remove_left_over(self) -> None:
        """Remove the scratch folders of processes of this machine that were killed."""
        own = _own_numbers(self.local())
        for parent, folders, _ in os.walk(self.local()):
            for name in filter(_SCRATCH_NAME.fullmatch, folders):
                if int(name.rpartition(".")[2]) not in own:
                    continue
                if found := _lock_folder(Path(parent, name)):
                    _remove_folder(*found)

    def failure_files(self, asset: str) -> list[UPath]:
        return self._files("failures", *asset.split("/"), "*.json")

    def _files(self, *pattern: str) -> list[UPath]:
        """The files that match `pattern`, sorted; none if the fixed part of it is not a folder."""
        fixed = next((place for place, part in enumerate(pattern) if "*" in part), len(pattern))
        folder = self.path(*pattern[:fixed])
        if not is_local(folder):
            return self._objects(folder, pattern[:fixed], pattern[fixed:])
        if not folder.is_dir():
            return []
        return sorted(folder.glob("/".join(pattern[fixed:])), key=str)

    def _objects(self, folder: UPath, fixed: Sequence[str], pattern: Sequence[str]) -> list[UPath]:
        """The objects under `folder` that match `pattern`, sorted. It sends few requests.

        `fixed` are the parts of the path of `folder`.
        """
        with listing(folder):
            if not pattern:
                return [folder] if folder.exists() else []
            if all("*" in part for part in pattern):
                return [
                    self.path(*fixed, name) for name in _matching(list_objects(folder), pattern)
                ]
            found = list_folders(folder)
        others = () if fixed else _NO_BENCHMARKS
        names = [name for name in found if fnmatchcase(name, pattern[0]) and name not in others]
        return [file for name in names for file in self._files(*fixed, name, *pattern[1:])]


def _matching(names: Iterable[str], pattern: Sequence[str]) -> Iterator[str]:
    """Yield the paths with as many parts as `pattern`, of which each matches."""
    for name in names:
        parts = name.split("/")
        if len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern)):
            yield name


@contextmanager
def listing(folder: UPath) -> Iterator[None]:
    """Turn an error of an object store in the block into a `StorageError` that names `folder`."""
    try:
        with reaching(folder):
            yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot list ({error.strerror or error}); {WHAT_TO_CHECK}, then run again: "
            "everything that is already stored is kept"
        ) from error


def open_folder(root: str | Path | UPath, name: str) -> UPath:
    """The path of a folder or URL that the user chose. Errors contain its `name`.

    Raises:
        ConfigurationError: if the URL contains a password, needs a package that is not installed,
            or its scheme is unknown.
    """
    if has_password(str(root)):
        raise ConfigurationError(
            f"{name}: the URL contains a password, which would be stored with the results; use the "
            "variables of the storage for it, such as AWS_SECRET_ACCESS_KEY"
        )
    try:
        return open_root(root)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"{name} {root}: {error}; install the fsspec package of this storage, or choose "
            "another folder"
        ) from error


def publish(path: UPath, data: bytes) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it.

    On a local disk, a new file beside `path` is synced and renamed. An object store gets one
    put request.

    Raises:
        StorageError: if the target cannot be written (full, read-only).
    """
    if is_local(path):
        with replacing(Path(path.path)) as new:
            new.write_bytes(data)
        return
    with writing(path):
        put(path, data)


def publish_new(path: UPath, data: bytes) -> bool:
    """Publish `data` where there was no file. Return False if an object is there now.

    Errors are those of `publish`.
    """
    if is_local(path):
        publish(path, data)
        return True
    with writing(path):
        return put_new(path, data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that replaces `path`, synced to disk, after the block.

    After an error in the block, `path` is unchanged and the new file is removed. So is the new file
    of a process that was killed, when `path` is written again.

    Raises:
        StorageError: if the target cannot be written (full, read-only).
    """
    with writing(path):
        if path.is_symlink() and not _takes_bytes(path):
            path = Path(os.path.realpath(path))  # Path.resolve raises an error for a loop of links
        with scratch_folder(None if _takes_bytes(path) else path) as folder:
            new = folder / _NEW_FILE
            yield new
            put_in_place(new, path)


@contextmanager
def scratch_folder(path: Path | None) -> Iterator[Path]:
    """Yield an empty folder beside `path`, or in TMPDIR, and remove it after the block.

    A process that is killed leaves its folder, but not its lock on it. The next scratch folder of
    the same `path` then takes its place.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="videomme-") as name:
            yield Path(name)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    names = (f".{path.name}.{number}" for number in _own_numbers(path))
    folder, lock = next(found for name in names if (found := _lock_folder(path.with_name(name))))
    try:
        for left in folder.iterdir():
            left.unlink()
        yield folder
    finally:
        _remove_folder(folder, lock)


def _own_numbers(path: Path) -> Sequence[int]:
    """The numbers of the scratch folders that this machine uses beside `path`.

    On a network file system a lock may be invisible to other machines, so each machine has its own
    numbers.
    """
    if network_kind(path) is None:
        return range(_MAX_SCRATCH_FOLDERS)
    host = int(fingerprint(ProcessIdentity.here().host), 16) % 10**9
    return range(host * _MAX_SCRATCH_FOLDERS, (host + 1) * _MAX_SCRATCH_FOLDERS)


def _lock_folder(folder: Path) -> tuple[Path, int] | None:
    """Create `folder` and lock it. Return it with its lock, or None if another writer uses it."""
    folder.mkdir(exist_ok=True)
    with suppress(FileNotFoundError, BlockingIOError), ExitStack() as unlocked:
        lock = os.open(folder, os.O_RDONLY)
        unlocked.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.stat()):  # its last user has not removed it
            unlocked.pop_all()
            return folder, lock
    return None


def _remove_folder(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _takes_bytes(path: Path) -> bool:
    """True if `path` is, or names, something other than a file: a device, a pipe, a terminal."""
    return path.exists() and not path.is_file() and not path.is_dir()


def put_in_place(new: Path, path: Path) -> None:
    """Sync a finished file to disk and rename it to `path`, or write it into a device or pipe."""
    if _takes_bytes(path):
        with new.open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        return
    with new.open("rb") as file:
        os.fsync(file.fileno())
    new.replace(path)


@contextmanager
def writing(path: Path | UPath) -> Iterator[None]:
    """Turn an error of the file system in the block into a `StorageError` that names `path`."""
    try:
        yield
    except OSError as error:
        advice = "free some space or choose another data folder"
        raise StorageError(
            f"{path}: cannot write ({error.strerror or error}); "
            f"{advice if is_local(path) else WHAT_TO_CHECK}, then run again: everything that is "
            "already stored is kept"
        ) from error


def write_rows(
    path: UPath,
    rows: Iterable[Row],
    row_class: type[Row],
    *,
    fingerprint: str,
    footer: Mapping[str, object] | None = None,
) -> pa.Table:
    """Publish `rows` as Parquet.

    The file's metadata has the fingerprint and a `footer` of JSON values, such as the settings
    that the rows were built with.
    """
    metadata = {"fingerprint": fingerprint, "recipe": json.dumps(footer or {}, sort_keys=True)}
    table = to_table(rows, row_class, metadata)
    publish(path, parquet.encode(table))
    return table


def read_rows(path: UPath, row_class: type[Row]) -> list[Row]:
    """The rows that `write_rows` stored.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        DamagedFileError: if the file is damaged. It is set aside, so that the next run rebuilds it.
    """
    with setting_aside(path):
        return from_table(parquet.read_table(path), row_class)


def read_files(paths: Iterable[UPath], row_class: type[Row]) -> list[Row]:
    """The rows of all `paths`, in their order."""
    return [row for path in paths for row in read_rows(path, row_class)]


@dataclass(frozen=True, slots=True)
class StoredRow(Generic[Row]):
    """The only row of a file, and the fingerprint in its footer."""

    row: Row
    fingerprint: str


class RowFile(Generic[Row]):
    """A file of rows. Reading it again parses it again only if it changed."""

    def __init__(self, path: UPath, row_class: type[Row]) -> None:
        self._path, self._row_class = path, row_class
        self._known: tuple[FileState, tuple[Row, ...]] | None = None

    def read(self) -> tuple[Row, ...]:
        """The rows. Errors are those of `read_rows`."""
        state = file_state(self._path)
        if self._known is None or self._known[0] != state:
            self._known = state, tuple(read_rows(self._path, self._row_class))
        return self._known[1]


class RowFolder(Generic[Row]):
    """A folder of files with one row each. Reading it again reads only the files that changed.

    Objects are read by several threads, from local copies if there are any.
    """

    def __init__(self, folder: UPath, row_class: type[Row]) -> None:
        self._folder, self._row_class = folder, row_class
        self._known: dict[str, tuple[FileState, StoredRow[Row]]] = {}

    def read(self) -> dict[str, StoredRow[Row]]:
        """The rows by file name without suffix, sorted; empty if there is no folder."""
        states = self._states()
        known = {n: found for n, found in self._known.items() if states.get(n) == found[0]}
        changed = [name for name in states if name not in known]
        rows = _read_each(
            lambda name: self._read(name, states[name]), changed, are_local=is_local(self._folder)
        )
        read = {n: (states[n], row) for n, row in zip(changed, rows, strict=True) if row}
        self._known = known | read
        return {name: self._known[name][1] for name in states if name in self._known}

    def _states(self) -> dict[str, FileState]:
        """The states of the files by name without suffix, sorted; empty if there is no folder."""
        if is_local(self._folder):
            found = _states_of_files(self._folder.path)
        else:
            with listing(self._folder):
                found = list_objects(self._folder)
        return {
            name.removesuffix(".parquet"): found[name] for name in sorted(found) if _is_table(name)
        }

    def _read(self, name: str, state: FileState) -> StoredRow[Row] | None:
        """The row of one file, or None if the file is damaged. It is then set aside."""
        path = self._folder / f"{name}.parquet"
        try:
            with setting_aside(path):
                table = parquet.read_copied_table(path, state)
                (row,) = from_table(table, self._row_class)
                metadata = table.schema.metadata or {}
                return StoredRow(row, metadata.get(b"fingerprint", b"").decode())
        except DamagedFileError as error:
            _log.warning("%s", error)
            return None


def file_state(path: UPath) -> FileState:
    """The state of a file or an object. That of a broken link is the state of the link.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the object store cannot be reached.
    """
    if is_local(path):
        try:
            return _state(path.stat())
        except OSError:  # a link may lead to nothing or to itself
            return _state(path.lstat())
    with listing(path):
        return object_state(path)


def _states_of_files(folder: str) -> dict[str, FileState]:
    """The states of the entries of a folder. That of a broken link is the state of the link."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: _state(entry.stat(follow_symlinks=os.path.exists(entry.path)))  # noqa: PTH110 - not a loop of links
                for entry in entries
            }
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, f"{status.st_mtime_ns} {status.st_ino}")


class Listing:
    """The files under a folder, each part of which is listed once, when it is first needed.

    A part is a folder on a local disk. In an object store it is everything under a folder such as
    "frames" or "videomme/responses".
    """

    def __init__(self, root: UPath) -> None:
        self._root, self._is_local = root, is_local(root)
        self._names: dict[str, frozenset[str]] = {}
        self._objects: dict[str, dict[str, FileState]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def has(self, path: UPath) -> bool:
        """Return True if there is a file at `path`."""
        if not self._is_local:
            return self._object(path) is not None
        folder, name = os.path.split(path.path)
        if folder not in self._names:
            self._names[folder] = _file_names(folder)
        return name in self._names[folder]

    def state(self, path: UPath) -> FileState:
        """The state of the file at `path`.

        Raises:
            FileNotFoundError: if there was none.
        """
        if self._is_local:
            return file_state(path)
        if found := self._object(path):
            return found
        raise FileNotFoundError(f"{path}: no such object")

    def list_ahead(self, *part: str) -> None:
        """List a part of an object store, such as ("videomme", "responses"), before it is needed.

        Several threads may do so at the same time.
        """
        if not self._is_local:
            self._objects_of("/".join(part))

    def _object(self, path: UPath) -> FileState | None:
        names = path.path[len(self._root.path.rstrip("/")) + 1 :].split("/")
        depth = 1 if names[0] in _NO_BENCHMARKS else 2
        if len(names) > depth:
            return self._objects_of("/".join(names[:depth])).get("/".join(names[depth:]))
        with suppress(FileNotFoundError), listing(path):
            return object_state(path)
        return None

    def _objects_of(self, part: str) -> dict[str, FileState]:
        with self._locks[part]:
            if part not in self._objects:
                with listing(self._root / part):
                    self._objects[part] = list_objects(self._root / part)
            return self._objects[part]


def _file_names(folder: str) -> frozenset[str]:
    """The names of the files in a folder; none if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(
                entry.name
                for entry in entries
                if entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path)  # noqa: PTH113 - False for a loop of links
            )
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _is_table(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    """The stored table, or some of its columns.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        DamagedFileError: if the file is damaged. It is set aside, so that the next run rebuilds it.
    """
    with setting_aside(path):
        return parquet.read_table(path, columns)


def verify(paths: Iterable[UPath]) -> tuple[list[UPath], list[str]]:
    """Verify all bytes of stored tables.

    Returns:
        The intact files, and a sentence for each other file. Damaged files are set aside.
    """
    files = list(paths)
    problems = _read_each(_problem_of, files, are_local=all(map(is_local, files)))
    intact = [path for path, problem in zip(files, problems, strict=True) if not problem]
    return intact, [problem for problem in problems if problem]


def _problem_of(path: UPath) -> str | None:
    """What is wrong with a stored table. It is set aside if it is damaged."""
    try:
        with setting_aside(path):
            parquet.verify(path)
    except (DamagedFileError, FileNotFoundError, StorageError) as error:
        return str(error)
    return None


def _read_each(
    read: Callable[[Item], Value], items: Sequence[Item], *, are_local: bool
) -> list[Value]:
    """The results of `read`, in the order of `items`. Several objects are read at the same time."""
    if are_local:
        return list(map(read, items))
    with ThreadPoolExecutor(REQUESTS) as threads:
        return list(threads.map(read, items))


@contextmanager
def setting_aside(path: UPath) -> Iterator[None]:
    """Set the file at `path` aside if the block cannot understand its content.

    Raises:
        DamagedFileError: in this case. The message says that the next run rebuilds the file.
    """
    try:
        yield
    except DamagedFileError as error:
        raise DamagedFileError(f"{error}{set_aside(path)}") from error
    except (KeyError, TypeError, ValueError) as error:
        found = f"{path}: the file is damaged ({error!r})"
        raise DamagedFileError(f"{found}{set_aside(path)}") from error


def set_aside(path: Path | UPath) -> str:
    """Rename a damaged file to `….corrupt`, and return what to do, for the end of a message."""
    aside = path.with_name(f"{path.name}{SET_ASIDE}")
    try:
        path.rename(aside)
    except OSError:
        return "; remove it, then run again to rebuild it"
    return f" and was renamed to {aside.name}; run again to rebuild it"


def stored_fingerprint(path: UPath) -> str | None:
    """The fingerprint of the file at `path`, or None if it is missing or damaged."""
    return _metadata(path).get("fingerprint") or None


def stored_footer(path: UPath) -> dict[str, Any]:
    """The footer of the file at `path`; empty if it has none, is missing or damaged."""
    value = _metadata(path).get("recipe")
    return dict(json.loads(value)) if value else {}


def stored_settings(path: UPath) -> dict[str, Any]:
    """The settings in the footer of the file at `path`, under their current names."""
    return {_RENAMED_SETTINGS.get(key, key): value for key, value in stored_footer(path).items()}


def _metadata(path: UPath) -> dict[str, str]:
    """The metadata of the file at `path`; empty if it is missing or damaged (then set aside)."""
    try:
        with setting_aside(path):
            return parquet.read_metadata(path)
    except (FileNotFoundError, StorageError):
        return {}
    except DamagedFileError as error:
        _log.warning("%s", error)
        return {}


def _local_companion(root: str) -> str:
    """The local folder for the files of a remote store that need a local disk."""
    slug = "".join(c if c.isalnum() else "-" for c in root).strip("-")
    return str(Path.home() / ".cache" / "videomme" / slug)
