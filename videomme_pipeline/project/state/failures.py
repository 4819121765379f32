"""Partitions that could not be built, and the reasons. A later build removes the entry.

Each failure is one small file, so parallel runs never overwrite those of another run. Its name
contains the fingerprint that could not be built, so a failure ends when settings or inputs change.
Dagster shows only that a partition is missing. The command line and the report read why here.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from upath import UPath

from videomme_pipeline.errors import DamagedFileError, NotReadyError
from videomme_pipeline.project.state.partitions import Partition, partition_of
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import SUFFIX, StoredName
from videomme_pipeline.storage.objects import file_names
from videomme_pipeline.storage.records import read_record, write_record
from videomme_pipeline.storage.tables import set_aside

UNKNOWN = "0" * 24
"""Stands for the fingerprint of a partition whose inputs are not known."""
_SUFFIX = ".json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of a failed partition, and the fingerprint that could not be built."""

    reason: str
    fingerprint: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class FailureLog:
    """The failures of one asset, such as "smoke/frames"."""

    store: Store
    asset: str

    def read(self) -> dict[Partition, Failure]:
        """The newest failure of every failed partition."""
        return {partition: failure for partition, failure, _ in self._entries()}

    def reasons(self) -> dict[Partition, str]:
        """The reason of every failed partition."""
        return {partition: failure.reason for partition, failure in self.read().items()}

    def not_ready(self, partition: Partition) -> NotReadyError:
        """NotReadyError for a missing partition, with the recorded reason if there is one."""
        parts = (self.asset, partition.variant, partition.video)
        name = " ".join(part for part in parts if part)
        for _, failure, _ in self._entries(partition):
            return NotReadyError(failure.reason)
        return NotReadyError(f"{name} is not up to date; materialize it first")

    def update(
        self, attempted: Collection[Partition], failures: Mapping[Partition, Failure]
    ) -> None:
        """Replace the entries of the `attempted` partitions by `failures`."""
        for partition, failure, path in self._entries():
            if partition in attempted and failures.get(partition) != failure:
                path.unlink(missing_ok=True)
        for partition, failure in failures.items():
            write_record(self._path(partition, failure.fingerprint), {"reason": failure.reason})

    def _entries(self, only: Partition | None = None) -> Iterator[tuple[Partition, Failure, UPath]]:
        """Yield every failure, or those of one partition. A damaged file is set aside."""
        folder = self._folder
        for text in sorted(file_names(folder)):
            name = StoredName.parse(text.removesuffix(_SUFFIX) + SUFFIX)
            if name is None or (only and (name.variant, name.video) != (only.variant, only.video)):
                continue
            path = folder.joinpath(*text.split("/"))
            # Another process may have built the partition and removed the file.
            with suppress(FileNotFoundError):
                try:
                    entry = read_record(path)
                except DamagedFileError as error:
                    _log.warning("%s%s", error, set_aside(path))
                    continue
                partition = partition_of(video=name.video, variant=name.variant)
                yield partition, Failure(entry["reason"], name.fingerprint), path

    @property
    def _folder(self) -> UPath:
        benchmark, _, stage = self.asset.rpartition("/")
        return self.store.failures(benchmark or "-", stage)

    def _path(self, partition: Partition, fingerprint: str) -> UPath:
        name = StoredName(variant=partition.variant, video=partition.video, fingerprint=fingerprint)
        return self._folder.joinpath(*(str(name).removesuffix(SUFFIX) + _SUFFIX).split("/"))
