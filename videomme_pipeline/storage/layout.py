"""The data folder: every path and every set of files in it.

Paths depend on names, content hashes and fingerprints only, so any process finds the files of
another one. There are three kinds of files: those that stages build, which are written once;
records, which are kept; and those in `local/`, which belong to this machine and are never copied.
This module does not decide which files are stale.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from upath import UPath

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.storage.names import (
    NO_BENCHMARKS,
    SUFFIX,
    Planned,
    StageNames,
    StoredName,
    is_part,
    record_name,
    record_of,
    timed_record,
    timed_record_of,
)
from videomme_pipeline.storage.objects import (
    file_names,
    is_local,
    list_folders,
    listing,
    open_folder,
)
from videomme_pipeline.storage.publish import remove_left_over
from videomme_pipeline.storage.tables import SET_ASIDE

_ASCII_NAME = re.compile(r"[\w~-][\w.~-]*", re.ASCII)
LOCAL = "local"
"""The folder of databases, locks, logs and pages, which belong to this machine."""
MEDIA = "media"
"""The folder of a benchmark's videos and subtitle files."""
_RESULTS = {
    *(MEDIA, "shown", "servers", "nightly_runs", "findings", "references", "checkpoints", "races")
}
"""The folders of files that nothing can build again."""


@dataclass(frozen=True, slots=True)
class Store:
    """The data folder; `root` is a local path or any fsspec URL (`s3://…`)."""

    root: UPath
    local_disk: Path | None = None
    """The folder of SQLite files, if they are not in the data folder."""
    planned: Callable[[], Mapping[str, Planned]] = field(default=dict, repr=False, compare=False)
    """Returns what the project would build now, by benchmark."""
    warehouse_name: str = "videomme.duckdb"

    @classmethod
    def at(
        cls, root: str | Path | UPath, local_disk: Path | None = None, *, title: str = "data folder"
    ) -> "Store":
        """The data folder at a path or URL, with SQLite files in `local_disk`.

        `title` names the folder in errors.

        Raises:
            ConfigurationError: if the URL contains a password or needs a package that is not
                installed, or its scheme is unknown, or DuckDB cannot use the path.
        """
        path = open_folder(root, title)
        if is_local(path) and set("?\0") & set(str(path.absolute())):
            raise ConfigurationError(
                f"{title} {root}: DuckDB cannot use a folder with `?` or NUL in its path; choose "
                "another folder"
            )
        return cls(path, local_disk)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out the function `planned` when a worker process gets the store."""
        return Store, (self.root, self.local_disk)

    def with_deleted(self) -> "Store":
        """This folder with a DuckDB file of its own, in which deleted evaluations are shown, too.

        The scores of every evaluation are then those that runs recorded.
        """
        return replace(self, planned=dict, warehouse_name="with_deleted.duckdb")

    def path(self, *parts: str) -> UPath:
        return self.root.joinpath(*parts)

    def local(self, *parts: str) -> Path:
        """A path that must be on a local disk. Beside an object store: `~/.cache/videomme`."""
        path = self.path(*parts)
        if not is_local(path):
            slug = "".join(c if c.isalnum() else "-" for c in str(self.root)).strip("-")
            return Path.home().joinpath(".cache", "videomme", slug, *parts)
        return Path(path.path)

    # Paths. `fingerprint` parts are those of the stage's settings.

    def built(self, benchmark: str, stage: str, name: StoredName) -> UPath:
        """The file that a stage of a benchmark builds. All benchmarks share frames."""
        folder = [stage] if stage == "frames" else [benchmark, stage]
        return self.path(*folder, *str(name).split("/"))

    def media(self, benchmark: str) -> Path:
        """The folder of video and subtitle files, as they were downloaded or drawn."""
        return self.local(benchmark, MEDIA)

    def packets(self, video_hash: str) -> UPath:
        return self.path("packets", f"{video_hash}.parquet")

    def frames(self, video_hash: str, settings_fingerprint: str) -> UPath:
        """One file per video content and frame settings, shared by all benchmarks."""
        return self.path("frames", str(StoredName(None, video_hash, settings_fingerprint)))

    def decode_times(self, name: str) -> UPath:
        """CPU time of the frames of one run, which two machines would write differently."""
        return self.path("decode_times", f"{name}.parquet")

    def sound(self, video_hash: str, version: int) -> UPath:
        """One file per video content, shared by all benchmarks."""
        return self.path("sound", video_hash, f"{version}.parquet")

    def observation(self, benchmark: str, evaluation: str, date: str, part: str = "") -> UPath:
        """The scored questions of one nightly run, or a part; `date` is ISO (`2026-11-20`)."""
        return self.path(benchmark, "nightly_runs", evaluation, record_name(date, part))

    def findings(self, benchmark: str, evaluation: str, date: str) -> UPath:
        return self.path(benchmark, "findings", evaluation, f"{date}.parquet")

    def checkpoint(self, run: str, step: int, now: datetime) -> UPath:
        """A record of one checkpoint of a training run, with its verdicts as of `now`."""
        return self.path("checkpoints", timed_record(f"{run}-{step}", now))

    def race(self, baseline: str, candidate: str, now: datetime) -> UPath:
        """A record of the looks of a race of two evaluations as of `now`."""
        return self.path("races", baseline, timed_record(candidate, now))

    def failures(self, benchmark: str, stage: str) -> UPath:
        """The folder of the failed partitions of a stage. Shared stages have the benchmark "-"."""
        return self.path("failures", benchmark, stage)

    def shown(self, benchmark: str, evaluation: str) -> UPath:
        """The folder of the records of the scores that readers show."""
        return self.path(benchmark, "shown", evaluation)

    def sqlite(self, name: str) -> Path:
        """An SQLite file, which must be on a local disk."""
        return self.local_disk / name if self.local_disk else self.local(LOCAL, name)

    @property
    def journal(self) -> Path:
        return self.sqlite("journal.sqlite")

    @property
    def locks(self) -> Path:
        """The folder of the lock files through which runs share machines and endpoints."""
        return self.local(LOCAL, "locks")

    def servers(self, model_fingerprint: str) -> UPath:
        """The folder of the records of the servers that a model had."""
        return self.path("servers", model_fingerprint)

    @property
    def server_logs(self) -> Path:
        """The folder of the logs of servers that runs have started."""
        return self.local(LOCAL, "server_logs")

    @property
    def hashes(self) -> Path:
        """The cache of content hashes."""
        return self.sqlite("hashes.sqlite")

    @property
    def warehouse(self) -> Path:
        return self.local(LOCAL, self.warehouse_name)

    def report(self, name: str = "index.html") -> Path:
        """A report page, or a folder of pages."""
        return self.local(LOCAL, "reports", name)

    # Files that exist, sorted by path.

    def benchmarks(self) -> list[str]:
        """The benchmarks with stored questions or scores, sorted."""
        return [
            name
            for name in self._folders()
            if any(self.names(name, stage).texts for stage in ("questions", "scores"))
        ]

    def names(self, *folder: str) -> StageNames:
        """The names of the files in a folder such as ("smoke", "prompts") and in its folders."""
        return StageNames(file_names(self.path(*folder)))

    def files(self, *folder: str, suffix: str = SUFFIX) -> list[UPath]:
        """The tables in a folder and in its folders."""
        return [
            self.path(*folder, *parts)
            for name in sorted(file_names(self.path(*folder)))
            if name.endswith(suffix) and all(map(_is_name, parts := name.split("/")))
        ]

    def variant_files(
        self, kind: str, benchmark: str | None = None, variant: str | None = None
    ) -> list[UPath]:
        """The tables of a kind, such as "subtitles", by default of all benchmarks and variants."""
        benchmarks = self._folders() if benchmark is None else [benchmark]
        variants = [] if variant is None else [variant]
        files = (file for name in benchmarks for file in self.files(name, kind, *variants))
        return sorted(files, key=str)

    def tables(self) -> list[UPath]:
        """Every table, except those in media folders and local ones."""
        parts = ((file, file.relative_to(self.root).parts) for file in self.files())
        return [file for file, (top, *rest) in parts if top != LOCAL and MEDIA not in rest[:1]]

    def set_aside_files(self) -> list[UPath]:
        """Damaged files that were set aside, except results, which cannot be built again."""
        files = self.files(suffix=SET_ASIDE)
        return [file for file in files if _RESULTS.isdisjoint(file.relative_to(self.root).parts)]

    def observation_files(
        self, benchmark: str | None = None, evaluation: str | None = None
    ) -> list[UPath]:
        """The nightly runs, one file each: the complete one, or the part with most answers."""
        return _best_records(self.variant_files("nightly_runs", benchmark, evaluation))

    def record_file(self, kind: str, benchmark: str, evaluation: str, name: str) -> UPath:
        """The best file of a record of a kind such as "references", or its future complete file."""
        stored = _best_records(self.variant_files(kind, benchmark, evaluation))
        future = self.path(benchmark, kind, evaluation, record_name(name))
        return next((path for path in stored if record_of(path) == name), future)

    def newest_files(self, kind: str) -> list[UPath]:
        """The newest file of each record that changes, of the kind "checkpoints" or "races"."""
        newest = {path.with_name(timed_record_of(path)): path for path in self.files(kind)}
        return list(newest.values())

    def remove_left_over(self) -> None:
        """Remove the scratch folders of processes of this machine that were killed."""
        remove_left_over(self.local())

    def _folders(self) -> list[str]:
        with listing(self.root):
            if is_local(self.root):
                root = Path(self.root.path)
                names = [path.name for path in root.iterdir()] if root.is_dir() else []
            else:
                names = list_folders(self.root)
        return [name for name in sorted(names) if name not in NO_BENCHMARKS and _is_name(name)]


def _best_records(files: Iterable[UPath]) -> list[UPath]:
    """The complete file of each record, or its part with most answers. `files` must be sorted."""
    complete_last = sorted(files, key=lambda path: not is_part(path))
    best = {path.with_name(record_of(path)): path for path in complete_last}
    return sorted(best.values(), key=str)


def is_name_character(character: str) -> bool:
    """True for letters, accents and digits of any script, and for `_`, `.` and `-`."""
    return character in "_.-" or unicodedata.category(character)[0] in "LMN"


def _is_name(part: str) -> bool:
    """False for a part such as `..` or a line break, which only keys of object stores have."""
    if _ASCII_NAME.fullmatch(part):
        return True
    return part[:1] not in ("", ".") and all(c == "~" or is_name_character(c) for c in part)
