"""Stored verdicts: of checkpoints of training runs, one row per template, and of looks of races."""

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
    for path in store.newest_files("checkpoints"):
        with logging_damage(path):
            rows += read_rows(path, Checkpoint)
    return sorted(rows, key=lambda row: (row.run, row.step, row.template))


def write_checkpoint(store: Store, rows: Sequence[Checkpoint]) -> None:
    """Store the rows of one checkpoint."""
    path = store.checkpoint(rows[0].run, rows[0].step, datetime.now(UTC))
    write_rows(path, rows, Checkpoint, fingerprint=version_of(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLook:
    """One look of a race: the difference after the first videos, and what followed."""

    benchmark: str
    """Name of the benchmark."""
    baseline: str
    """The evaluation that the candidate is compared with."""
    candidate: str
    """The other evaluation."""
    baseline_fingerprint: str
    """Hash of all settings of the baseline."""
    candidate_fingerprint: str
    """Hash of all settings of the candidate."""
    seed: int
    """Seed of the order of the videos."""
    margin: float
    """Points that are no difference in practice."""
    videos: int
    """Number of videos that both were asked about until this look."""
    all_videos: int
    """Number of videos of a race that does not stop before its end."""
    questions: int
    """Number of questions that each evaluation was asked until this look."""
    failed: int
    """Number of questions without an answer on one side."""
    difference: float
    """Score of the candidate minus that of the baseline, in points of 100."""
    difference_low: float | None
    """Lower end of the 95% interval."""
    difference_high: float | None
    """Upper end of the 95% interval."""
    boundary: float | None
    """The smallest difference that this look finds, by Student's t, in points."""
    p_value: float
    """The p-value of the sign-flip test."""
    verdict: str
    """better, worse, equivalent or undecided."""
    stop: str | None
    """Why the race ended after this look, or None."""
    recorded_at: datetime
    """Time of the look."""


def write_race(store: Store, looks: Sequence[RecordedLook]) -> None:
    """Store the looks of a race. They replace the looks of an earlier race of these evaluations."""
    path = store.race(looks[0].baseline, looks[0].candidate, datetime.now(UTC))
    write_rows(path, looks, RecordedLook, fingerprint=version_of(looks))
