"""Sources of questions and videos: the interface, and the source of a published benchmark."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3
from upath import UPath

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.locate import (
    MediaFile,
    MediaIndex,
    VideoSource,
    find_file,
    index_media,
    locate_subtitle,
    locate_video,
)
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.settings import BenchmarkSettings, SourceKind, select
from videomme_pipeline.benchmarks.table import JSON_SUFFIXES
from videomme_pipeline.errors import AnnotationError, ConfigurationError
from videomme_pipeline.fetch.release import Release, VideoReference, hub_folder
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.storage.copies import on_local_disk
from videomme_pipeline.storage.layout import open_folder

OnProgress = Callable[[int, int], None]
"""Called with the number of finished items and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFiles:
    """The files of one video. `subtitle` is None for a video that has none."""

    video: VideoSource
    subtitle: MediaFile | None


class Source(ABC):
    """The questions, videos and subtitles of one benchmark.

    `folder` is the media folder: fetched files are stored there. `Benchmark.open_source` opens a
    source, and only after the user has accepted the license, so a source does not check it.
    """

    def __init__(self, benchmark: Benchmark, spec: BenchmarkSettings, folder: Path) -> None:
        self.benchmark = benchmark
        self.spec = spec
        self.folder = folder
        self.hidden_answers = 0
        """Rows that `questions` left out because their answer is not published."""
        self._media: MediaIndex | None = None

    @property
    def is_public(self) -> bool:
        """True if its pictures and questions may be shown to anyone."""
        return self.benchmark.is_public

    @property
    @abstractmethod
    def version(self) -> str:
        """Fingerprint of the questions.

        Raises:
            VideoMMEError: if the user's folder has no questions.
        """

    @abstractmethod
    def questions(self) -> Sequence[Question]:
        """The selected questions. They are fetched if necessary.

        Raises:
            VideoMMEError: if they cannot be fetched.
        """

    def known_questions(self) -> Sequence[Question] | None:
        """The questions, or None if they cannot be known before they are fetched.

        Raises:
            VideoMMEError: if the local file of the questions is missing or wrong.
        """
        return None

    @abstractmethod
    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        """Fetch the missing files of `videos`, and return the reason of each failure by video id.

        Raises:
            VideoMMEError: if no video can be fetched at all.
        """

    def files(self, video: VideoReference) -> MediaFiles:
        """The files of one video.

        Raises:
            VideoMissingError: if its video file is missing.
        """
        return MediaFiles(video=locate_video(self._index, video), subtitle=self.subtitle(video))

    def subtitle(self, video: VideoReference) -> MediaFile | None:
        """The subtitle file of one video, or None if it has none."""
        return locate_subtitle(self._index, video)

    def roots(self) -> tuple[Path | UPath, ...]:
        """The folders that are searched for files."""
        return (self.folder,)

    def invalidate(self) -> None:
        """Drop the list of files, so that the folders are read again."""
        self._media = None

    @property
    def _index(self) -> MediaIndex:
        if self._media is None:
            self._media = index_media(self.roots())
        return self._media


def folders_of(
    benchmark: str, folder: Path | str | None, repository: str | None
) -> tuple[Path, ...]:
    """The user's `folder`, and the folders in it that tools unzip the repository to.

    Raises:
        ConfigurationError: if there is no such folder.
    """
    root = Path(folder).expanduser().absolute() if folder else None
    if root is None or not root.is_dir():
        raise ConfigurationError(
            f"{benchmark}: `folder` is {folder}, which is not a folder; set it to your copy of the "
            "benchmark, or use `source: hub`"
        )
    inside = [benchmark]
    if repository is not None:
        dataset = f"datasets--*--{repository.rpartition('/')[2]}"
        inside += ["snapshots/*", f"{dataset}/snapshots/*", f"hub/{dataset}/snapshots/*"]
    found = (path for pattern in inside for path in sorted(root.glob(pattern)))
    return (root, *(path for path in found if path.is_dir()))


class PublishedSource(Source):
    """A benchmark on the Hugging Face Hub, or the user's own copy of it."""

    def __init__(
        self,
        benchmark: Benchmark,
        spec: BenchmarkSettings,
        folder: Path,
        *,
        release: Release,
        read_questions: Callable[[Path], Sequence[Question]],
    ) -> None:
        super().__init__(benchmark, spec, folder)
        self.release = release
        self._read_questions = read_questions

    @property
    def version(self) -> str:
        own_copy = None
        if self.spec.source is SourceKind.FOLDER:
            with on_local_disk(self._own_annotations()) as annotations:
                own_copy = blake3(annotations.read_bytes()).hexdigest()
        return fingerprint(
            self.benchmark.name, self.release.revision, self.spec.fingerprint, own_copy
        )

    def questions(self) -> Sequence[Question]:
        from videomme_pipeline.fetch.download import fetch_annotations  # noqa: PLC0415 - loads httpx

        if self.spec.source is SourceKind.HUB:
            return self.read(fetch_annotations(self.release, self.spec, self.folder))
        return self.read(self._own_annotations())

    def known_questions(self) -> Sequence[Question] | None:
        path = self.stored_annotations()
        return None if path is None else self.read(path)

    def read(self, annotations: MediaFile) -> list[Question]:
        """The selected questions of an annotation file.

        Raises:
            AnnotationError: if the file is not the published one.
            ConfigurationError: if the settings name videos that the benchmark does not have.
        """
        with on_local_disk(annotations) as path:
            return select(self._read_questions(path), self.spec)

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        if self.spec.source is not SourceKind.HUB:
            return {}
        from videomme_pipeline.fetch.download import fetch_media  # noqa: PLC0415 - loads httpx

        problems = fetch_media(self.release, self.spec, videos, self.folder, on_progress)
        self.invalidate()
        return problems

    def stored_annotations(self) -> MediaFile | None:
        """The annotation file on disk, or None if it has yet to be fetched from the hub.

        Raises:
            AnnotationError: if the user's folder has none.
            ConfigurationError: if the user's folder does not exist.
        """
        if self.spec.source is SourceKind.FOLDER:
            return self._own_annotations()
        path = hub_folder(self.release, self.spec, self.folder) / self.release.annotations
        return path if path.is_file() else None

    def roots(self) -> tuple[Path | UPath, ...]:
        """The folders that may contain the benchmark's files, in order of preference.

        The user's `folder` may be an unzipped download, a VLMEvalKit folder (a snapshot in the hub
        cache with `video/` and `subtitle/` in it), `$HF_HOME` (lmms-eval unzips into
        `$HF_HOME/videomme` or `$HF_HOME/videomme_v2`), the hub cache, or a dataset's folder in it.
        A folder in an object store is an unzipped download.

        Raises:
            ConfigurationError: if the user's folder does not exist.
        """
        if self.spec.source is SourceKind.HUB or self.spec.folder is None:
            return (self.folder,)
        if "://" in self.spec.folder:
            return (open_folder(self.spec.folder, f"{self.benchmark.name}: `folder`"),)
        return folders_of(self.benchmark.name, self.spec.folder, self.release.repository)

    def _own_annotations(self) -> MediaFile:
        """The annotation file in the user's own folder.

        Raises:
            AnnotationError: if there is none. The message names the searched folders.
        """
        if self.spec.annotations is not None:
            return self.spec.annotations.expanduser()
        published = Path(self.release.annotations)
        names = [published, *(published.with_suffix(suffix) for suffix in JSON_SUFFIXES)]
        roots = self.roots()
        for name in names:
            for root in roots:
                for candidate in (root / str(name), root / name.name):
                    if found := find_file(candidate):
                        return found
        raise AnnotationError(
            f"{self.benchmark.name}: no {self.release.annotations} (or .json, .jsonl) under "
            f"{', '.join(map(str, roots))}; set `annotations` to the path of the file, or "
            f"fetch it with `source: hub`"
        )
