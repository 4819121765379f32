"""The cost limit of one run, and the dollars that the run has spent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from videomme_pipeline.errors import CostLimitError


class Ledger(Protocol):
    """The record of a run's cost, which a run that resumes it continues."""

    def read(self) -> tuple[float, bool]:
        """The dollars that the run has spent, and True if the limit of the run is used up."""

    def write(self, dollars: float, *, is_used_up: bool) -> None: ...


@dataclass(kw_only=True)
class Spending:
    """Cost limit and cost of one run, over all of its evaluations and processes.

    `stops` has one message per evaluation that a cost limit stopped; the message says how to
    continue. `is_used_up` becomes True when the next request would exceed `max_dollars`. After
    that, the run sends no request that costs money. The limit is not part of any fingerprint.
    """

    run_id: str | None = None
    max_dollars: float | None = None
    spent_dollars: float = 0.0
    is_used_up: bool = False
    stops: list[str] = field(default_factory=list)
    ledger: Ledger | None = None

    @property
    def stopped_by(self) -> str | None:
        """The first message in `stops`, or None."""
        return next(iter(self.stops), None)

    @property
    def left_dollars(self) -> float | None:
        """The dollars that the run may still spend, or None without a limit."""
        if self.max_dollars is None:
            return None
        return 0.0 if self.is_used_up else max(self.max_dollars - self.spent_dollars, 0.0)

    def begin(self, run_id: str, max_dollars: float | None, ledger: Ledger) -> None:
        """Set the limit and reset the cost if `run_id` is a new run."""
        if run_id != self.run_id:
            self.run_id, self.max_dollars, self.ledger = run_id, max_dollars, ledger
            self.spent_dollars, self.is_used_up, self.stops = 0.0, False, []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Begin with the cost of other processes, and record the cost of the block."""
        if self.ledger is not None:
            spent_dollars, is_used_up = self.ledger.read()
            self.spent_dollars = max(self.spent_dollars, spent_dollars)
            self.is_used_up |= is_used_up
        before = self.spent_dollars, self.is_used_up
        try:
            yield
        finally:
            if self.ledger is not None and (self.spent_dollars, self.is_used_up) != before:
                self.ledger.write(self.spent_dollars, is_used_up=self.is_used_up)

    def stop(self, name: str, error: CostLimitError, own_limit: float | None) -> CostLimitError:
        """Record that a limit (of the run, or the model's `own_limit`) was reached."""
        if self.max_dollars is not None and error.max_dollars != own_limit:
            self.is_used_up = True
            error = CostLimitError(self.max_dollars, self.spent_dollars)
        self.stops.append(f"{name}: {error}")
        return error
