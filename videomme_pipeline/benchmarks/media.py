"""Where a benchmark's questions and files come from, behind one face.

The published benchmarks are fetched from the hub or lie in the user's own folder; the smoke
benchmarks are drawn here. What is in a file is not looked at.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import cpu_count, get_context
from pathlib import Path

from blake3 import blake3

from videomme_pipeline.benchmarks.locate import (
    MediaIndex,
    index_media,
    locate_subtitle,
    locate_video,
)
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.source import (
    RELEASES,
    BenchmarkSpec,
    SourceKind,
    annotations_in,
    media_roots,
    read_benchmark,
    select,
)
from videomme_pipeline.errors import StorageError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import fingerprint

SMOKE_BENCHMARKS = ("smoke", "smoke_v2")
BENCHMARKS = (*SMOKE_BENCHMARKS, *RELEASES)

OnProgress = Callable[[int, int], None]
"""Called with how many of how many are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFiles:
    """The files of one video on disk; `subtitle` is None for a video that has none."""

    video: Path
    subtitle: Path | None


class Media(ABC):
    """The questions and files of one benchmark. `folder` is where fetched files go."""

    is_public: bool
    """Whether its pictures and questions may be shown to anyone."""

    def __init__(self, benchmark: str, spec: BenchmarkSpec, folder: Path) -> None:
        self.benchmark = benchmark
        self.spec = spec
        self.folder = folder

    @property
    @abstractmethod
    def version(self) -> str:
        """Stands for the content of the questions.

        Raises:
            VideoMMEError: when the licence is not accepted, or the user's folder has none.
        """

    @abstractmethod
    def questions(self) -> Sequence[Question]:
        """The questions, fetched if need be.

        Raises:
            VideoMMEError: when the licence is not accepted, or they cannot be had.
        """

    @abstractmethod
    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        """Bring in the files of `videos` that are not there; the reasons, by id, where one failed.

        Raises:
            VideoMMEError: when none can be had at all.
        """

    def files(self, video: VideoReference) -> MediaFiles:
        """The files of one video.

        Raises:
            VideoMissingError: when its video file is not there.
        """
        return MediaFiles(video=locate_video(self._index, video), subtitle=self.subtitle(video))

    def subtitle(self, video: VideoReference) -> Path | None:
        """The subtitle file of one video; None when it has none."""
        return locate_subtitle(self._index, video)

    def roots(self) -> tuple[Path, ...]:
        """The folders that files are looked for in."""
        return (self.folder,)

    def look_again(self) -> None:
        """Forget which files there were."""
        self.__dict__.pop("_index", None)

    @cached_property
    def _index(self) -> MediaIndex:
        return index_media(self.roots())


class PublishedMedia(Media):
    """Video-MME or Video-MME-v2, from the hub or from the user's own folder."""

    is_public = False

    @property
    def version(self) -> str:
        release = RELEASES[self.benchmark]
        own = None
        if self.spec.source is SourceKind.FOLDER:
            own = blake3(annotations_in(release, self.spec).read_bytes()).hexdigest()
        return fingerprint(self.benchmark, release.revision, self.spec.fingerprint, own)

    def questions(self) -> Sequence[Question]:
        from videomme_pipeline.fetch.download import fetch_annotations

        release = RELEASES[self.benchmark]
        if self.spec.source is SourceKind.HUB:
            path = fetch_annotations(release, self.spec, self.folder)
        else:
            path = annotations_in(release, self.spec)
        return read_benchmark(release, self.spec, path)

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        from videomme_pipeline.fetch.download import (
            fetch_subtitles,
            fetch_videos,
        )

        if self.spec.source is not SourceKind.HUB:
            return {}
        release = RELEASES[self.benchmark]
        fetched = fetch_videos(
            release,
            self.spec,
            videos,
            self.folder,
            lambda progress: on_progress(progress.videos_done, progress.videos_wanted),
        )
        subtitles = fetch_subtitles(release, self.spec, videos, self.folder)
        self.look_again()
        return {file.video_id: file.problem for file in (*fetched, *subtitles) if file.problem}

    def roots(self) -> tuple[Path, ...]:
        if self.spec.source is SourceKind.HUB:
            return (self.folder,)
        return media_roots(RELEASES[self.benchmark], self.spec)


class SmokeMedia(Media):
    """The smoke benchmarks: drawn on this machine, but for a few clips out of packages."""

    # ruff: noqa: PLC0415 - drawing loads libav, so it is imported by whoever draws

    is_public = True

    @property
    def version(self) -> str:
        from videomme_pipeline.benchmarks.smoke.drawing import DRAWING_VERSION

        return fingerprint(DRAWING_VERSION, list(self.questions()))

    def questions(self) -> Sequence[Question]:
        from videomme_pipeline.benchmarks.smoke import benchmark as smoke

        return select(smoke.questions(self.benchmark), self.spec)

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        from videomme_pipeline.benchmarks.smoke.benchmark import make_video

        problems: dict[str, str] = {}
        there = {v.video_id for v in videos if (self.folder / _file_name(v)).exists()}
        # Looking at a file that is there takes milliseconds; drawing one is worth a process, and
        # one that is started anew: a forked one would inherit libav's and Arrow's threads.
        with (
            ThreadPoolExecutor(max_workers=1) as here,
            ProcessPoolExecutor(cpu_count(), get_context("spawn")) as processes,
        ):
            making = {
                (here if v.video_id in there else processes).submit(
                    make_video, v.video_id, self.folder
                ): v.video_id
                for v in videos
            }
            for done, future in enumerate(as_completed(making), start=1):
                try:
                    future.result()
                except StorageError:  # no other video could be written either
                    processes.shutdown(cancel_futures=True)
                    raise
                except VideoMMEError as error:
                    problems[making[future]] = str(error)
                if len(there) < len(videos):
                    on_progress(done, len(making))
        self.look_again()
        return problems


def _file_name(video: VideoReference) -> str:
    return f"{video.file_stem}.mp4"


def open_media(benchmark: str, spec: BenchmarkSpec, folder: Path) -> Media:
    """The media of one of `BENCHMARKS`; nothing is fetched or read yet."""
    media = SmokeMedia if benchmark in SMOKE_BENCHMARKS else PublishedMedia
    return media(benchmark, spec, folder)


def media_folder_name(benchmark: str) -> str:
    """Whose media folder a benchmark uses: both smoke benchmarks are about the same videos."""
    return SMOKE_BENCHMARKS[0] if benchmark in SMOKE_BENCHMARKS else benchmark
