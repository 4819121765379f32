"""The looks of races as they are stored: one row per look, one file per pair of evaluations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from videomme_pipeline.fingerprint import version_of
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import write_rows


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
