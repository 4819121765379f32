"""The cost limit of a run, over all processes that work on it."""

from videomme_pipeline.errors import CostLimitError
from videomme_pipeline.project.runs.spending import Spending


class Tags:
    """A ledger in memory."""

    recorded = 0.0, False

    def read(self) -> tuple[float, bool]:
        return self.recorded

    def write(self, dollars: float, *, is_used_up: bool) -> None:
        self.recorded = dollars, is_used_up


def test_a_limit_that_one_process_has_reached_holds_for_the_next_process() -> None:
    ledger, first, second = Tags(), Spending(), Spending()
    first.begin("run", 1.7, ledger)
    with first.recorded():
        first.spent_dollars = 1.6
        first.stop("evaluation", CostLimitError(1.7, 1.6), None)
    second.begin("run", 1.7, ledger)
    with second.recorded():
        assert second.spent_dollars == 1.6
        assert second.left_dollars == 0.0, "0.1 dollars are less than the next request may cost"
