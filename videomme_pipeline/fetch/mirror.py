"""A local mirror of the fetched files of a release, and of the directories of its archives.

A file in the mirror is complete, and was compared with the pinned checksum or the hub's.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from huggingface_hub import RepoFile
from upath import UPath

from videomme_pipeline.errors import ArchiveError, DownloadError
from videomme_pipeline.fetch.archives import (
    BinaryFile,
    JoinedFile,
    Member,
    is_compressed_tar,
    read_directory,
    sha256,
)
from videomme_pipeline.fetch.hub import HubRepository, explained
from videomme_pipeline.fetch.release import Release
from videomme_pipeline.storage.tables import read_rows, set_aside, write_rows

_DIRECTORIES_AT_ONCE = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mirror:
    """Files of one commit of a release: on the hub, and in `folder` once they are fetched."""

    release: Release
    hub: HubRepository
    folder: Path

    @classmethod
    def of(cls, release: Release, folder: Path) -> Self:
        """The mirror in a media folder. Raises ConfigurationError if no commit is named."""
        stored = release.stored_in(folder)
        # huggingface_hub reads HF_ENDPOINT only once, when it is imported.
        endpoint = os.environ.get("HF_ENDPOINT") or None
        hub = HubRepository(release.hub.repository, stored.name, endpoint)
        return cls(release, hub, stored)

    def file(self, name: str) -> Path:
        """Path of a repository file on disk, fetched unless it exists.

        Raises DownloadError if it is not in this commit, cannot be fetched or is not the pinned
        one, and StorageError if it cannot be written.
        """
        target = self.folder / name
        if target.is_file():
            if self._is_intact(name, target):
                return target
            _log.warning("%s: the file is damaged%s", target, set_aside(target))
        reported = self.reported([name])
        if name not in reported:
            raise DownloadError(
                f"{name} is not in {self.hub}; remove `revision` to use the pinned one, "
                f"{self.release.hub.revision}"
            )
        self.hub.download(reported[name], target)
        if not self._is_intact(name, target):  # only Git LFS lists hashes
            target.unlink()
            raise DownloadError(
                f"{name} of {self.hub} has not the sha256 {self._pinned[name]} that is pinned; "
                "HF_ENDPOINT is not the published dataset"
            )
        return target

    def files_of(self, archive: str) -> tuple[str, ...]:
        """The repository files of an archive: its parts if it is split."""
        return tuple(self.release.hub.parts.get(archive, (archive,)))

    def missing(self, archive: str) -> list[str]:
        """The files of an archive that are not on disk."""
        return [name for name in self.files_of(archive) if not (self.folder / name).is_file()]

    def open(self, archive: str, reported: Mapping[str, RepoFile]) -> BinaryFile:
        """An archive, whose files that are not on disk are read by ranges. Raises DownloadError."""
        parts = [self._open_file(name, reported) for name in self.files_of(archive)]
        return parts[0][0] if len(parts) == 1 else JoinedFile(parts)

    def _open_file(self, name: str, reported: Mapping[str, RepoFile]) -> tuple[BinaryFile, int]:
        path = self.folder / name
        if path.is_file():
            return path.open("rb"), path.stat().st_size
        if name not in reported:
            raise DownloadError(f"{name} is not in {self.hub}; run again")
        return self.hub.open(reported[name]), reported[name].size

    def _is_intact(self, name: str, target: Path) -> bool:
        """True unless a fetched file differs from the pinned checksum."""
        pinned = self._pinned.get(name)
        return pinned is None or pinned == sha256(target)

    @property
    def _pinned(self) -> Mapping[str, str]:
        """The pinned checksums by name; none for another revision."""
        return self.release.hub.sha256 if self.hub.revision == self.release.hub.revision else {}

    def reported(self, names: Iterable[str]) -> dict[str, RepoFile]:
        """Size and checksum that the hub reports for files, compared with the pinned checksums.

        Raises DownloadError if the repository cannot be read, or is not the published one.
        """
        files = self.hub.files(names)
        pinned = self._pinned
        for name in files.keys() & pinned.keys():
            lfs = files[name].lfs
            if lfs and lfs.sha256 != pinned[name]:
                raise DownloadError(
                    f"{name} of {self.hub}: the hub reports sha256 {lfs.sha256}, but "
                    f"{pinned[name]} is pinned; HF_ENDPOINT is not the published dataset"
                )
        return files

    def directories(
        self, archives: Sequence[str]
    ) -> tuple[dict[str, tuple[Member, ...]], dict[str, str]]:
        """The members of each archive, and the problems of archives that cannot be read.

        Directories are read by ranges once, and kept. Raises DownloadError without the repository.
        """
        kept = {
            archive: UPath(self.folder / f"{archive.replace('/', '-')}.directory.parquet")
            for archive in archives
        }
        unread = [archive for archive in archives if not kept[archive].is_file()]
        problems: dict[str, str] = {}
        if unread:
            reported = self.reported(chain.from_iterable(map(self.files_of, unread)))
            with ThreadPoolExecutor(_DIRECTORIES_AT_ONCE) as pool:
                results = pool.map(lambda archive: self._directory(archive, reported), unread)
                for archive, result in zip(unread, results, strict=True):
                    if isinstance(result, str):
                        problems[archive] = result
                    else:
                        write_rows(kept[archive], result, Member, fingerprint=self.hub.revision)
        readable = [archive for archive in archives if archive not in problems]
        return {archive: tuple(read_rows(kept[archive], Member)) for archive in readable}, problems

    def _directory(self, archive: str, reported: dict[str, RepoFile]) -> tuple[Member, ...] | str:
        absent = [name for name in self.files_of(archive) if name not in reported]
        if absent:
            return f"{absent[0]} is not in {self.hub}"
        try:
            with explained(f"{archive} of {self.hub}"):
                if is_compressed_tar(archive):
                    for name in self.missing(archive):
                        self.hub.download(reported[name], self.folder / name)
                with self.open(archive, reported) as file:
                    return read_directory(file, archive, keeps_folders=self.release.keeps_folders)
        except (ArchiveError, DownloadError) as error:
            return str(error)
