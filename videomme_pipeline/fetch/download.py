"""Fetch a published benchmark from the Hugging Face Hub: annotations, subtitles and videos.

All files are of one commit. A file gets its final name only when it is complete and verified, so
the next run repairs an interrupted one. Videos are in zip archives of about 5 GB (v1) and 2 GB
(v2). The directories of the archives (some kilobytes at the end of each) list the videos. They are
read by HTTP ranges and kept. If more than half of an archive is wanted, it is downloaded whole and
compared with its sha256. Otherwise only the wanted members are read by ranges and compared with
their CRC.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

from filelock import FileLock

from videomme_pipeline.errors import ArchiveError, DownloadError, StorageError
from videomme_pipeline.fetch.archives import (
    BinaryFile,
    Member,
    extract,
    open_archive,
    read_directory,
)
from videomme_pipeline.fetch.hub import HubFile, explained
from videomme_pipeline.fetch.mirror import Mirror
from videomme_pipeline.fetch.release import FetchSpec, Release, VideoReference

WHOLE_ARCHIVE_SHARE = 0.5
"""An archive is downloaded whole if more than this share of its bytes is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress:
    """Progress of a fetch. Bytes are those of whole archives and of unzipped files."""

    videos_done: int
    videos_wanted: int
    bytes_done: int
    bytes_wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """The file of one video, or the problem with it.

    If there is neither path nor problem, the repository has no such file. Many videos have no
    subtitles.
    """

    video_id: str
    path: Path | None
    problem: str | None = None


def fetch_annotations(release: Release, spec: FetchSpec, folder: Path) -> Path:
    """Path of the annotation file, which is downloaded to `folder` unless it exists.

    Raises:
        DownloadError: if it cannot be fetched or is not the pinned file.
        StorageError: if `folder` cannot be written.
    """
    (path,) = fetch_files(release, spec, folder, [release.annotations])
    return path


def fetch_files(
    release: Release, spec: FetchSpec, folder: Path, names: Sequence[str]
) -> tuple[Path, ...]:
    """Paths of repository files, which are downloaded to `folder` unless they exist.

    Errors are those of `fetch_annotations`.
    """
    mirror = Mirror.of(release, spec, folder)
    if all(mirror.path(name).is_file() for name in names):
        return tuple(mirror.path(name) for name in names)
    with _locked(folder):
        return tuple(mirror.file(name) for name in names)


def fetch_subtitles(
    release: Release,
    spec: FetchSpec,
    videos: Iterable[VideoReference],
    folder: Path,
) -> tuple[FetchedFile, ...]:
    """Unzip the subtitle files of `videos` to `release.subtitle_folder`, and return them in order.

    Raises:
        DownloadError: if the archive cannot be fetched or is not the pinned file.
        ArchiveError: if the archive is rejected.
        StorageError: if `folder` cannot be written.
    """
    target = folder / release.subtitle_folder
    with _locked(folder):
        path = Mirror.of(release, spec, folder).file(release.subtitles)
        with (
            explained(release.subtitles),
            path.open("rb") as file,
            open_archive(file, release.subtitles) as opened,
        ):
            members = {member.stem: member for member in read_directory(file, release.subtitles)}
            return tuple(
                _subtitle(opened, video, members.get(video.file_stem), target) for video in videos
            )


def fetch_videos(
    release: Release,
    spec: FetchSpec,
    videos: Iterable[VideoReference],
    folder: Path,
    on_progress: Callable[[FetchProgress], None] = lambda _: None,
) -> tuple[FetchedFile, ...]:
    """Unzip `videos` to `release.video_folder` under `folder`, and return their files in order.

    Existing files are kept. A video that cannot be fetched is returned with the problem, and the
    others continue. Archives that were downloaded whole are kept unless `spec.keep_archives` is
    false.

    Raises:
        DownloadError: if the repository cannot be read at all (missing, gated, offline).
        StorageError: before the first download if the disk is too small for all wanted videos, or
            later if it is full.
    """
    wanted = tuple(videos)
    mirror = Mirror.of(release, spec, folder)
    target = folder / release.video_folder
    members, problems = _find_members(mirror, wanted)
    if _missing(members, target):
        with _locked(folder):
            jobs = _unzip_jobs(mirror, _missing(members, target))
            _require_space(jobs, folder, keep_archives=spec.keep_archives)
            meter = _Meter(on_progress, len(wanted), jobs)
            for job in jobs:
                problems |= _unzip(job, mirror, target, meter)
                if not spec.keep_archives and not problems.keys() & job.members.keys():
                    job.archive.unlink(missing_ok=True)
    return tuple(
        FetchedFile(
            video_id=video.video_id,
            path=None if video.video_id in problems else target / members[video.video_id].file_name,
            problem=problems.get(video.video_id),
        )
        for video in wanted
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnzipJob:
    """The wanted members of one archive. `reported` is None if the archive is already on disk."""

    archive: Path
    reported: HubFile | None
    members: Mapping[str, Member]

    @property
    def unzipped_bytes(self) -> int:
        return sum(member.size_bytes for member in self.members.values())

    @property
    def is_downloaded_whole(self) -> bool:
        stored = sum(member.stored_bytes for member in self.members.values())
        return self.reported is not None and stored > self.reported.size_bytes * WHOLE_ARCHIVE_SHARE

    @property
    def download_bytes(self) -> int:
        """Bytes on disk in addition to the unzipped files."""
        return self.reported.size_bytes if self.reported and self.is_downloaded_whole else 0


class _Meter:
    """Counts finished work and reports it to the caller."""

    def __init__(
        self,
        on_progress: Callable[[FetchProgress], None],
        videos_wanted: int,
        jobs: Sequence[_UnzipJob],
    ) -> None:
        self._report = on_progress
        self._now = FetchProgress(
            videos_done=videos_wanted - sum(len(job.members) for job in jobs),
            videos_wanted=videos_wanted,
            bytes_done=0,
            bytes_wanted=sum(job.download_bytes + job.unzipped_bytes for job in jobs),
        )
        self._report(self._now)

    def add(self, size_bytes: int = 0, videos: int = 0) -> None:
        self._now = replace(
            self._now,
            bytes_done=self._now.bytes_done + size_bytes,
            videos_done=self._now.videos_done + videos,
        )
        self._report(self._now)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Allow only one process at a time to fetch into `folder`. Others wait, then find the files."""
    lock = FileLock(folder / ".fetch.lock")
    with explained(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _subtitle(
    opened: ZipFile, video: VideoReference, member: Member | None, target: Path
) -> FetchedFile:
    if member is None:
        return FetchedFile(video_id=video.video_id, path=None)
    try:
        path = (
            target / member.file_name
            if _is_complete(target, member)
            else extract(opened, member, target)
        )
    except ArchiveError as error:
        return FetchedFile(video_id=video.video_id, path=None, problem=str(error))
    return FetchedFile(video_id=video.video_id, path=path)


def _is_complete(target: Path, member: Member) -> bool:
    path = target / member.file_name
    return path.is_file() and path.stat().st_size == member.size_bytes


def _missing(members: Mapping[str, Member], target: Path) -> dict[str, Member]:
    return {
        video_id: member for video_id, member in members.items() if not _is_complete(target, member)
    }


def _find_members(
    mirror: Mirror, wanted: Sequence[VideoReference]
) -> tuple[dict[str, Member], dict[str, str]]:
    """The archive member of each video, and the problems of the others, by video id."""
    candidates = {video: mirror.release.archives_with(video.video_id) for video in wanted}
    archives = list(dict.fromkeys(chain.from_iterable(candidates.values())))
    directories, unread = mirror.directories(archives)
    by_archive = {
        archive: {member.stem: member for member in found} for archive, found in directories.items()
    }
    members: dict[str, Member] = {}
    problems: dict[str, str] = {}
    for video, possible in candidates.items():
        found = [
            by_archive[archive][video.file_stem]
            for archive in possible
            if video.file_stem in by_archive.get(archive, {})
        ]
        if found:
            members[video.video_id] = found[0]
        else:
            reasons = [unread[archive] for archive in possible if archive in unread]
            problems[video.video_id] = "; ".join(
                [
                    f"video {video.video_id}: no archive of {mirror.hub} that could be read "
                    f"contains {video.file_stem}.mp4",
                    *reasons,
                ]
            )
    return members, problems


def _unzip_jobs(mirror: Mirror, missing: Mapping[str, Member]) -> list[_UnzipJob]:
    by_archive: defaultdict[str, dict[str, Member]] = defaultdict(dict)
    for video_id, member in missing.items():
        by_archive[member.archive][video_id] = member
    remote = [archive for archive in by_archive if not mirror.path(archive).is_file()]
    reported = mirror.reported(remote) if remote else {}
    return [
        _UnzipJob(archive=mirror.path(archive), reported=reported.get(archive), members=members)
        for archive, members in by_archive.items()
    ]


def _require_space(jobs: Sequence[_UnzipJob], folder: Path, *, keep_archives: bool) -> None:
    downloads = [job.download_bytes for job in jobs]
    archives = sum(downloads) if keep_archives else max(downloads, default=0)
    needed = sum(job.unzipped_bytes for job in jobs) + archives
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            f"{folder}: the videos need {needed / 1e9:.1f} GB "
            f"({archives / 1e9:.1f} GB of it for archives), {free / 1e9:.1f} GB are free; free "
            "some space, choose another data folder, set `keep_archives: false`, or ask for "
            "fewer videos with `videos` or `limit`"
        )


def _unzip(job: _UnzipJob, mirror: Mirror, target: Path, meter: _Meter) -> dict[str, str]:
    """Unzip the members of one job, and return the problems by video id."""
    problems: dict[str, str] = {}
    waiting = dict(job.members)
    try:
        with (
            explained(f"{job.archive.name} of {mirror.hub}"),
            _opened(job, mirror, meter) as opened,
        ):
            for video_id, member in job.members.items():
                try:
                    extract(opened, member, target, meter.add)
                except ArchiveError as error:
                    problems[video_id] = str(error)
                del waiting[video_id]
                meter.add(videos=1)
    except (ArchiveError, DownloadError) as error:
        problems |= dict.fromkeys(waiting, str(error))
        meter.add(videos=len(waiting))
    return problems


@contextmanager
def _opened(job: _UnzipJob, mirror: Mirror, meter: _Meter) -> Iterator[ZipFile]:
    """Open the archive of a job: on disk, downloaded whole, or read from the hub by ranges."""
    if job.reported is not None and job.is_downloaded_whole:
        mirror.hub.download(job.reported, job.archive, meter.add)
    if job.archive.is_file():
        file: BinaryFile = job.archive.open("rb")
    elif job.reported is not None:
        file = mirror.hub.open(job.reported)
    else:
        raise DownloadError(f"{job.archive.name} is not in {mirror.hub}; run again")
    with file, open_archive(file, job.archive.name) as opened:
        yield opened
