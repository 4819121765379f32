"""The source of a declared benchmark: the user's own folder, or files fetched from the hub."""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from upath import UPath

from videomme_pipeline.benchmarks import locate
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.declaration import Declaration
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.questions import SEGMENTS, read_questions
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.benchmarks.source import AnnotationContent, OnProgress, Source
from videomme_pipeline.errors import AnnotationError, ConfigurationError, VideoMissingError
from videomme_pipeline.fetch.release import OPTIONAL_SUFFIXES, VideoReference
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.storage.copies import on_local_disk
from videomme_pipeline.storage.objects import FileState, open_folder
from videomme_pipeline.storage.publish import publish

_log = logging.getLogger(__name__)
_LATEST: dict[str, tuple[object, AnnotationContent]] = {}
"""The annotations that were read last, after their files, by benchmark. Each stage of a run opens
its source again."""


class DeclaredSource(Source):
    """A benchmark with a declaration, on the hub or in the user's own copy of it.

    Its videos and subtitles have the paths in its annotations. If the annotations have only the ids
    of the videos, any common layout of the files is accepted.
    """

    def __init__(
        self, name: str, settings: BenchmarkSettings, folder: Path, *, declaration: Declaration
    ) -> None:
        super().__init__(name, settings, folder)
        self.declaration = declaration
        self.release = declaration.release(name, settings.revision)
        self._annotation_names = [
            *(annotations.file for annotations in declaration.annotations),
            *declaration.facet_files.values(),
        ]
        self._stored: AnnotationContent | None = None

    @property
    def is_fetched(self) -> bool:
        return self.release is not None and self.settings.source == "hub"

    @property
    def has_subtitles(self) -> bool:
        return self.declaration.subtitles is not None or bool(self._segments)

    @property
    def version(self) -> str:
        hashes = []
        for file in self.stored_annotations() if not self.is_fetched else ():
            with on_local_disk(file) as path:
                hashes.append(blake3(path.read_bytes()).hexdigest())
        return fingerprint(
            self.name,
            self.declaration.question_settings,
            (self.release.hub.revision or "") if self.release else None,
            self.settings.fingerprint,
            hashes,
        )

    def questions(self) -> Sequence[Question]:
        annotated = self.stored_questions()
        if annotated is None:
            from videomme_pipeline.fetch.download import fetch_files  # noqa: PLC0415 - loads httpx

            assert self.release is not None, "a benchmark that is fetched has a release"
            annotated = self._read(fetch_files(self.release, self.folder, self._annotation_names))
        if annotated.unmatched:
            _log.warning(
                "%s: %d questions without a correct option are left out: %s",
                self.name,
                len(annotated.unmatched),
                annotated.listed(annotated.unmatched),
            )
        return self.settings.select(annotated.require())

    def stored_questions(self) -> AnnotationContent | None:
        if self._stored is None and (files := self.stored_annotations()):
            self._stored = self._read(files)
        return self._stored

    def _read(self, files: Sequence[locate.MediaFile]) -> AnnotationContent:
        """The content of the annotation files, which are read again only if they changed."""
        with ExitStack() as opened:
            paths = [opened.enter_context(on_local_disk(file)) for file in files]
            states = [FileState.of(path.stat()) if path.exists() else None for path in paths]
            read_from = (self.declaration, paths, states)
            latest = _LATEST.get(self.name)
            if latest is None or latest[0] != read_from:
                latest = read_from, read_questions(self.declaration, paths, self.name)
                _LATEST[self.name] = latest
            return latest[1]

    def stored_annotations(self) -> tuple[locate.MediaFile, ...]:
        """The annotation files on disk, then the files of facets. Empty if one must be fetched."""
        names = self._annotation_names
        if self.is_fetched and self.release is not None:
            paths = [self.release.stored_in(self.folder) / name for name in names]
            return tuple(paths) if all(path.is_file() for path in paths) else ()
        given = self.settings.annotations
        if given is None or len(self.declaration.annotations) > 1:
            return tuple(map(self._own_annotations, names))
        return (given.expanduser(), *map(self._own_annotations, names[1:]))

    def _own_annotations(self, name: str) -> locate.MediaFile:
        roots, published = self.roots, PurePosixPath(name)
        # The questions of a Parquet file may also be given as JSON.
        suffixes = (".json", ".jsonl") if published.suffix == ".parquet" else ()
        candidates = [published, *map(published.with_suffix, suffixes)]
        file = locate.first_file(
            root / path
            for candidate in candidates
            for root in roots
            for path in (str(candidate), candidate.name)
        )
        if file is None:
            others = f" (or {', '.join(suffixes)})" if suffixes else ""
            advice = (
                "set `annotations` to the path of the file, or fetch it with `source: hub`"
                if self.release
                else "copy it there, or correct `annotations` in the declaration"
            )
            raise AnnotationError(
                f"{self.name}: no {name}{others} under {', '.join(map(str, roots))}; {advice}"
            )
        return file

    @cached_property
    def roots(self) -> tuple[Path | UPath, ...]:
        """The folders that may contain its files, in order of preference.

        The user's `folder` may be an unzipped download, a VLMEvalKit folder (a snapshot in the hub
        cache with `video/` and `subtitle/` in it), `$HF_HOME` (lmms-eval unzips into a folder with
        the name of the benchmark in it), the hub cache, or a dataset's folder in it. A folder in an
        object store is an unzipped download. ConfigurationError if the folder does not exist.
        """
        given = self.settings.folder
        if self.is_fetched:
            # Videos that the hub does not have are in the user's own folder.
            return (self.folder, *([self._own_root(given)] if given else []))
        root = self._own_root(given or self.declaration.folder)
        if isinstance(root, UPath):
            return (root,)
        if not root.is_dir():
            raise ConfigurationError(
                f"{self.name}: `folder` is {given}, which is not a folder; set it to your copy of "
                "the benchmark, or use `source: hub`"
            )
        inside = [self.name]
        if self.release is not None:
            dataset = f"datasets--*--{self.release.hub.repository.rpartition('/')[2]}"
            inside += ["snapshots/*", f"{dataset}/snapshots/*", f"hub/{dataset}/snapshots/*"]
        paths = (path for pattern in inside for path in sorted(root.glob(pattern)))
        return (root, *(path for path in paths if path.is_dir()))

    def _own_root(self, folder: Path | str | None) -> Path | UPath:
        if "://" in str(folder):
            return open_folder(str(folder), f"{self.name}: `folder`")
        return Path(folder or "").expanduser().absolute()

    def video_file(self, video: VideoReference) -> locate.VideoSource:
        footage, roots, file = video.footage, self.roots, video.footage.video_file
        if file is None:
            return super().video_file(video)
        paths = (root / name for root in roots for name in locate.spellings(file))
        if footage.frames_per_second is not None:
            for path in paths:
                if not isinstance(path, UPath) and path.is_dir():
                    return locate.FrameFolder(path, footage.frames_per_second)
        elif media := locate.first_file(paths, OPTIONAL_SUFFIXES):
            return media
        advice = "the next run fetches it" if self.is_fetched else "copy it there"
        raise VideoMissingError(
            video.video_id,
            f"no {file} under {', '.join(map(str, roots))}; {advice}, or exclude "
            "the video with `videos` or `limit` in benchmarks.yaml",
        )

    @cached_property
    def _segments(self) -> Mapping[str, Sequence[object]]:
        """The subtitles in the user's own annotations, by video id."""
        files = () if self.is_fetched else self.stored_annotations()
        stored = self.stored_questions() if any(map(_may_have_segments, files)) else None
        return stored.segments if stored else {}

    def subtitle(self, video: VideoReference) -> locate.MediaFile | None:
        """The subtitle file of a video. Subtitles in the annotations are written to a file."""
        footage, folder = video.footage, self.declaration.subtitles
        if segments := self._segments.get(video.video_id):
            path = self.folder / "segments" / f"{fingerprint(segments)}.json"
            content = json.dumps(segments).encode()
            if not path.exists() or path.read_bytes() != content:  # missing, or damaged
                publish(UPath(path), content)
            return path
        if footage.subtitle_file is not None:
            return locate.first_file(root / footage.subtitle_file for root in self.roots)
        if footage.video_file is None:
            return super().subtitle(video)
        if folder is None:
            return None
        stem = PurePosixPath(footage.video_file).stem
        paths = (root / folder / name for root in self.roots for name in locate.spellings(stem))
        return locate.first_file(paths, locate.SUBTITLE_SUFFIXES)

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        if not self.is_fetched or self.release is None:
            return {}
        if not (self.release.hub.has_videos and self.release.hub.archives):
            return {}
        from videomme_pipeline.fetch import download  # noqa: PLC0415 - loads httpx

        keep_archives = self.settings.keep_archives
        problems = download.fetch_videos(
            self.release, videos, self.folder, on_progress, keep_archives=keep_archives
        )
        if self.release.hub.subtitles:
            problems |= download.fetch_subtitles(self.release, videos, self.folder)
        self.invalidate()
        return problems


def _may_have_segments(file: locate.MediaFile) -> bool:
    """False for a file without such a column, whose rows a plan then need not read."""
    with on_local_disk(file) as path, suppress(OSError, pa.ArrowException):
        if path.suffix.lower() == ".parquet":
            return SEGMENTS in str(pq.read_schema(path))
        return SEGMENTS.encode() in path.read_bytes().replace(b"\0", b"")  # also in UTF-16
    return True


def declared_questions(path: Path, benchmark: Benchmark) -> Sequence[Question]:
    """The questions in one annotation file of `benchmark`, by its declaration."""
    declaration = getattr(benchmark.source, "keywords", {}).get("declaration")
    if not isinstance(declaration, Declaration) or declaration.facet_files:
        raise AnnotationError(f"{benchmark.name} has no declaration of one annotation file")
    entries = declaration.annotations
    entry = next((e for e in entries if Path(e.file).name == path.name), entries[0])
    return read_questions(
        declaration.model_copy(update={"annotations": (entry,)}), [path], benchmark.name
    ).require()
