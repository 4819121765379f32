"""The content of the data folder: stored files, the evaluations that use them, and garbage.

Frames, packet indexes, aligned subtitles and prompts can be rebuilt. If nothing uses such a file,
it is garbage. Responses, scores and nightly runs are results, which are listed but never removed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from upath import UPath

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.frames.cache import frames_fingerprint, stored_sampling
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
    "baselines": Dimension.EVALUATION,
}
_ONE_FILE_OF_ALL_VIDEOS = ("scores", "evaluated_videos", "nightly_runs", "baselines")
_REBUILT_FOR_FREE = ("subtitles", "prompts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageOfReason:
    """The number and size of the files that can be removed for the same reason."""

    why: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FrameFile:
    """One file of the frame cache."""

    path: UPath
    video_hash: str
    settings: str
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
        packets, sound = self._store.packet_files(), self._store.sound_files()
        return [
            *frames,
            *([_shelf("packets", "", packets)] if packets else []),
            *([_shelf("sound", "", sound)] if sound else []),
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
        cached = sorted({self.sampling_of(file) for file in self.frames})
        for name in samplings:
            if name not in cached:
                hint = nearest(name, cached) if cached else "no frames are cached"
                raise ConfigurationError(f"no frames of the sampling `{name}` are cached: {hint}")
        return [
            *self._garbage_frames(samplings),
            *(
                Garbage(path=path, bytes=_size(path), why="packet index of no stored video")
                for path in self._store.packet_files()
                if path.stem not in self.video_hashes
            ),
            *(
                Garbage(path=path, bytes=_size(path), why="sound of no stored video")
                for path in self._store.sound_files()
                if path.parent.name not in self.video_hashes
            ),
            *self._garbage_of_benchmarks(),
            *self._set_aside(),
        ]

    @cached_property
    def frames(self) -> list[FrameFile]:
        """The files of the frame cache."""
        return [
            FrameFile(path, path.parent.name, path.stem, _size(path))
            for path in self._store.frame_files()
        ]

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
        configuration = self._project.configuration
        return {
            frames_fingerprint(sampling, duration): name
            for benchmark in configuration.benchmarks
            for name, sampling in configuration.samplings_of(benchmark).items()
            for duration in (None, *Duration)
        }

    def sampling_of(self, file: FrameFile) -> str:
        """The name of the sampling of a frame file."""
        if file.settings not in self._named:
            self._others.setdefault(file.settings, stored_sampling(file.path) or "unreadable")
            return self._others[file.settings]
        return self._named[file.settings]

    @cached_property
    def _others(self) -> dict[str, str]:
        """The names of samplings outside the configuration, read from the frame files."""
        return {}

    def _garbage_frames(self, samplings: Collection[str]) -> Iterator[Garbage]:
        for file in self.frames:
            sampling = self.sampling_of(file)
            if sampling in samplings:
                why = f"frames of {sampling}, as requested"
            elif file.settings not in self._named:
                why = f"frames of {sampling}, which is not in any evaluation or samplings.yaml"
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
                        for path in files:
                            why = f"{kind} of {name}, which no evaluation uses"
                            yield Garbage(path=path, bytes=_size(path), why=why)

    def _set_aside(self) -> Iterator[Garbage]:
        """Yield the damaged files that were set aside."""
        for path in self._store.set_aside_files():
            yield Garbage(path=path, bytes=_size(path), why="damaged files")

    def _of_benchmark(self, benchmark: str) -> Iterator[Shelf]:
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


def by_reason(garbage: Iterable[Garbage]) -> list[GarbageOfReason]:
    """Number and size of the files by reason, the largest size first."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for file in garbage:
        sizes[file.why].append(file.bytes)
    reasons = [
        GarbageOfReason(why=why, files=len(bytes_of_files), bytes=sum(bytes_of_files))
        for why, bytes_of_files in sizes.items()
    ]
    return sorted(reasons, key=lambda reason: reason.bytes, reverse=True)


def remove(garbage: Iterable[Garbage]) -> None:
    """Delete the files, and every folder that is empty afterwards."""
    for item in garbage:
        if item.path.is_dir():
            item.path.fs.rm(item.path.path, recursive=True)
        item.path.unlink(missing_ok=True)
        folder = item.path.parent
        if not any(folder.iterdir()):
            folder.rmdir()


def _shelf(kind: str, name: str, files: list[UPath], named_by: tuple[str, ...] = ()) -> Shelf:
    return Shelf(
        kind=kind,
        name=name,
        videos=0 if kind in _ONE_FILE_OF_ALL_VIDEOS else len(files),
        files=len(files),
        bytes=sum(map(_size, files)),
        named_by=named_by,
    )


def _size(path: UPath) -> int:
    if path.is_dir():
        return sum(map(_size, path.iterdir()))
    return int(path.stat().st_size)
