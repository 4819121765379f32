"""The content of the data folder: stored files, the evaluations that use them, and garbage.

Frames, packet indexes, aligned subtitles and prompts can be rebuilt. Responses, scores and records
are results, which are listed but never removed.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from upath import UPath

from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError, NotReadyError, VideoMMEError
from videomme_pipeline.frames.cache import stored_sampling
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Dimension, variant_in
from videomme_pipeline.stages.chain import CHAIN, all_stages
from videomme_pipeline.stages.stage import BenchmarkStage
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.objects import FileState, file_states
from videomme_pipeline.storage.results import MANIFEST, Results
from videomme_pipeline.storage.tables import read_files
from videomme_pipeline.videos.probe import Video

KEPT_DAYS = 30
"""A younger file is no garbage: a setting may be switched back, and another machine may need it."""
_KEPT_SECONDS = KEPT_DAYS * 86_400
_BY_CONTENT = ("frames", "packets", "sound")
"""The kinds of files that all benchmarks share, by the hash of a video's content."""
_REBUILT = ("questions", "videos", "subtitles", "prompts", *_BY_CONTENT)
"""The kinds of files that are removed if nothing needs them. Responses and scores never are."""
_OF_STAGES = [folder for s in CHAIN for folder in (s.name, s.companion) if folder]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """The stored files of one kind and name, such as the frames of a sampling.

    `named_by` contains the evaluations that use the files, and "samplings.yaml" if it offers the
    sampling. `needed` is the number of files that a plan or shown scores need.
    """

    kind: str
    name: str
    videos: int
    files: int
    bytes: int
    needed: int = 0
    named_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A file that can be removed, and why."""

    path: UPath
    bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A stored file, with its sampling, track, evaluation or benchmark as `name`.

    `video` is an id, or for the kinds in `_BY_CONTENT` the hash of a video's content. Only files of
    stages have a `fingerprint`.
    """

    kind: str
    name: str
    path: UPath
    state: FileState
    video: str | None = None
    fingerprint: str | None = None

    @property
    def is_old(self) -> bool:
        """True if the file was written `KEPT_DAYS` days ago; False if the store does not say."""
        written = self.state.modified
        return written is not None and written < time.time() - _KEPT_SECONDS


class DataFolder:
    """The files of a project's data folder, listed once."""

    def __init__(self, project: Project) -> None:
        self._project, self._store = project, project.store
        self._samplings: dict[str, str] = {}
        """The name of the sampling of frames, by the fingerprint of their settings."""

    def shelves(self) -> list[CacheEntry]:
        """Everything that is stored, by kind and name."""
        by_name: dict[tuple[str, str], list[_File]] = defaultdict(list)
        for file in self._files:
            by_name[file.kind, file.name].append(file)
        return [
            CacheEntry(
                kind=kind,
                name=name,
                videos=len({file.video for file in files} - {None}),
                files=len(files),
                bytes=sum(file.state.bytes for file in files),
                needed=sum(map(self._is_needed, files)),
                named_by=self._users(kind, name),
            )
            for (kind, name), files in sorted(by_name.items())
        ]

    def garbage(self, samplings: Collection[str] = ()) -> list[Garbage]:
        """The files that nothing needs, and all frames of `samplings`, even needed ones.

        A file is needed if the plan names it, or if scores were computed from it that are shown or
        were shown in the last `KEPT_DAYS` days. Raises ConfigurationError if a configuration file
        has a mistake, because its samplings are then unknown, or if the cache has no frames of one
        of `samplings`.
        """
        for problem in self._project.configuration.problems.values():
            raise ConfigurationError(
                "cannot find unused files while a configuration file has a mistake; fix it first: "
                f"{problem}"
            )
        cached = sorted({file.name for file in self._files if file.kind == "frames"})
        for name in samplings:
            if name not in cached:
                hint = nearest(name, cached) if cached else "no frames are cached"
                raise ConfigurationError(f"no frames of the sampling `{name}` are cached: {hint}")
        return list(self._garbage(samplings))

    def forget(self, evaluation: str) -> None:
        """Remove the scores of an evaluation and the record that they are shown.

        Its answers stay in the journal and in the files of responses. Raises ConfigurationError if
        the evaluation has no scores, or its file still exists.
        """
        if evaluation in self._project.configuration.evaluations:
            raise ConfigurationError(
                f"the evaluation {evaluation} still has a file; remove it before you forget its "
                "scores"
            )
        results = Results(self._store, uses_plan=False)
        shown = results.find(evaluation)
        if shown is None:
            scored = [other.evaluation for other in results.scores()]
            raise ConfigurationError(
                f"no stored scores of an evaluation `{evaluation}`: {nearest(evaluation, scored)}"
            )
        for kind in ("shown", "scores", "evaluated_videos"):
            folder = self._store.path(shown.benchmark, kind, evaluation)
            for name in file_states(folder):
                (folder / name).unlink(missing_ok=True)

    def _garbage(self, samplings: Collection[str]) -> Iterator[Garbage]:
        videos = (file.path for file in self._files if file.kind == "videos")
        contents = {video.content_hash for video in read_files(videos, Video)}
        for file in self._files:
            if file.kind == "frames" and self._is_needed(file):
                contents.add(str(file.video))
        for file in self._files:
            if file.kind == "frames" and file.name in samplings:
                why = f"frames of {file.name}, as requested"
            elif file.kind not in _REBUILT or not file.is_old:
                continue
            elif file.fingerprint is None and file.video not in contents:
                why = f"{file.kind} of no stored video"
            elif not self._is_needed(file):
                why = f"{file.kind} of {file.name} that no plan and no shown score needs"
            else:
                continue
            yield Garbage(path=file.path, bytes=file.state.bytes, why=why)
        for path in self._store.set_aside_files():
            yield Garbage(path=path, bytes=int(path.stat().st_size), why="damaged files")

    @cached_property
    def _files(self) -> list[_File]:
        shared = [file for kind in (*_BY_CONTENT, "decode_times") for file in self._list(kind)]
        return shared + [
            file
            for benchmark in self._store.benchmarks()
            for kind in (*_OF_STAGES, "nightly_runs")
            if kind != "frames"
            for file in self._list(kind, benchmark)
        ]

    def _list(self, kind: str, benchmark: str = "") -> Iterator[_File]:
        root = self._store.path(*filter(None, (benchmark, kind)))
        for text, state in file_states(root).items():
            file = _File(kind=kind, name="", path=root.joinpath(*text.split("/")), state=state)
            folder, name = text.partition("/")[0], StoredName.parse(text)
            if kind in ("packets", "sound"):
                yield replace(file, video=folder.removesuffix(".parquet"))
            elif kind == "decode_times":
                yield file
            elif kind == "nightly_runs":
                yield replace(file, name=folder)
            elif name is not None:
                own = self._sampling(file, name) if kind == "frames" else name.variant or benchmark
                yield replace(file, name=own, video=name.video, fingerprint=name.fingerprint)

    def _sampling(self, file: _File, name: StoredName) -> str:
        """The name of the sampling of frames, which is the same for all files with its settings."""
        if name.fingerprint not in self._samplings:
            self._samplings[name.fingerprint] = stored_sampling(file.path) or "unreadable"
        return self._samplings[name.fingerprint]

    @cached_property
    def _needed(self) -> set[tuple[str, str | None, str]]:
        """The keys (`_key`) of the files of the plan, and of those of recently shown scores."""
        needed = set[tuple[str, str | None, str]]()
        for stage in all_stages(self._project):
            if isinstance(stage, BenchmarkStage):
                names = _planned(stage)
                needed |= {_key(stage.name, name.video, name.fingerprint) for name in names}
        results = Results(self._store, uses_plan=False)
        for benchmark in results.benchmarks:
            for scores in results.recorded_since(benchmark, time.time() - _KEPT_SECONDS):
                for row, (kind, column) in product(scores.manifest, MANIFEST.items()):
                    needed.add(_key(kind, row["video_hash"], row[column]))
        return needed

    def _is_needed(self, file: _File) -> bool:
        if file.fingerprint is None:
            return True
        return _key(file.kind, file.video, file.fingerprint) in self._needed

    def _users(self, kind: str, name: str) -> tuple[str, ...]:
        benchmarks = self._project.benchmarks.values()
        dimensions = {d for s in CHAIN if kind in (s.name, s.companion) for d in s.dimensions}
        users = {
            evaluation.name
            for dimension in dimensions - {Dimension.VIDEO}
            for evaluation in self._project.configuration.evaluations.values()
            if variant_in(evaluation, dimension) == name
        }
        is_offered = kind == "frames" and any(b.offers(name) for b in benchmarks)
        return (*sorted(users), *(["samplings.yaml"] if is_offered else []))


def _key(kind: str, content: str | None, fingerprint: str) -> tuple[str, str | None, str]:
    """The key of a file. The fingerprint of frames does not contain the content of the video."""
    return kind, content if kind == "frames" else None, fingerprint


def _planned(stage: BenchmarkStage) -> Iterator[StoredName]:
    """Yield the names of the stage's files that are known, offered samplings included."""
    with suppress(NotReadyError):
        for partition in stage.partitions():
            with suppress(VideoMMEError):
                yield stage.target(partition).name


def by_reason(garbage: Iterable[Garbage]) -> list[dict[str, Any]]:
    """Each reason (`why`) with its number of `files` and their `bytes`, the largest size first."""
    files, sizes = Counter[str](), Counter[str]()
    for file in garbage:
        files[file.why] += 1
        sizes[file.why] += file.bytes
    return [{"why": why, "files": files[why], "bytes": size} for why, size in sizes.most_common()]


def remove(garbage: Iterable[Garbage]) -> None:
    """Delete the files, and every folder that is empty afterwards."""
    for item in garbage:
        if item.path.is_dir():
            item.path.fs.rm(item.path.path, recursive=True)
        item.path.unlink(missing_ok=True)
        folder = item.path.parent
        if not any(folder.iterdir()):
            folder.rmdir()
