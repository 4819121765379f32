"""The content of the data folder: stored files, the evaluations that use them, and garbage.

Frames, packet indexes, aligned subtitles and prompts can be rebuilt. Responses, scores and records
are results, which are listed but never removed.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from upath import UPath

from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError, NotReadyError, VideoMMEError
from videomme_pipeline.frames.cache import DecodeTime, stored_sampling
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import variant_in
from videomme_pipeline.stages.chain import CHAIN, all_stages
from videomme_pipeline.stages.stage import BenchmarkStage
from videomme_pipeline.storage.listing import file_states
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.storage.results import MANIFEST, Results
from videomme_pipeline.storage.tables import read_files
from videomme_pipeline.videos.probe import Video

KEPT_DAYS = 30
"""A younger file is never garbage: a setting may be switched back, and another machine may need
it."""
_REBUILT = ("questions", "videos", "subtitles", "prompts")
"""The stages of a benchmark whose files are removed if nothing needs them. Frames are shared by all
benchmarks. Responses and scores are never removed."""
_SHARED = ("decode_times", "packets", "sound")
_RECORDS = ("nightly_runs", "baselines")
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """The stored files of one kind and name, such as the frames of a sampling.

    `named_by` contains the evaluations that use the files. `offered` is True if samplings.yaml
    contains the sampling. `needed` is the number of files that a plan or shown scores need.
    """

    kind: str
    name: str
    videos: int
    files: int
    bytes: int
    needed: int = 0
    named_by: tuple[str, ...] = ()
    offered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A file that can be removed, and why. `cpu_seconds` is the cost of decoding it again."""

    path: UPath
    bytes: int
    why: str
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A stored file of a stage."""

    benchmark: str
    stage: str
    name: StoredName
    path: UPath
    state: FileState


class DataFolder:
    """The files of a project's data folder, listed once."""

    def __init__(self, project: Project) -> None:
        self._project, self._store = project, project.store

    def shelves(self) -> list[CacheEntry]:
        """Everything that is stored, by kind and name."""
        configuration = self._project.configuration
        offered = {
            s.name for b in configuration.benchmarks for s in configuration.samplings.get(b, ())
        }
        by_name: dict[tuple[str, str], list[_File]] = defaultdict(list)
        for file in [*self._frames, *self._built]:
            by_name[file.stage, self._variant(file)].append(file)
        shelves = [
            CacheEntry(
                kind=kind,
                name=name,
                videos=len({_video(file) for file in files} - {None}),
                files=len(files),
                bytes=sum(file.state.bytes for file in files),
                needed=sum(self._is_needed(file) for file in files),
                named_by=self._users(kind, name),
                offered=kind == "frames" and name in offered,
            )
            for (kind, name), files in sorted(by_name.items())
        ]
        others = [(kind, "", file_states(self._store.path(kind))) for kind in _SHARED]
        for benchmark in self._store.benchmarks():
            for kind in _RECORDS:
                by_evaluation: dict[str, dict[str, FileState]] = defaultdict(dict)
                for name, state in file_states(self._store.path(benchmark, kind)).items():
                    by_evaluation[name.partition("/")[0]][name] = state
                others += [(kind, name, states) for name, states in sorted(by_evaluation.items())]
        return shelves + [
            CacheEntry(
                kind=kind,
                name=name,
                videos=0 if kind not in ("packets", "sound") else len(states),
                files=len(states),
                bytes=sum(state.bytes for state in states.values()),
                needed=len(states),
            )
            for kind, name, states in others
            if states
        ]

    def garbage(self, samplings: Collection[str] = ()) -> list[Garbage]:
        """The files that nothing needs, and all frames of `samplings`, even needed ones.

        A file is needed if the plan names it, or if scores were computed from it that are shown or
        were shown in the last `KEPT_DAYS` days.

        Raises:
            ConfigurationError: if a configuration file has a mistake, because its samplings are
                then unknown, or if the cache has no frames of one of `samplings`.
        """
        for problem in self._project.configuration.problems.values():
            raise ConfigurationError(
                "cannot find unused files while a configuration file has a mistake; fix it first: "
                f"{problem}"
            )
        cached = sorted({self._variant(file) for file in self._frames})
        for name in samplings:
            if name not in cached:
                hint = nearest(name, cached) if cached else "no frames are cached"
                raise ConfigurationError(f"no frames of the sampling `{name}` are cached: {hint}")
        return [*self._garbage(samplings), *self._damaged()]

    def forget(self, evaluation: str) -> None:
        """Remove the scores of an evaluation and the record that they are shown.

        Its answers stay in the journal and in the files of responses.

        Raises:
            ConfigurationError: if the evaluation has no scores, or its file still exists.
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
        hashes = {file.name.variant for file in self._frames if self._is_needed(file)}
        for file in [*self._frames, *self._built]:
            if file.stage == "frames" and self._variant(file) in samplings:
                why = f"frames of {self._variant(file)}, as requested"
            elif (
                file.stage not in ("frames", *_REBUILT)
                or self._is_needed(file)
                or _age_days(file.state) < KEPT_DAYS
            ):
                continue
            else:
                name = self._variant(file)
                why = f"{file.stage} of {name} that no plan and no shown score needs"
            yield Garbage(
                path=file.path,
                bytes=file.state.bytes,
                why=why,
                cpu_seconds=self._decode_seconds.get((file.name.variant, file.name.fingerprint), 0)
                if file.stage == "frames"
                else 0.0,
            )
        contents = hashes | self._video_hashes
        for kind in ("packets", "sound"):
            for name, state in file_states(self._store.path(kind)).items():
                content = name.partition("/")[0].removesuffix(".parquet")
                if content not in contents and _age_days(state) >= KEPT_DAYS:
                    path = self._store.path(kind, *name.split("/"))
                    yield Garbage(path=path, bytes=state.bytes, why=f"{kind} of no stored video")

    def _damaged(self) -> Iterator[Garbage]:
        for path in self._store.set_aside_files():
            yield Garbage(path=path, bytes=int(path.stat().st_size), why="damaged files")

    @cached_property
    def _built(self) -> list[_File]:
        """The files of all stages except frames."""
        return [
            file
            for benchmark in self._store.benchmarks()
            for stage in CHAIN
            for folder in filter(None, (stage.name, stage.companion))
            if folder != "frames"
            for file in self._files(benchmark, folder)
        ]

    @cached_property
    def _frames(self) -> list[_File]:
        return list(self._files("", "frames"))

    def _files(self, benchmark: str, folder: str) -> Iterator[_File]:
        root = self._store.path(*filter(None, (benchmark, folder)))
        for text, state in file_states(root).items():
            name = StoredName.parse(text)
            if name is not None:
                path = root.joinpath(*text.split("/"))
                yield _File(benchmark=benchmark, stage=folder, name=name, path=path, state=state)

    @cached_property
    def _planned(self) -> frozenset[tuple[str, str]]:
        """Stage and fingerprint of the files of the plan, offered samplings included."""
        names = set[tuple[str, str]]()
        for stage in all_stages(self._project):
            if not isinstance(stage, BenchmarkStage):
                continue
            for partition in _known_partitions(stage):
                try:
                    name = stage.target(partition).name
                except VideoMMEError:
                    continue
                names.add((stage.name, name.fingerprint))
        return frozenset(names)

    @cached_property
    def _in_manifests(self) -> frozenset[tuple[str, str]]:
        """Stage and fingerprint of the files that recently shown scores were computed from."""
        results, names = Results(self._store, uses_plan=False), set[tuple[str, str]]()
        recent = time.time() - KEPT_DAYS * _DAY_SECONDS
        for benchmark in results.benchmarks:
            for scores in results.recorded_since(benchmark, recent):
                for row in scores.manifest:
                    names |= {(stage, row[c]) for stage, c in MANIFEST.items() if row[c]}
                    if row["frames_fingerprint"]:
                        names.add(("frames", row["frames_fingerprint"]))
        return frozenset(names)

    def _is_needed(self, file: _File) -> bool:
        key = file.stage, file.name.fingerprint
        return key in self._planned or key in self._in_manifests

    @cached_property
    def _video_hashes(self) -> set[str | None]:
        """The content hashes of the stored videos of all benchmarks."""
        rows = (file.path for file in self._built if file.stage == "videos")
        return {row.content_hash for row in read_files(rows, Video)}

    @cached_property
    def _decode_seconds(self) -> Mapping[tuple[str | None, str], float]:
        """The CPU time that frames took, by video and settings."""
        rows = read_files(self._store.decode_times_files(), DecodeTime)
        return {(row.video_hash, row.frames_fingerprint): row.decode_cpu_seconds for row in rows}

    @cached_property
    def _samplings(self) -> dict[str, str]:
        """The name of the sampling of each file of frames, by the fingerprint of its settings."""
        names: dict[str, str] = {}
        for file in self._frames:
            if file.name.fingerprint not in names:
                names[file.name.fingerprint] = stored_sampling(file.path) or "unreadable"
        return names

    def _variant(self, file: _File) -> str:
        if file.stage == "frames":
            return self._samplings[file.name.fingerprint]
        return file.name.variant or file.benchmark

    def _users(self, kind: str, name: str) -> tuple[str, ...]:
        """The evaluations that use the files of a sampling, a track or an evaluation."""
        dimension = next(
            (
                d
                for s in CHAIN
                if kind in (s.name, s.companion)
                for d in s.dimensions
                if d != "video"
            ),
            None,
        )
        if dimension is None:
            return ()
        evaluations: Sequence[Any] = list(self._project.configuration.evaluations.values())
        return tuple(sorted(e.name for e in evaluations if variant_in(e, dimension) == name))


def _known_partitions(stage: BenchmarkStage) -> Sequence[Any]:
    """The partitions of a stage, none if they are not known."""
    try:
        return stage.partitions()
    except NotReadyError:
        return ()


def _video(file: _File) -> str | None:
    return file.name.variant if file.stage == "frames" else file.name.video


def _age_days(state: FileState) -> float:
    """The days since a file was written; 0 if the store does not say."""
    return 0.0 if state.modified is None else (time.time() - state.modified) / _DAY_SECONDS


def by_reason(garbage: Iterable[Garbage]) -> list[dict[str, Any]]:
    """Each reason (`why`) with its number of `files`, their `bytes` and the CPU time to decode them
    again, the largest size first."""
    files, sizes, seconds = Counter[str](), Counter[str](), Counter[str]()
    for file in garbage:
        files[file.why] += 1
        sizes[file.why] += file.bytes
        seconds[file.why] += round(file.cpu_seconds)
    return [
        {"why": why, "files": files[why], "bytes": size, "cpu_seconds": seconds[why]}
        for why, size in sizes.most_common()
    ]


def remove(garbage: Iterable[Garbage]) -> None:
    """Delete the files, and every folder that is empty afterwards."""
    for item in garbage:
        if item.path.is_dir():
            item.path.fs.rm(item.path.path, recursive=True)
        item.path.unlink(missing_ok=True)
        folder = item.path.parent
        if not any(folder.iterdir()):
            folder.rmdir()
