"""Where data lives: one folder, local or in an object store, and what each path in it holds.

Every file appears whole or not at all. Paths follow from names and content hashes alone, so
any process finds what another one made. What is stale is not decided here.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from videomme_pipeline.errors import StorageError
from videomme_pipeline.rows import from_table, to_table

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Store:
    """The data folder; `root` may be a local path or any fsspec URL (`s3://…`)."""

    root: UPath

    @classmethod
    def at(cls, root: str | Path | UPath) -> "Store":
        return cls(UPath(root))

    def path(self, *parts: str) -> UPath:
        return _joined(self.root, parts)

    def local(self, *parts: str) -> Path:
        """A folder or file that must be on a local disk (videos, SQLite, DuckDB)."""
        path = self.path(*parts)
        if not is_local(path):
            path = UPath(_local_companion(str(self.root))).joinpath(*parts)
        return Path(path.path)

    # What each path holds. `fingerprint` parts are those of the stage's own recipe.

    def questions(self, benchmark: str) -> UPath:
        return self.path(benchmark, "questions.parquet")

    def videos(self, benchmark: str) -> UPath:
        """The folder of all video rows, one file a video."""
        return self.path(benchmark, "videos")

    def video(self, benchmark: str, video_id: str) -> UPath:
        return self.videos(benchmark) / f"{video_id}.parquet"

    def media(self, benchmark: str) -> Path:
        """Video and subtitle files as they were downloaded or drawn."""
        return self.local(benchmark, "media")

    def packets(self, video_hash: str) -> UPath:
        return self.path("packets", f"{video_hash}.parquet")

    def frames(self, video_hash: str, recipe_fingerprint: str) -> UPath:
        """One file per video content × sampling recipe, shared by all benchmarks."""
        return self.path("frames", video_hash, f"{recipe_fingerprint}.parquet")

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

    def observations(self, benchmark: str, evaluation: str) -> UPath:
        """The folder of the nights on which an unchanged evaluation was asked again: one file of
        scored questions each, named by its date (`2026-11-20.parquet`)."""
        return self.path(benchmark, "observations", evaluation)

    def failures(self, asset: str) -> UPath:
        """The folder of the failures of an asset ("smoke/frames"), one JSON file each."""
        return self.path("failures", *asset.split("/"))

    def observation(self, benchmark: str, evaluation: str, date: str) -> UPath:
        """The scored questions of one nightly run."""
        return self.observations(benchmark, evaluation) / f"{date}.parquet"

    def findings(self, benchmark: str, evaluation: str, date: str) -> UPath:
        """The findings of one nightly run."""
        return self.path(benchmark, "findings", evaluation, f"{date}.parquet")

    # Files that exist, in the order of their names.

    def benchmarks(self) -> list[str]:
        """The benchmarks whose questions are stored."""
        return [file.parent.name for file in self._files("*", "questions.parquet")]

    def packet_files(self) -> list[UPath]:
        return self._files("packets", "*.parquet")

    def frame_files(self) -> list[UPath]:
        """All cached frames: `<video hash>/<settings fingerprint>.parquet`."""
        return self._files("frames", "*", "*.parquet")

    def damaged_frame_files(self) -> list[UPath]:
        """Frame files that could not be read and were set aside."""
        return self._files("frames", "*", "*.corrupt")

    def unfinished_frame_files(self) -> list[UPath]:
        """Temporary files of frames that are being written, or whose run was killed."""
        return self._files("frames", "*", ".*.parquet.*")

    def video_files(self, benchmark: str = "*") -> list[UPath]:
        return self._files(benchmark, "videos", "*.parquet")

    def score_files(self, benchmark: str = "*") -> list[UPath]:
        """Scores: `<benchmark>/scores/<evaluation>.parquet`."""
        return self._files(benchmark, "scores", "*.parquet")

    def variant_files(self, benchmark: str, kind: str, variant: str = "*") -> list[UPath]:
        """Files of one kind with a folder per variant: `<kind>/<variant>/<name>.parquet`.

        The kinds are subtitles, prompts, responses, attempts, observations and findings.
        """
        return self._files(benchmark, kind, variant, "*.parquet")

    def observed_dates(self, benchmark: str, evaluation: str) -> list[str]:
        """The dates of the stored nightly runs of an evaluation."""
        return [file.stem for file in self.variant_files(benchmark, "observations", evaluation)]

    def _files(self, *pattern: str) -> list[UPath]:
        files = self.root.glob("/".join(pattern)) if self.root.exists() else ()
        return sorted(files, key=str)

    @property
    def journal(self) -> Path:
        return self.local("journal.sqlite")

    @property
    def warehouse(self) -> Path:
        return self.local("videomme.duckdb")


@lru_cache(maxsize=1 << 16)
def _joined(root: UPath, parts: tuple[str, ...]) -> UPath:
    """Paths are asked for again and again (a plan looks at every file), and slow to join."""
    return root.joinpath(*parts)


def is_local(path: UPath) -> bool:
    """Whether `path` is on a local disk, where a rename publishes a file."""
    return path.protocol in ("", "file", "local")


def publish(path: UPath, data: bytes) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it.

    Locally: a temporary file beside it, fsync, rename. Elsewhere: one put.

    Raises:
        StorageError: when the target cannot be written (full, read-only).
    """
    if is_local(path):
        with replacing(Path(path.path)) as temporary:
            temporary.write_bytes(data)
        return
    with writing(path):
        path.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file beside `path` that takes its place, synced to disk, when the block ends.

    An error in the block leaves `path` as it was and nothing beside it.

    Raises:
        StorageError: when the target cannot be written (full, read-only).
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            put_in_place(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a finished file its name, once it is on the disk."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.chmod(0o644)
    temporary.replace(path)


@contextmanager
def writing(path: Path | UPath) -> Iterator[None]:
    """Makes an error of the file system a `StorageError` that names `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot write ({error.strerror or error}); free some space or choose another "
            "data folder, then run again: what is already stored is kept"
        ) from error


def write_rows(
    path: UPath,
    rows: Iterable[Row],
    row_class: type[Row],
    *,
    fingerprint: str,
    recipe: Mapping[str, object] | None = None,
) -> pa.Table:
    """Publish `rows` as Parquet with their fingerprint (and recipe) in the footer."""
    metadata = {"fingerprint": fingerprint, "recipe": json.dumps(recipe or {}, sort_keys=True)}
    table = to_table(rows, row_class, metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    publish(path, sink.getvalue().to_pybytes())
    return table


def read_rows(path: UPath, row_class: type[Row]) -> list[Row]:
    """The rows that `write_rows` stored.

    Raises:
        FileNotFoundError: when nothing is stored at `path`.
    """
    return from_table(read_table(path), row_class)


def read_folder(folder: UPath, row_class: type[Row]) -> list[Row]:
    """The rows of all Parquet files in `folder`, by file name; none when there is no folder."""
    files = sorted(folder.glob("*.parquet"), key=str) if folder.is_dir() else []
    if not files:
        return []
    tables = pa.concat_tables(map(read_table, files), promote_options="default")
    return from_table(tables, row_class)


@dataclass(frozen=True, slots=True)
class StoredRow(Generic[Row]):
    """The only row of a file, and the fingerprint in its footer."""

    row: Row
    fingerprint: str


class RowFolder(Generic[Row]):
    """A folder of files of one row each, of which only those are read again that changed.

    Only a local folder says which did; elsewhere all are read.
    """

    def __init__(self, folder: UPath, row_class: type[Row]) -> None:
        self._folder, self._row_class = folder, row_class
        self._known: dict[str, tuple[tuple[int, int, int], StoredRow[Row]]] = {}

    def read(self) -> dict[str, StoredRow[Row]]:
        """The rows by file name without suffix, in its order; none when there is no folder."""
        if not self._folder.is_dir():
            return {}
        if not is_local(self._folder):
            files = sorted(self._folder.glob("*.parquet"), key=str)
            return {file.stem: self._read(file) for file in files}
        known = self._known
        self._known = {}
        with os.scandir(self._folder.path) as entries:
            files = sorted((e for e in entries if _is_table(e.name)), key=lambda e: e.name)
        for file in files:
            status = file.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            name = file.name.removesuffix(".parquet")
            held = known.get(name)
            row = held[1] if held and held[0] == seen else self._read(UPath(file.path))
            self._known[name] = (seen, row)
        return {name: row for name, (_, row) in self._known.items()}

    def _read(self, path: UPath) -> StoredRow[Row]:
        table = read_table(path)
        (row,) = from_table(table, self._row_class)
        return StoredRow(row, (table.schema.metadata or {}).get(b"fingerprint", b"").decode())


def _is_table(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    """The stored table, or some of its columns.

    Raises:
        FileNotFoundError: when nothing is stored at `path`.
        pa.ArrowInvalid: when it is not Parquet.
    """
    # On this thread alone: one of Arrow's own that still holds a Python file when the interpreter
    # ends aborts the process. For tables of this size it is the faster way too.
    with path.open("rb") as file:
        return pq.ParquetFile(file, pre_buffer=False).read(columns, use_threads=False)


def stored_fingerprint(path: UPath) -> str | None:
    """The fingerprint in the footer of `path`; None when the file is missing or unreadable."""
    value = _footer(path).get(b"fingerprint")
    return value.decode() if value else None


def stored_recipe(path: UPath) -> dict[str, Any]:
    """The recipe in the footer of `path`; empty when there is none, or no readable file."""
    value = _footer(path).get(b"recipe")
    return dict(json.loads(value)) if value else {}


def _footer(path: UPath) -> dict[bytes, bytes]:
    try:
        with path.open("rb") as file:
            return pq.read_schema(file).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return {}


def _local_companion(root: str) -> str:
    """Where the files of a remote store that need a local disk go."""
    slug = "".join(c if c.isalnum() else "-" for c in root).strip("-")
    return str(Path.home() / ".cache" / "videomme" / slug)
