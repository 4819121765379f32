"""The disk budget of `storage.yaml`, checked before and during the extraction of frames."""

import shutil

from pydantic import Field
from rich.filesize import decimal

from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import file_states

STORAGE_FILE = "storage.yaml"


class StorageSpec(Spec):
    """The content of `storage.yaml`. Without the file, one gigabyte stays free."""

    max_frames_gigabytes: float | None = Field(default=None, gt=0)
    """The size of all cached frames together, in 10⁹ bytes; None means no limit."""
    min_free_gigabytes: float = Field(default=1.0, ge=0)
    """The free space to leave on the disk, in 10⁹ bytes."""


class FrameBudget:
    """The limits of `storage.yaml`, and the size of the frames stored so far."""

    def __init__(self, spec: StorageSpec, store: Store) -> None:
        self._spec, self._store = spec, store
        self.stored_bytes = sum(s.bytes for s in file_states(store.path("frames")).values())

    def objection(self) -> str | None:
        """The reason not to store more frames, or None."""
        advice = "free space (videomme cache gc), or change the limit"
        most, least = self._spec.max_frames_gigabytes, self._spec.min_free_gigabytes
        if most is not None and self.stored_bytes > most * 1e9:
            return (
                f"{decimal(self.stored_bytes)} of frames are stored, and {STORAGE_FILE} allows "
                f"`max_frames_gigabytes: {most:g}`; {advice}"
            )
        folder = self._store.local()
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < least * 1e9:
            return (
                f"{folder}: {decimal(free)} are free, and {STORAGE_FILE} keeps "
                f"`min_free_gigabytes: {least:g}`; {advice}"
            )
        return None
