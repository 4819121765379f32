"""The files of a declared benchmark: in the user's folder, or fetched from the hub."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.locate import (
    SUBTITLE_SUFFIXES,
    FrameFolder,
    VideoFile,
    first_file,
)
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.questions import Annotated, read_questions
from videomme_pipeline.benchmarks.settings import BenchmarkSettings, SourceKind, select
from videomme_pipeline.benchmarks.source import MediaFiles, OnProgress, Source, folders_of
from videomme_pipeline.errors import AnnotationError, VideoMissingError
from videomme_pipeline.fetch.release import OPTIONAL_SUFFIXES, VideoReference, hub_folder
from videomme_pipeline.fingerprint import fingerprint

if TYPE_CHECKING:
    from videomme_pipeline.benchmarks.declaration import Declaration


class DeclaredSource(Source):
    """A benchmark with a declaration. Its videos and subtitles have the paths of its columns."""

    def __init__(
        self,
        benchmark: Benchmark,
        spec: BenchmarkSettings,
        folder: Path,
        *,
        declaration: "Declaration",
    ) -> None:
        super().__init__(benchmark, spec, folder)
        self.declaration = declaration
        self.release = declaration.release(benchmark.name)

    @property
    def is_fetched(self) -> bool:
        """True if missing files are fetched from the hub."""
        return self.release is not None and self.spec.source is SourceKind.HUB

    @property
    def version(self) -> str:
        paths = self.stored_annotations() if not self.is_fetched else ()
        hashes = [blake3(path.read_bytes()).hexdigest() for path in paths]
        revision = self.release.revision if self.release else None
        return fingerprint(
            self.benchmark.name,
            self.declaration.question_settings,
            revision,
            self.spec.fingerprint,
            hashes,
        )

    def questions(self) -> Sequence[Question]:
        annotated = self.annotated()
        self.hidden_answers = annotated.hidden
        return select(annotated.require(), self.spec)

    def known_questions(self) -> Sequence[Question] | None:
        paths = self.stored_annotations()
        return None if not paths else select(self._read(paths).require(), self.spec)

    def annotated(self) -> Annotated:
        """The content of the annotation files, which are fetched if necessary.

        Raises:
            VideoMMEError: if they cannot be fetched or read.
        """
        if not self.is_fetched:
            return self._read(self.stored_annotations())
        from videomme_pipeline.fetch.download import fetch_files  # noqa: PLC0415 - loads httpx

        assert self.release is not None, "a benchmark that is fetched has a release"
        names = [file.file for file in self.declaration.annotations]
        return self._read(fetch_files(self.release, self.spec, self.folder, names))

    def _read(self, paths: Sequence[Path]) -> Annotated:
        return read_questions(self.declaration, paths, self.benchmark.name)

    def stored_annotations(self) -> tuple[Path, ...]:
        """The annotation files on disk, or none if they have yet to be fetched.

        Raises:
            AnnotationError: if the user's folder lacks one.
            ConfigurationError: if the user's folder does not exist.
        """
        names = [file.file for file in self.declaration.annotations]
        if self.is_fetched and self.release is not None:
            stored = hub_folder(self.release, self.spec, self.folder)
            paths = [stored / name for name in names]
            return tuple(paths) if all(path.is_file() for path in paths) else ()
        if self.spec.annotations is not None and len(names) == 1:
            return (self.spec.annotations.expanduser(),)
        roots = self.roots()
        found = [first_file(root / name for root in roots) for name in names]
        for name, path in zip(names, found, strict=True):
            if path is None:
                raise AnnotationError(
                    f"{self.benchmark.name}: no {name} under {', '.join(map(str, roots))}; copy it "
                    "there, or correct `annotations` in the declaration"
                )
        return tuple(path for path in found if path is not None)

    def roots(self) -> tuple[Path, ...]:
        """The folders that may contain its files, in order of preference.

        Raises:
            ConfigurationError: if the user's folder does not exist.
        """
        if self.is_fetched:
            # Videos that the hub does not have are in the user's own folder.
            own = self.spec.folder
            return (self.folder, *([Path(own).expanduser().absolute()] if own else []))
        given = self.spec.folder or self.declaration.folder
        repository = self.release.repository if self.release else None
        return folders_of(self.benchmark.name, given, repository)

    def files(self, video: VideoReference) -> MediaFiles:
        return MediaFiles(video=self.video_file(video), subtitle=self.subtitle(video))

    def video_file(self, video: VideoReference) -> VideoFile:
        """The file of a video, or the folder of its pictures.

        Raises:
            VideoMissingError: if there is none. The message has the searched folders.
        """
        footage, roots = video.footage, self.roots()
        paths = [root / (footage.video_file or video.video_id) for root in roots]
        if footage.frames_per_second is not None:
            for path in paths:
                if path.is_dir():
                    return FrameFolder(path, footage.frames_per_second)
        elif found := first_file(paths, OPTIONAL_SUFFIXES):
            return found
        advice = "the next run fetches it" if self.is_fetched else "copy it there"
        raise VideoMissingError(
            video.video_id,
            f"no {footage.video_file} under {', '.join(map(str, roots))}; {advice}, or exclude "
            "the video with `videos` or `limit` in benchmarks.yaml",
        )

    def subtitle(self, video: VideoReference) -> Path | None:
        folder = self.declaration.subtitles
        named = video.footage.subtitle_file
        if named is None and (folder is None or video.footage.video_file is None):
            return None
        if named is not None:
            return first_file(root / named for root in self.roots())
        stem = Path(video.footage.video_file or "").stem
        return first_file(
            root / str(folder) / f"{stem}{suffix}"
            for root in self.roots()
            for suffix in SUBTITLE_SUFFIXES
        )

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        if not self.is_fetched or self.release is None or not self.release.archives:
            return {}
        from videomme_pipeline.fetch.download import fetch_media  # noqa: PLC0415 - loads httpx

        return fetch_media(self.release, self.spec, videos, self.folder, on_progress)
