"""Fetch a published benchmark from the Hugging Face Hub: annotations, subtitles and videos.

All files are of one commit. A file gets its final name only when it is complete and verified, so
the next run repairs an interrupted one. The directories of the archives of videos are read by HTTP
ranges and kept. If more than half of an archive is needed, it is downloaded whole and compared with
its sha256. Otherwise only members are read by ranges and compared with their CRC.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from logging import getLogger
from pathlib import Path, PurePosixPath

from filelock import FileLock, Timeout
from huggingface_hub import RepoFile

from videomme_pipeline.errors import ArchiveError, DownloadError, StorageError
from videomme_pipeline.fetch.archives import (
    Member,
    OpenArchive,
    extract,
    open_archive,
    read_directory,
)
from videomme_pipeline.fetch.hub import explained
from videomme_pipeline.fetch.mirror import Mirror
from videomme_pipeline.fetch.release import OPTIONAL_SUFFIXES, Release, VideoReference

_log = getLogger(__name__)

WHOLE_ARCHIVE_SHARE = 0.5
"""An archive is downloaded whole if more than this share of its bytes is needed."""


def fetch_files(release: Release, folder: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """Paths of repository files, which are downloaded to `folder` unless they exist.

    Raises DownloadError without the pinned files, and StorageError if `folder` cannot be written.
    """
    mirror = Mirror.of(release, folder)
    paths = tuple(mirror.folder / name for name in names)
    if all(path.is_file() for path in paths):
        return paths
    with _locked(folder):
        return tuple(mirror.file(name) for name in names)


def fetch_subtitles(
    release: Release, videos: Iterable[VideoReference], folder: Path
) -> dict[str, str]:
    """Unzip the subtitle files of `videos` to `release.subtitle_folder`.

    Return the problems by video id. A video without a file in the archive has no subtitles. Raises
    DownloadError without the pinned archive, ArchiveError if it is rejected, and StorageError.
    """
    archive = release.hub.subtitles or ""
    problems: dict[str, str] = {}
    with _locked(folder):
        path = Mirror.of(release, folder).file(archive)
        with explained(archive), path.open("rb") as file:
            members = read_directory(file, archive, keeps_folders=release.keeps_folders)
            directory = _Directory(members)
            with open_archive(file, archive) as opened:
                for video in videos:
                    try:
                        for media in _subtitles_of(video, directory, release, folder):
                            if not media.is_complete:
                                extract(opened, media.member, media.folder)
                    except ArchiveError as error:
                        problems[video.video_id] = str(error)
    return problems


def fetch_videos(
    release: Release,
    videos: Iterable[VideoReference],
    folder: Path,
    on_progress: Callable[[int, int], None] = lambda *_: None,
    *,
    keep_archives: bool = True,
) -> dict[str, str]:
    """Unzip `videos` to `release.video_folder` under `folder`, unless they exist.

    Return the problems by id of the videos that cannot be fetched. With `keep_archives`, archives
    that were downloaded whole stay on disk. Raises DownloadError if the repository cannot be read
    at all (missing, gated, offline), and StorageError before the first download if the disk is too
    small for all requested videos, or later if it is full.
    """
    requested = tuple(videos)
    mirror = Mirror.of(release, folder)
    files, problems = _find_files(mirror, requested, folder)
    if not all(file.is_complete for file in files):
        with _locked(folder):
            jobs = _unzip_jobs(mirror, [file for file in files if not file.is_complete])
            _require_space(jobs, folder, keep_archives=keep_archives)
            done = len(requested) - sum(len(job.videos) for job in jobs)
            on_progress(done, len(requested))
            for job in jobs:
                for video_id, problem in _unzip(job, mirror):
                    if problem:
                        problems[video_id] = problem
                    done += 1
                    on_progress(done, len(requested))
                if not keep_archives and not problems.keys() & job.videos:
                    for name in mirror.files_of(job.archive):
                        (mirror.folder / name).unlink(missing_ok=True)
    return problems


@dataclass(frozen=True, slots=True)
class _MediaFile:
    """A member of an archive that belongs to a video, and the folder to extract it to."""

    video_id: str
    member: Member
    folder: Path

    @property
    def is_complete(self) -> bool:
        path = self.folder / self.member.file_name
        return path.is_file() and path.stat().st_size == self.member.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnzipJob:
    """The needed files in one archive. `remote` are the parts of the archive not on disk."""

    archive: str
    remote: tuple[RepoFile, ...]
    files: Sequence[_MediaFile]

    @property
    def videos(self) -> set[str]:
        return {file.video_id for file in self.files}

    @property
    def is_downloaded_whole(self) -> bool:
        stored = sum(file.member.stored_bytes for file in self.files)
        size = sum(part.size for part in self.remote)
        return bool(self.remote) and stored > size * WHOLE_ARCHIVE_SHARE


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Allow only one process at a time to fetch into `folder`. Others wait, then find the files."""
    lock = FileLock(folder / ".fetch.lock")
    with explained(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            acquired = lock.acquire(blocking=False)
        except Timeout:
            _log.warning("Waiting for another run, which is fetching files into %s", folder)
            acquired = lock.acquire()
    with acquired:
        yield


class _Directory:
    """The members of one archive, which can be found by parts of their paths."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._by_stem: dict[str, Member] = {}
        self._by_ending: dict[PurePosixPath, Member] = {}
        self._by_folder: defaultdict[PurePosixPath, list[Member]] = defaultdict(list)
        for member in members:
            path = PurePosixPath(member.name)
            self._by_stem[path.stem] = member
            for first in range(len(path.parts)):
                ending = PurePosixPath(*path.parts[first:])
                self._by_ending.setdefault(ending, member)
                self._by_folder[ending.parent].append(member)

    def with_stem(self, stem: str) -> list[Member]:
        return [self._by_stem[stem]] if stem in self._by_stem else []

    def at(self, path: PurePosixPath, suffixes: Sequence[str] = ("",)) -> list[Member]:
        """The member whose path ends in `path` and one of `suffixes`."""
        members = (self._by_ending.get(PurePosixPath(f"{path}{suffix}")) for suffix in suffixes)
        return next(([member] for member in members if member is not None), [])

    def inside(self, path: PurePosixPath) -> list[Member]:
        """The members in a folder whose path ends in `path`."""
        return self._by_folder[path]


def _subtitles_of(
    video: VideoReference, directory: _Directory, release: Release, folder: Path
) -> list[_MediaFile]:
    footage, inside = video.footage, PurePosixPath(release.subtitle_folder)
    if footage.subtitle_file is not None:
        members = directory.at(_inside(inside, footage.subtitle_file))
        inside = PurePosixPath(footage.subtitle_file).parent
    else:
        stem = PurePosixPath(footage.video_file).stem if footage.video_file else video.file_stem
        members = directory.with_stem(stem)
    return [_MediaFile(video.video_id, member, folder / inside) for member in members]


def _files_of(
    video: VideoReference, directory: _Directory, release: Release, folder: Path
) -> list[_MediaFile]:
    """The video, or its pictures, in an archive."""
    footage, inside = video.footage, PurePosixPath(release.video_folder)
    if footage.video_file is None:
        members = directory.with_stem(video.file_stem)
    else:
        inner, inside = _inside(inside, footage.video_file), PurePosixPath(footage.video_file)
        if footage.frames_per_second is not None:
            members = directory.inside(inner)
        else:
            members, inside = directory.at(inner, OPTIONAL_SUFFIXES), inside.parent
    return [_MediaFile(video.video_id, member, folder / inside) for member in members]


def _inside(folder: PurePosixPath, file: str) -> PurePosixPath:
    """The path of `file` inside `folder`, which an archive need not contain."""
    path = PurePosixPath(file)
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _find_files(
    mirror: Mirror, videos: Sequence[VideoReference], folder: Path
) -> tuple[list[_MediaFile], dict[str, str]]:
    """The file or the pictures of each video, and the problems of the other videos by their ids."""
    release = mirror.release
    candidates = {video: release.hub.archives_with(video.video_id) for video in videos}
    archives = list(dict.fromkeys(chain.from_iterable(candidates.values())))
    listed, unread = mirror.directories(archives)
    directories = {archive: _Directory(members) for archive, members in listed.items()}
    files: list[_MediaFile] = []
    problems: dict[str, str] = {}
    for video, possible in candidates.items():
        readable = (directories[archive] for archive in possible if archive in directories)
        listings = (_files_of(video, directory, release, folder) for directory in readable)
        files_of_video = next(filter(None, listings), [])
        files += files_of_video
        if not files_of_video:
            name = video.footage.video_file or f"{video.file_stem}.mp4"
            reasons = [
                f"video {video.video_id}: no archive of {mirror.hub} that could be read contains "
                f"{name}",
                *(unread[archive] for archive in possible if archive in unread),
            ]
            problems[video.video_id] = "; ".join(reasons)
    return files, problems


def _unzip_jobs(mirror: Mirror, missing: Sequence[_MediaFile]) -> list[_UnzipJob]:
    by_archive: defaultdict[str, list[_MediaFile]] = defaultdict(list)
    for file in missing:
        by_archive[file.member.archive].append(file)
    remote = {archive: mirror.missing(archive) for archive in by_archive}
    names = list(chain.from_iterable(remote.values()))
    reported = mirror.reported(names) if names else {}
    return [
        _UnzipJob(
            archive=archive,
            remote=tuple(reported[name] for name in remote[archive] if name in reported),
            files=sorted(files, key=lambda file: file.member.offset or 0),
        )
        for archive, files in by_archive.items()
    ]


def _require_space(jobs: Sequence[_UnzipJob], folder: Path, *, keep_archives: bool) -> None:
    downloads = [sum(p.size for p in job.remote) for job in jobs if job.is_downloaded_whole]
    archives = sum(downloads) if keep_archives else max(downloads, default=0)
    needed = sum(file.member.size_bytes for job in jobs for file in job.files) + archives
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            f"{folder}: the videos need {needed / 1e9:.1f} GB "
            f"({archives / 1e9:.1f} GB of it for archives), {free / 1e9:.1f} GB are free; free "
            "some space, choose another data folder, set `keep_archives: false`, or ask for "
            "fewer videos with `videos` or `limit`"
        )


def _unzip(job: _UnzipJob, mirror: Mirror) -> Iterator[tuple[str, str | None]]:
    """Unzip the files of one job, and yield the id of each video with its problem or None."""
    problems: dict[str, str] = {}
    waiting = Counter(file.video_id for file in job.files)
    try:
        with explained(f"{job.archive} of {mirror.hub}"), _opened(job, mirror) as opened:
            for file in job.files:
                try:
                    extract(opened, file.member, file.folder)
                except ArchiveError as error:
                    problems[file.video_id] = str(error)
                waiting[file.video_id] -= 1
                if not waiting[file.video_id]:
                    del waiting[file.video_id]
                    yield file.video_id, problems.get(file.video_id)
    except (ArchiveError, DownloadError) as error:
        yield from ((video_id, str(error)) for video_id in waiting)


@contextmanager
def _opened(job: _UnzipJob, mirror: Mirror) -> Iterator[OpenArchive]:
    """Open the archive of a job: on disk, downloaded whole, or read from the hub by ranges."""
    if job.is_downloaded_whole:
        for part in job.remote:
            mirror.hub.download(part, mirror.folder / part.path)
    reported = {part.path: part for part in job.remote}
    with mirror.open(job.archive, reported) as file, open_archive(file, job.archive) as opened:
        yield opened
