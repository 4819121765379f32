"""Partitions that could not be made, with their reasons, until they are made after all.

One small file each, so that runs side by side never overwrite each other's. Dagster only knows
that such a partition is missing; this is how the command line and the report know why.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from upath import UPath

from assets.errors import NotReadyError
from assets.partitions import Cell
from videomme_pipeline.store import Store, publish


@dataclass(frozen=True, slots=True)
class FailureLog:
    """The failures of one asset ("smoke/frames")."""

    folder: UPath

    @classmethod
    def of(cls, store: Store, asset: str) -> "FailureLog":
        return cls(store.path("failures", *asset.split("/")))

    def read(self) -> dict[Cell, str]:
        """Why each failed partition could not be made."""
        if not self.folder.is_dir():
            return {}
        entries = [json.loads(path.read_text()) for path in self.folder.glob("*.json")]
        return {Cell(video=e["video"], variant=e["variant"]): e["reason"] for e in entries}

    def not_ready(self, cell: Cell) -> NotReadyError:
        """That a partition is needed and not there, with the reason where one is known."""
        parts = ("/".join(self.folder.parts[-2:]), cell.variant, cell.video)
        name = " ".join(part for part in parts if part)
        return NotReadyError(
            self.read().get(cell) or f"{name} is not up to date; materialize it first"
        )

    def update(self, asked: Iterable[Cell], failures: Mapping[Cell, str]) -> None:
        """Replace what is known of the `asked` partitions by `failures`."""
        for cell in set(self.read()).intersection(asked) - set(failures):
            self._path(cell).unlink(missing_ok=True)
        for cell, reason in failures.items():
            entry = {"video": cell.video, "variant": cell.variant, "reason": reason}
            publish(self._path(cell), json.dumps(entry).encode())

    def _path(self, cell: Cell) -> UPath:
        return self.folder / f"{cell.variant or ''}~{cell.video or ''}.json"
