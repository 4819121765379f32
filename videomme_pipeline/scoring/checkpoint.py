"""Checkpoints of training runs and the verdicts on them: one row per checkpoint and template."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from videomme_pipeline.fingerprint import version_of
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import logging_damage, read_rows, write_rows


class CheckpointOutcome(StrEnum):
    """The state of a checkpoint, or the result of its gate."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    NOT_EVALUATED = "not evaluated"
    DELETED = "deleted"
    """The folder was deleted before the checkpoint was evaluated."""


EVALUATED = (CheckpointOutcome.PASSED, CheckpointOutcome.FAILED, CheckpointOutcome.UNDECIDED)
"""The outcomes of checkpoints that have scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint of a training run, evaluated with the settings of one template."""

    run: str
    """The entry in checkpoints.yaml."""
    step: int
    """The training step."""
    template: str
    """The evaluation whose settings are used."""
    benchmark: str
    """Name of the benchmark."""
    evaluation: str
    """The evaluation of the checkpoint."""
    folder: str
    """Path or URL of the checkpoint."""
    recorded_at: datetime
    """When the checkpoint was found to be finished."""
    outcome: CheckpointOutcome = CheckpointOutcome.PENDING
    """The decision of the gate, or why there is none."""
    reference: str | None = None
    """The evaluation that the checkpoint was compared with, or None for the first checkpoint."""
    verdict: str | None = None
    """better, worse, equivalent or undecided."""
    difference: float | None = None
    """Score of the checkpoint minus that of the reference, in points of 100."""
    difference_low: float | None = None
    """Lower bound of the 95% interval of the difference."""
    difference_high: float | None = None
    """Upper bound of the 95% interval of the difference."""
    p_value: float | None = None
    """Of the sign-flip test of the difference."""
    reason: str | None = None
    """Why the checkpoint was not evaluated, or a sentence about the comparison."""

    @property
    def key(self) -> str:
        """The partition of the checkpoint, `RUN|STEP`."""
        return partition_key(self.run, self.step)


def partition_key(run: str, step: int) -> str:
    return f"{run}|{step}"


def read_checkpoints(store: Store) -> list[Checkpoint]:
    """All recorded checkpoints, by training run and step. Damaged files are left out."""
    rows: list[Checkpoint] = []
    for path in store.checkpoint_files():
        with logging_damage(path):
            rows += read_rows(path, Checkpoint)
    return sorted(rows, key=lambda row: (row.run, row.step, row.template))


def write_checkpoint(store: Store, rows: Sequence[Checkpoint]) -> None:
    """Store the rows of one checkpoint."""
    path = store.checkpoint(rows[0].run, rows[0].step, datetime.now(UTC))
    write_rows(path, rows, Checkpoint, fingerprint=version_of(rows))
