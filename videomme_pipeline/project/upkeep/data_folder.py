"""The content of the data folder: stored files, the evaluations that use them, and garbage.

Frames, packet indexes, aligned subtitles and prompts can be rebuilt. Responses, scores and nightly
runs are results, which are listed but never removed.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from upath import UPath

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError, NotReadyError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.frames.cache import frames_fingerprint, stored_sampling
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Dimension, variant_in
from videomme_pipeline.storage.tables import read_table

_VARIANT_STAGES = {
    "subtitles": Dimension.TRACK,
    "prompts": Dimension.EVALUATION,
    "responses": Dimension.EVALUATION,
    "attempts": Dimension.EVALUATION,
    "scores": Dimension.EVALUATION,
    "evaluated_videos": Dimension.EVALUATION,
    "nightly_runs": Dimension.EVALUATION,
    "references": Dimension.EVALUATION,
}
_ONE_FILE_OF_ALL_VIDEOS = (
    "decode_times",
    "scores",
    "evaluated_videos",
    "nightly_runs",
    "references",
)
_REBUILT_FOR_FREE = ("subtitles", "prompts")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """The stored files of one kind and name, such as the frames of a sampling.

    `named_by` contains the evaluations that use the files. `offered` is True if samplings.yaml
    contains the sampling.
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
    """A file that can be removed, and why."""

    path: UPath
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class CachedFrames:
    """One file of the frame cache."""

    path: UPath
    sampling: str
    bytes: int

    @property
    def video_hash(self) -> str:
        return self.path.parent.name

    @property
    def settings(self) -> str:
        """The fingerprint of the sampling's settings."""
        return self.path.stem


class DataFolder:
    """The files of a project's data folder, read once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._store = project.store

    def shelves(self) -> list[CacheEntry]:
        """Everything that is stored, by kind and name."""
        configuration = self._project.configuration
        users, offered = defaultdict[str, list[str]](list), set[str]()
        for evaluation in configuration.evaluations.values():
            users[evaluation.sampling_name].append(evaluation.name)
        for benchmark in configuration.benchmarks:
            offered.update(s.name for s in configuration.samplings.get(benchmark, ()))
        by_sampling: dict[str, list[CachedFrames]] = defaultdict(list)
        for file in self.frames:
            by_sampling[file.sampling].append(file)
        frames = [
            CacheEntry(
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
        shared = {
            "decode_times": self._store.decode_times_files(),
            "packets": self._store.packet_files(),
            "sound": self._store.sound_files(),
        }
        return [
            *frames,
            *(_shelf(kind, "", files) for kind, files in shared.items() if files),
            *(shelf for name in self.benchmarks for shelf in self._of_benchmark(name)),
        ]

    def garbage(self, samplings: Collection[str] = ()) -> list[Garbage]:
        """The files that nothing uses, and all frames of `samplings`, even used ones.

        Raises:
            ConfigurationError: if a configuration file has a mistake, because its samplings are
                then unknown, or if the cache has no frames of one of `samplings`.
        """
        for problem in self._project.configuration.problems.values():
            raise ConfigurationError(
                "cannot find unused files while a configuration file has a mistake; fix it first: "
                f"{problem}"
            )
        cached = sorted({file.sampling for file in self.frames})
        for name in samplings:
            if name not in cached:
                hint = nearest(name, cached) if cached else "no frames are cached"
                raise ConfigurationError(f"no frames of the sampling `{name}` are cached: {hint}")
        return [
            *self._garbage_frames(samplings),
            *_garbage(
                (p for p in self._store.packet_files() if p.stem not in self.video_hashes),
                "packet index of no stored video",
            ),
            *_garbage(
                (p for p in self._store.sound_files() if p.parent.name not in self.video_hashes),
                "sound of no stored video",
            ),
            *self._garbage_of_benchmarks(),
            *_garbage(self._store.set_aside_files(), "damaged files"),
        ]

    @cached_property
    def frames(self) -> list[CachedFrames]:
        names = dict(self._named)
        files = []
        for path in self._store.frame_files():
            if path.stem not in names:
                names[path.stem] = stored_sampling(path) or "unreadable"
            files.append(CachedFrames(path, names[path.stem], _size(path)))
        return files

    @cached_property
    def benchmarks(self) -> list[str]:
        """The benchmarks with stored questions, even if benchmarks.yaml does not contain them."""
        return self._store.benchmarks()

    @cached_property
    def video_hashes(self) -> frozenset[str]:
        """The content hashes of the stored videos of all benchmarks."""
        return frozenset(
            str(video_hash)
            for path in self._store.video_files()
            for video_hash in read_table(path, ["content_hash"]).column("content_hash").to_pylist()
        )

    @cached_property
    def _named(self) -> dict[str, str]:
        """The name of each sampling of the configuration, by settings fingerprint."""
        named: dict[str, str] = {}
        for name, benchmark in self._project.benchmarks.items():
            videos: Iterable[Sequence[Question]] = ()
            with suppress(NotReadyError):
                videos = benchmark.snapshot.questions.values()
            for sampling in self._project.configuration.samplings_of(name).values():
                keys: set[tuple[Sampling, Duration | None, Clip | None]]
                keys = {(sampling, duration, None) for duration in (None, *Duration)}
                keys |= {
                    (sampling.for_questions(asked), asked[0].duration, asked[0].footage.clip)
                    for asked in videos
                }
                named |= {frames_fingerprint(*key): sampling.name for key in keys}
        return named

    def _garbage_frames(self, samplings: Collection[str]) -> Iterator[Garbage]:
        for file in self.frames:
            if file.sampling in samplings:
                why = f"frames of {file.sampling}, as requested"
            elif file.settings not in self._named:
                why = f"frames of {file.sampling}, which is not in any evaluation or samplings.yaml"
            elif file.video_hash not in self.video_hashes:
                why = "frames of a video that no longer exists"
            else:
                continue
            yield Garbage(path=file.path, bytes=file.bytes, why=why)

    def _garbage_of_benchmarks(self) -> Iterator[Garbage]:
        for benchmark in self.benchmarks:
            for kind in _REBUILT_FOR_FREE:
                for name, files in self._by_variant(benchmark, kind).items():
                    if name not in self._users(benchmark, kind):
                        yield from _garbage(files, f"{kind} of {name}, which no evaluation uses")

    def _of_benchmark(self, benchmark: str) -> Iterator[CacheEntry]:
        videos = self._store.video_files(benchmark)
        if videos:
            yield _shelf("videos", benchmark, videos)
        for kind in _VARIANT_STAGES:
            users = self._users(benchmark, kind)
            for name, files in sorted(self._by_variant(benchmark, kind).items()):
                yield _shelf(kind, name, files, users.get(name, ()))

    def _users(self, benchmark: str, kind: str) -> Mapping[str, tuple[str, ...]]:
        """The evaluations of a benchmark, by the track or evaluation whose files they use."""
        users: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for evaluation in self._project.configuration.evaluations_of(benchmark):
            variant = variant_in(evaluation, _VARIANT_STAGES[kind])
            if variant:
                users[variant] += (evaluation.name,)
        return {variant: tuple(sorted(names)) for variant, names in users.items()}

    def _by_variant(self, benchmark: str, kind: str) -> Mapping[str, list[UPath]]:
        files: dict[str, list[UPath]] = defaultdict(list)
        of_evaluations = {
            "scores": self._store.score_files,
            "evaluated_videos": self._store.evaluated_video_files,
        }
        if kind in of_evaluations:
            for path in of_evaluations[kind](benchmark):
                files[path.stem].append(path)
        else:
            for path in self._store.variant_files(kind, benchmark):
                files[path.parent.name].append(path)
        return files


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


def _shelf(kind: str, name: str, files: list[UPath], named_by: tuple[str, ...] = ()) -> CacheEntry:
    return CacheEntry(
        kind=kind,
        name=name,
        videos=0 if kind in _ONE_FILE_OF_ALL_VIDEOS else len(files),
        files=len(files),
        bytes=sum(map(_size, files)),
        named_by=named_by,
    )


def _garbage(paths: Iterable[UPath], why: str) -> Iterator[Garbage]:
    return (Garbage(path=path, bytes=_size(path), why=why) for path in paths)


def _size(path: UPath) -> int:
    if path.is_dir():
        return sum(map(_size, path.iterdir()))
    return int(path.stat().st_size)
