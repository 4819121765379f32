"""Copies of finished tables between the data folder and another store, by content."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial

from upath import UPath

from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, StorageError
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.listing import Listing
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.tables import REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The result of copying one file, or all files. Names are relative to the store.

    `same` counts files that the target already contained. `different` names the files that the
    target contains with another content and keeps. `problems` has a message for each file that
    could not be copied.
    """

    copied: int = 0
    bytes: int = 0
    same: int = 0
    different: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: "Copied") -> "Copied":
        names = [field.name for field in fields(self)]
        return Copied(**{name: getattr(self, name) + getattr(other, name) for name in names})


def copy_tables(
    source: Store,
    target: Store,
    *,
    overwrite: bool = False,
    on_progress: Callable[[StageProgress], None],
) -> Copied:
    """Copy every finished table that `target` does not contain.

    Checksums of both sides are compared, so an interrupted copy resumes where it stopped. All bytes
    are verified before they are written, and a file appears whole or not at all. With `overwrite`,
    files with another content are replaced.
    """
    files, listing = source.tables(), Listing(target.root)
    paths = [target.path(*file.relative_to(source.root).parts) for file in files]
    are_stored = [listing.has(path) for path in paths]
    total, copied = len(files), Copied()
    copy = partial(_copy, target.root, overwrite)
    with ThreadPoolExecutor(REQUESTS) as threads:
        for done, result in enumerate(threads.map(copy, files, paths, are_stored), start=1):
            copied += result
            stored = f"{done:,} of {total:,} files are in {target.root}."
            on_progress(StageProgress(what="files", done=done, total=total, stored=stored))
    return copied


def check_license(store: Store, *, is_private: bool) -> None:
    """Check that the tables of a store may be copied to a place that others can read.

    Raises:
        ConfigurationError: if some belong to a benchmark whose license forbids sharing.
    """
    declared = known_benchmarks()
    restricted = [
        name
        for name in store.benchmarks()
        if name not in declared or not find_benchmark(name).is_public
    ]
    if restricted and not is_private:
        raise ConfigurationError(
            f"questions, subtitles and frames of {', '.join(restricted)} may not be shared: the "
            "license forbids it, or the benchmark is private; use `--private` if only people with "
            "access to the videos can read the target"
        )


def _copy(root: UPath, overwrite: bool, file: UPath, path: UPath, is_stored: bool) -> Copied:
    """Copy `file` to `path` below `root`. `is_stored` is True if `path` exists already."""
    try:
        if not is_stored:
            data = parquet.read_bytes(file)
            if publish(path, data, only_new=True):
                return Copied(copied=1, bytes=len(data))
        stored = _checksum(path)
        if stored == parquet.checksum(file):
            return Copied(same=1)
        if stored is not None and not overwrite:
            return Copied(different=("/".join(path.relative_to(root).parts),))
        data = parquet.read_bytes(file)
        publish(path, data)
    except (DamagedFileError, FileNotFoundError, StorageError) as error:
        return Copied(problems=(str(error),))
    return Copied(copied=1, bytes=len(data))


def _checksum(path: UPath) -> str | None:
    """The checksum of the target's file at `path`, or None if it is missing or damaged."""
    try:
        return parquet.checksum(path)
    except (FileNotFoundError, DamagedFileError):
        return None
