"""The disk budget of `storage.yaml`, checked before and during the extraction of frames."""

import logging
import shutil
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field
from rich.filesize import decimal

from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.listing import file_states

STORAGE_FILE = "storage.yaml"


class WhenExceeded(StrEnum):
    """The reaction to an exceeded limit."""

    STOP = "stop"
    WARN = "warn"


class StorageSpec(Spec):
    """The content of `storage.yaml`. Without the file, one gigabyte stays free."""

    max_frames_gigabytes: float | None = Field(default=None, gt=0)
    """The size of all cached frames together, in 10⁹ bytes; None means no limit."""
    min_free_gigabytes: float = Field(default=1.0, ge=0)
    """The free space to leave on the disk, in 10⁹ bytes."""
    when_exceeded: WhenExceeded = WhenExceeded.STOP


class FrameBudget:
    """The limits of `storage.yaml`, and the size of the frames stored so far."""

    def __init__(self, spec: StorageSpec, store: Store) -> None:
        self._spec, self._store = spec, store
        self._sizes: dict[str, list[int]] = defaultdict(list)
        for name, state in file_states(store.path("frames")).items():
            settings = name.rpartition("/")[2].removesuffix(".parquet")
            self._sizes[settings].append(state.bytes)
        self.stored_bytes = sum(map(sum, self._sizes.values()))

    def expected_bytes(self, settings: Iterable[str]) -> float:
        """The expected size of new frame files in bytes, one file per fingerprint in `settings`.

        The size of one is the mean of the stored files with these settings, or 0 without such
        files.
        """
        stored = (self._sizes.get(fingerprint, [0]) for fingerprint in settings)
        return sum(sum(sizes) / len(sizes) for sizes in stored)

    def objection(self, expected_bytes: float = 0.0) -> str | None:
        """The reason not to store `expected_bytes` more, or None if both limits allow that.

        With `when_exceeded: warn`, the reason is logged and the result is None.
        """
        problem = self._problem(expected_bytes)
        if problem is None or self._spec.when_exceeded is WhenExceeded.STOP:
            return problem
        logging.getLogger(__name__).warning(problem)
        return None

    def _problem(self, expected_bytes: float) -> str | None:
        advice = "free space (videomme cache gc), change the limit, or set `when_exceeded: warn`"
        more = decimal(round(expected_bytes))
        needed = f" and about {more} more are needed" if expected_bytes else ""
        most = self._spec.max_frames_gigabytes
        if most is not None and self.stored_bytes + expected_bytes > most * 1e9:
            return (
                f"{decimal(self.stored_bytes)} of frames are stored{needed}, and "
                f"{STORAGE_FILE} allows `max_frames_gigabytes: {most:g}`; {advice}"
            )
        folder = self._store.local()
        folder.mkdir(parents=True, exist_ok=True)
        free, least = shutil.disk_usage(folder).free, self._spec.min_free_gigabytes
        if free - expected_bytes < least * 1e9:
            return (
                f"{folder}: {decimal(free)} are free{needed}, and {STORAGE_FILE} keeps "
                f"`min_free_gigabytes: {least:g}`; {advice}"
            )
        return None
