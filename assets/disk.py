"""What lies in the data folder, who still names it, and what may go.

Frames, packet indexes, aligned subtitles and prompts can be made again; what nothing names is
garbage. Responses, scores and nights are results: they are listed and never removed.
"""

import logging
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pydantic import Field
from rich.filesize import decimal
from upath import UPath

from assets.partitions import Dimension, variant_of
from assets.resources import Project
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation import Configuration
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.cache import frames_fingerprint, stored_sampling
from videomme_pipeline.store import Store, read_table

STORAGE_FILE = "storage.yaml"
UNFINISHED_SECONDS = 86_400
"""A temporary file that is older than this belongs to no run."""
_VARIANT_STAGES = {
    "subtitles": Dimension.TRACK,
    "prompts": Dimension.EVALUATION,
    "responses": Dimension.EVALUATION,
    "attempts": Dimension.EVALUATION,
    "scores": Dimension.EVALUATION,
    "observations": Dimension.EVALUATION,
}
_REMADE_FREELY = ("subtitles", "prompts")


class WhenExceeded(StrEnum):
    STOP = "stop"
    WARN = "warn"


class StorageSpec(Spec):
    """What `storage.yaml` says; without the file only the last free gigabyte is kept."""

    max_frames_gigabytes: float | None = Field(default=None, gt=0)
    """What all cached frames together may take, in 10⁹ bytes; None: no limit."""
    min_free_gigabytes: float = Field(default=1.0, ge=0)
    """What decoding leaves free on the disk."""
    when_exceeded: WhenExceeded = WhenExceeded.STOP


def read_storage(configuration: Configuration) -> StorageSpec:
    """The disk budget.

    Raises:
        ConfigurationError: when the file has mistakes.
    """
    path = configuration.folder / STORAGE_FILE
    return parse_spec(read_yaml(path), StorageSpec, str(path)) if path.exists() else StorageSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The stored files of one kind and name: the frames of a sampling, the prompts of an
    evaluation … `named_by` are the evaluations that use them; `offered` when samplings.yaml does.
    """

    kind: str
    name: str
    videos: int
    files: int
    bytes: int
    named_by: tuple[str, ...] = ()
    offered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A file that can go, and why."""

    path: UPath
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class FrameFile:
    """One file of the frame cache."""

    path: UPath
    video_hash: str
    recipe: str
    bytes: int


class DataFolder:
    """The files of a project's data folder, read once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._store = project.store

    def shelves(self) -> list[Shelf]:
        """Everything that is stored, by kind and name."""
        configuration = self._project.configuration
        users, offered = defaultdict[str, list[str]](list), set[str]()
        for evaluation in configuration.evaluations.values():
            users[evaluation.sampling_name].append(evaluation.name)
        for benchmark in configuration.benchmarks:
            offered.update(s.name for s in configuration.samplings.get(benchmark, ()))
        by_sampling: dict[str, list[FrameFile]] = defaultdict(list)
        for file in self.frames:
            by_sampling[self.sampling_of(file)].append(file)
        frames = [
            Shelf(
                kind="frames",
                name=sampling,
                videos=len({file.video_hash for file in files}),
                files=len(files),
                bytes=sum(file.bytes for file in files),
                named_by=tuple(sorted(users.get(sampling, ()))),
                offered=sampling in offered,
            )
            for sampling, files in sorted(by_sampling.items())
        ]
        packets = self._files("packets/*.parquet")
        return [
            *frames,
            *([_shelf("packets", "", packets)] if packets else []),
            *(shelf for name in self.benchmarks for shelf in self._of_benchmark(name)),
        ]

    def garbage(self, samplings: Collection[str] = ()) -> list[Garbage]:
        """What nothing names any more; and all frames of `samplings`, whoever names them.

        Raises:
            ConfigurationError: when what is named is not known: an evaluation file has a
                mistake, or there is no such sampling in the cache.
        """
        for problem in self._project.configuration.problems.values():
            raise ConfigurationError(
                f"nothing is removed while a file cannot be read, since what it names is not "
                f"known: {problem}"
            )
        known = sorted({self.sampling_of(file) for file in self.frames})
        for name in samplings:
            if name not in known:
                hint = nearest(name, known) if known else "no frames are cached"
                raise ConfigurationError(f"no frames of a sampling `{name}` are cached: {hint}")
        return [
            *self._garbage_frames(samplings),
            *(
                Garbage(path=path, bytes=_size(path), why="packet index of no stored video")
                for path in self._files("packets/*.parquet")
                if path.stem not in self.video_hashes
            ),
            *self._garbage_of_benchmarks(),
            *self._unfinished(),
        ]

    @cached_property
    def frames(self) -> list[FrameFile]:
        """The files of the frame cache."""
        return [
            FrameFile(path, path.parent.name, path.stem, _size(path))
            for path in self._files("frames/*/*.parquet")
        ]

    @cached_property
    def benchmarks(self) -> list[str]:
        """The benchmarks of which anything is stored, also those no longer set up."""
        return sorted(path.parent.name for path in self._store.path().glob("*/questions.parquet"))

    @cached_property
    def video_hashes(self) -> frozenset[str]:
        """The content of every video that is stored, of all benchmarks."""
        found = (
            read_table(path, ["content_hash"]).column("content_hash").to_pylist()
            for path in self._files("*/videos/*.parquet")
        )
        return frozenset(video_hash for hashes in found for video_hash in hashes)

    @cached_property
    def _named(self) -> dict[str, str]:
        """The sampling of every recipe that the configuration names."""
        configuration = self._project.configuration
        return {
            frames_fingerprint(sampling, duration): name
            for benchmark in configuration.benchmarks
            for name, sampling in configuration.samplings_of(benchmark).items()
            for duration in (None, *Duration)
        }

    def sampling_of(self, file: FrameFile) -> str:
        """The name of the sampling that a frame file was made with."""
        if file.recipe not in self._named:
            self._others.setdefault(file.recipe, stored_sampling(file.path) or "unreadable")
            return self._others[file.recipe]
        return self._named[file.recipe]

    @cached_property
    def _others(self) -> dict[str, str]:
        """The samplings of recipes that nothing names, as their files say."""
        return {}

    def _garbage_frames(self, samplings: Collection[str]) -> Iterator[Garbage]:
        for file in self.frames:
            sampling = self.sampling_of(file)
            if sampling in samplings:
                why = f"frames of {sampling}, as asked"
            elif file.recipe not in self._named:
                why = f"frames of {sampling}, which no evaluation or samplings.yaml names"
            elif file.video_hash not in self.video_hashes:
                why = "frames of a video that is no longer there"
            else:
                continue
            yield Garbage(path=file.path, bytes=file.bytes, why=why)

    def _garbage_of_benchmarks(self) -> Iterator[Garbage]:
        for benchmark in self.benchmarks:
            for kind in _REMADE_FREELY:
                for name, files in self._by_variant(benchmark, kind).items():
                    if name not in self._users(benchmark, kind):
                        for path in files:
                            why = f"{kind} of {name}, which no evaluation file names"
                            yield Garbage(path=path, bytes=_size(path), why=why)

    def _unfinished(self) -> Iterator[Garbage]:
        """Damaged frames that were set aside, and temporary files that a killed run left."""
        for path in self._files("frames/*/*.corrupt"):
            yield Garbage(path=path, bytes=_size(path), why="damaged, set aside")
        for path in self._files("frames/*/.*.parquet.*"):
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                yield Garbage(path=path, bytes=_size(path), why="unfinished file of a killed run")

    def _of_benchmark(self, benchmark: str) -> Iterator[Shelf]:
        videos = self._files(f"{benchmark}/videos/*.parquet")
        if videos:
            yield _shelf("videos", benchmark, videos)
        for kind in _VARIANT_STAGES:
            users = self._users(benchmark, kind)
            for name, files in sorted(self._by_variant(benchmark, kind).items()):
                yield _shelf(kind, name, files, users.get(name, ()))

    def _users(self, benchmark: str, kind: str) -> Mapping[str, tuple[str, ...]]:
        """The evaluations of a benchmark by the track or evaluation that they read."""
        users: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for evaluation in self._project.configuration.evaluations_of(benchmark):
            variant = variant_of(evaluation, _VARIANT_STAGES[kind])
            if variant:
                users[variant] += (evaluation.name,)
        return {variant: tuple(sorted(names)) for variant, names in users.items()}

    def _by_variant(self, benchmark: str, kind: str) -> Mapping[str, list[UPath]]:
        files: dict[str, list[UPath]] = defaultdict(list)
        if kind == "scores":
            for path in self._files(f"{benchmark}/scores/*.parquet"):
                files[path.stem].append(path)
        else:
            for path in self._files(f"{benchmark}/{kind}/*/*.parquet"):
                files[path.parent.name].append(path)
        return files

    def _files(self, pattern: str) -> list[UPath]:
        return sorted(self._store.path().glob(pattern), key=str)


def remove(garbage: Iterable[Garbage]) -> None:
    """Delete the files, and folders of frames that are empty then."""
    for item in garbage:
        item.path.unlink(missing_ok=True)
        folder = item.path.parent
        if not any(folder.iterdir()):
            folder.rmdir()


class FrameBudget:
    """Whether more frames may be stored: the limits of `storage.yaml` beside what is stored."""

    def __init__(self, spec: StorageSpec, store: Store) -> None:
        self._spec, self._store = spec, store
        self._by_recipe: dict[str, list[int]] = defaultdict(list)
        for path in store.path().glob("frames/*/*.parquet"):
            self._by_recipe[path.stem].append(_size(path))
        self.stored_bytes = sum(map(sum, self._by_recipe.values()))

    def expected_bytes(self, recipes: Iterable[str]) -> float:
        """What frame sets of these recipes take, by those that are stored; unknown ones count 0."""
        sizes = (self._by_recipe.get(recipe, [0]) for recipe in recipes)
        return sum(sum(known) / len(known) for known in sizes)

    def add(self, stored_bytes: int) -> None:
        """Count frames that were just stored."""
        self.stored_bytes += stored_bytes

    def objection(self, expected_bytes: float = 0.0) -> str | None:
        """Why no more may be stored; None when there is room for `expected_bytes`, or the
        configuration asks for no more than a warning, which is logged."""
        problem = self._problem(expected_bytes)
        if problem is None or self._spec.when_exceeded is WhenExceeded.STOP:
            return problem
        logging.getLogger(__name__).warning(problem)
        return None

    def _problem(self, expected_bytes: float) -> str | None:
        advice = "free some (videomme cache gc), raise it, or set `when_exceeded: warn`"
        more = decimal(round(expected_bytes))
        wanted = f" and about {more} more are wanted" if expected_bytes else ""
        most = self._spec.max_frames_gigabytes
        if most is not None and self.stored_bytes + expected_bytes > most * 1e9:
            return (
                f"{decimal(self.stored_bytes)} of frames are stored{wanted}, and "
                f"{STORAGE_FILE} allows `max_frames_gigabytes: {most:g}`; {advice}"
            )
        folder = self._store.local()
        folder.mkdir(parents=True, exist_ok=True)
        free, least = shutil.disk_usage(folder).free, self._spec.min_free_gigabytes
        if free - expected_bytes < least * 1e9:
            return (
                f"{folder}: {decimal(free)} are free{wanted}, and {STORAGE_FILE} keeps "
                f"`min_free_gigabytes: {least:g}`; {advice}"
            )
        return None


def _shelf(kind: str, name: str, files: list[UPath], named_by: tuple[str, ...] = ()) -> Shelf:
    return Shelf(
        kind=kind,
        name=name,
        videos=0 if kind in ("scores", "observations") else len(files),
        files=len(files),
        bytes=sum(map(_size, files)),
        named_by=named_by,
    )


def _size(path: UPath) -> int:
    return int(path.stat().st_size)
