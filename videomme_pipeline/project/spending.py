"""The money that one run may spend on models, and what it has spent so far."""

from dataclasses import dataclass, field

from videomme_pipeline.errors import CostLimitError


@dataclass(kw_only=True)
class Spending:
    """What one run may spend on models, over all its evaluations, and what it has spent.

    `stops` has one message per evaluation that ran out of money; the message says how to
    continue. `is_used_up` is set once a request no longer fits into what is left: from then on,
    nothing that costs money is asked. The limit is not part of any fingerprint.
    """

    run_id: str | None = None
    most_dollars: float | None = None
    spent_dollars: float = 0.0
    is_used_up: bool = False
    stops: list[str] = field(default_factory=list)

    @property
    def stopped_by(self) -> str | None:
        """The first of the `stops`, or None: later evaluations find no money either."""
        return next(iter(self.stops), None)

    @property
    def left_dollars(self) -> float | None:
        """The dollars that may still be spent, or None without a limit."""
        if self.most_dollars is None:
            return None
        return 0.0 if self.is_used_up else max(self.most_dollars - self.spent_dollars, 0.0)

    def begin(self, run_id: str, most_dollars: float | None) -> None:
        """Start counting from zero if `run_id` is another run than before."""
        if run_id != self.run_id:
            self.run_id, self.most_dollars = run_id, most_dollars
            self.spent_dollars, self.is_used_up, self.stops = 0.0, False, []

    def stop(self, name: str, error: CostLimitError, own_limit: float | None) -> CostLimitError:
        """Record that `error` ended the requests of `name`, and return the error to raise.

        The limit was either the `own_limit` of the model or that of the run.
        """
        if self.most_dollars is not None and error.most_dollars != own_limit:
            self.is_used_up = True
            error = CostLimitError(self.most_dollars, self.spent_dollars)
        self.stops.append(f"{name}: {error}")
        return error
