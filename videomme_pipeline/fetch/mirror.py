"""A local mirror of a part of a release: files as they stand in the hub repository, verified.

What is in the mirror under its name is complete and was compared with the pinned checksum, or
with the one that the hub states. Beside the files it keeps what stands in the archives'
directories. Unzipping belongs to `archives`, what is wanted to `download`.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from upath import UPath

from videomme_pipeline.errors import ArchiveError, DownloadError
from videomme_pipeline.fetch.archives import Member, read_directory
from videomme_pipeline.fetch.hub import HubFile, HubRepository, explained
from videomme_pipeline.fetch.release import FetchSpec, Release, hub_folder, hub_revision
from videomme_pipeline.store import read_rows, write_rows

_DIRECTORIES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Mirror:
    """The files of one commit of a release, on the hub and, as far as fetched, in `folder`."""

    release: Release
    hub: HubRepository
    folder: Path

    @classmethod
    def of(cls, release: Release, spec: FetchSpec, folder: Path) -> Self:
        """The mirror that lies in the media folder `folder`."""
        # huggingface_hub reads HF_ENDPOINT only once, when it is imported.
        endpoint = os.environ.get("HF_ENDPOINT") or None
        hub = HubRepository(release.repository, hub_revision(release, spec), endpoint)
        return cls(release, hub, hub_folder(release, spec, folder))

    def path(self, name: str) -> Path:
        """Where a file of the repository lies once it is fetched."""
        return self.folder / name

    def file(self, name: str) -> Path:
        """A file of the repository on disk, fetched unless it is there.

        Raises:
            DownloadError: when it is not in this commit, cannot be fetched or is not what was
                pinned.
            StorageError: when it cannot be written.
        """
        target = self.path(name)
        if target.is_file():
            return target
        stated = self.stated([name])
        if name not in stated:
            raise DownloadError(
                f"{name} is not in {self.hub}; remove `revision` to use the pinned one, "
                f"{self.release.revision}"
            )
        return self.hub.download(stated[name], target)

    def stated(self, names: Iterable[str]) -> dict[str, HubFile]:
        """What the hub states of files, by name, compared with what the release pins.

        Raises:
            DownloadError: when the repository cannot be read, or is not the published one.
        """
        files = self.hub.files(names)
        pinned = self.release.sha256 if self.hub.revision == self.release.revision else {}
        for name in files.keys() & pinned.keys():
            if files[name].sha256 != pinned[name]:
                raise DownloadError(
                    f"{name} of {self.hub}: the hub states sha256 {files[name].sha256}, pinned "
                    f"is {pinned[name]}; what HF_ENDPOINT points to is not the published dataset"
                )
        return files

    def directories(
        self, archives: Sequence[str]
    ) -> tuple[dict[str, tuple[Member, ...]], dict[str, str]]:
        """The members of each archive; and, of archives that cannot be read, the reason.

        Read from the hub by ranges the first time, some kilobytes each, and kept.

        Raises:
            DownloadError: when the repository itself cannot be read.
        """
        kept = {
            archive: UPath(self.path(f"{archive.replace('/', '-')}.directory.parquet"))
            for archive in archives
        }
        unread = [archive for archive in archives if not kept[archive].is_file()]
        problems: dict[str, str] = {}
        if unread:
            stated = self.stated(unread)
            with ThreadPoolExecutor(_DIRECTORIES_AT_ONCE) as pool:
                found = pool.map(lambda archive: self._directory(archive, stated), unread)
                for archive, result in zip(unread, found, strict=True):
                    if isinstance(result, str):
                        problems[archive] = result
                    else:
                        write_rows(kept[archive], result, Member, fingerprint=self.hub.revision)
        readable = [archive for archive in archives if archive not in problems]
        return {archive: tuple(read_rows(kept[archive], Member)) for archive in readable}, problems

    def _directory(self, archive: str, stated: dict[str, HubFile]) -> tuple[Member, ...] | str:
        """The members of one archive, or why they cannot be read."""
        if archive not in stated:
            return f"{archive} is not in {self.hub}"
        try:
            with explained(f"{archive} of {self.hub}"), self.hub.open(stated[archive]) as file:
                return read_directory(file, archive)
        except (ArchiveError, DownloadError) as error:
            return str(error)
