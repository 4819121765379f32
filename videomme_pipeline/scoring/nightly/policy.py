"""The checks of nightly runs, their severities and their limits."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, field_validator

from videomme_pipeline.fingerprint import Spec


class NightlyCheck(StrEnum):
    """A check of every nightly run."""

    ACCURACY = "accuracy"
    GROUP_SCORE = "group_score"
    """Only for benchmarks with question groups."""
    MARGINALS = "marginals"
    """Every value of every facet, with Benjamini–Hochberg correction."""
    FLIPS = "flips"
    """Answers that differ from the usual ones, right or wrong: a sign of another model."""
    UNREADABLE = "unreadable"
    FAILED = "failed"


class Severity(StrEnum):
    """The consequence of a check that fails."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


BUDGET_SHARES: Mapping[NightlyCheck, int] = {
    NightlyCheck.ACCURACY: 16,
    NightlyCheck.GROUP_SCORE: 16,
    NightlyCheck.MARGINALS: 2,
    NightlyCheck.FLIPS: 1,
    NightlyCheck.UNREADABLE: 1,
}
"""The statistical tests, and how much of the budget of false alarms each one has. The check
of failed requests has a fixed limit.

Small drops of the score are the hardest to detect and need most of the budget. Another model or a
broken reader changes so many answers that a small share is enough."""

RULE_VERSION = 5
"""Version of the rules, stored with every finding. Raise it when a verdict can change."""

_DEFAULT_SEVERITY = dict.fromkeys(NightlyCheck, Severity.ERROR) | {
    NightlyCheck.FLIPS: Severity.WARN
}


class AlarmSpec(Spec):
    """`alarm:` in nightly.yaml."""

    runs_per_false_alarm: float = Field(default=60.0, ge=2)
    """The mean number of nightly runs between false alarms of all tests of all tracked
    evaluations together. Evaluations share this budget evenly, tests by `BUDGET_SHARES`."""
    severity: dict[NightlyCheck, Severity] = Field(default_factory=dict, validate_default=True)
    """Severity by check. The budget is divided among the tests that are not `off`."""
    max_failed_rate: float = Field(default=0.02, ge=0, le=1)

    @field_validator("severity")
    @classmethod
    def _complete(cls, severity: dict[NightlyCheck, Severity]) -> dict[NightlyCheck, Severity]:
        return _DEFAULT_SEVERITY | severity
