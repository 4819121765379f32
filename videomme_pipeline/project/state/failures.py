"""Partitions that could not be built, and the reasons. A later build removes the entry.

Each failure is one small file, so parallel runs never overwrite the failures of another run.
Dagster shows a failed partition only as missing. The command line and the report read the reason
here.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from upath import UPath

from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.state.partitions import Partition, partition_of
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.tables import logging_damage


@dataclass(frozen=True, slots=True)
class FailureLog:
    """The failures of one asset, such as "smoke/frames"."""

    store: Store
    asset: str

    def read(self) -> dict[Partition, str]:
        """The reason of every failed partition."""
        return dict(
            entry for path in self.store.failure_files(self.asset) if (entry := _entry(path))
        )

    def not_ready(self, partition: Partition) -> NotReadyError:
        """NotReadyError for a missing partition, with the recorded reason if there is one."""
        parts = (self.asset, partition.variant, partition.video)
        name = " ".join(part for part in parts if part)
        entry = _entry(self._path(partition))
        return NotReadyError(
            entry[1] if entry else f"{name} is not up to date; materialize it first"
        )

    def update(self, attempted: Iterable[Partition], failures: Mapping[Partition, str]) -> None:
        """Replace the entries of the `attempted` partitions by `failures`."""
        for partition in set(self.read()).intersection(attempted) - set(failures):
            self._path(partition).unlink(missing_ok=True)
        for partition, reason in failures.items():
            entry = {
                "video": partition.video,
                "variant": partition.variant,
                "reason": reason,
            }
            checked = entry | {"checksum": fingerprint(entry)}
            publish(self._path(partition), json.dumps(checked).encode())

    def _path(self, partition: Partition) -> UPath:
        name = f"{partition.variant or ''}~{partition.video or ''}"
        return self.store.failure(self.asset, name)


def _entry(path: UPath) -> tuple[Partition, str] | None:
    """The partition and the reason in a file, or None for a damaged file, which is set aside."""
    # Another process may have built the partition and removed the file.
    with suppress(FileNotFoundError), logging_damage(path):
        entry = json.loads(path.read_bytes())
        if entry.pop("checksum") != fingerprint(entry):
            raise ValueError("its checksum does not match")
        return partition_of(video=entry["video"], variant=entry["variant"]), entry["reason"]
    return None
