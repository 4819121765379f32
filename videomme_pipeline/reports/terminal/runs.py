"""Output of `videomme run`, `status`, `nightly` and `doctor`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from videomme_pipeline.reports.terminal.tables import (
    Row,
    at_least,
    interval,
    percent,
    show_line,
    show_rows,
)

if TYPE_CHECKING:
    from videomme_pipeline.responses.estimate import CostEstimate
    from videomme_pipeline.scoring.nightly.assess import Assessment

LISTED_FAILURES = 10

_SCORE_TITLES = {
    "interval": "95% CI",
    "accuracy_of_answered": "of answered",
    "group_score": "group score",
}
_REPEAT_TITLES = {
    "accuracy": "mean accuracy",
    "majority_vote": "majority vote",
    "pass_at_all": "pass@repeats",
    "flip_rate": "flip rate",
    "interval": "95% CI",
}

_MARKS = {
    "ok": ("ok     ", "green"),
    "warning": ("warning", "yellow"),
    "failed": ("failed ", "bold red"),
}
_MARK_OF_SEVERITY = {"error": "failed", "warn": "warning"}


def show_scores(console: Console, leaderboard: Sequence[Row]) -> None:
    """Print rows of the `leaderboard` view. A score without any answer is left out."""
    rows = [
        {
            **{name: row[name] for name in ("benchmark", "evaluation")},
            "questions": _coverage(row["questions"], row["benchmark_questions"]),
            **_accuracy(row),
            "unreadable": row["unreadable"],
            "failed": row["failed"],
            "citation": row["citation"],
        }
        for row in leaderboard
    ]
    show_rows(console, rows, _SCORE_TITLES)


def _coverage(asked: int, questions: int | None) -> str:
    """The number of questions: "2,700", or "900 of 2,700" for a part of them."""
    return f"{asked:,}" if questions in (None, asked) else f"{asked:,} of {questions:,}"


def show_repeats(console: Console, repeats: Sequence[Row]) -> None:
    """Print rows of the view `repeats`, if there are any."""
    rows = [
        {
            **{name: row[name] for name in ("benchmark", "evaluation", "repeats")},
            **{name: percent(row[name]) for name in ("accuracy", "majority_vote", "pass_at_all")},
            "flip_rate": percent(row["flip_rate"]),
            "interval": interval(row["flip_rate_low"], row["flip_rate_high"]),
        }
        for row in repeats
    ]
    if rows:
        console.print()
        show_rows(console, rows, _REPEAT_TITLES)


def show_estimates(console: Console, estimates: Sequence[Row]) -> None:
    """Print the number of partitions of each asset that a run would build."""
    show_rows(console, estimate_rows(estimates), {"build": "to build"})


def estimate_rows(estimates: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for each asset. A number that is not known yet is shown as "unknown"."""
    return [
        {"asset": row["asset"], "build": _known(row["partitions"], "{:,}".format)}
        for row in estimates
    ]


def show_costs(console: Console, estimates: Sequence["CostEstimate"]) -> None:
    """Print the requests that each evaluation would send, and their cost."""
    if estimates:
        console.print()
        titles = {"prompt_tokens": "prompt tokens", "dollars": "US dollars"}
        show_rows(console, cost_rows(estimates), titles)


def cost_rows(estimates: Sequence["CostEstimate"]) -> list[dict[str, Any]]:
    """One row for each evaluation."""
    return [
        {
            "evaluation": estimate.evaluation,
            "model": estimate.model,
            "questions": estimate.questions,
            "requests": _range(estimate.requests_low, estimate.requests),
            "prompt_tokens": _known(estimate.prompt_tokens, lambda tokens: f"{tokens:,}"),
            "dollars": _dollars(estimate),
        }
        for estimate in estimates
    ]


def show_counts(
    console: Console,
    states: Sequence[str],
    counts: Mapping[str, Mapping[Any, int]],
    causes: Mapping[str, Mapping[Any, int]],
) -> None:
    """Print how many partitions of each asset are in each of `states`, and the causes."""
    rows = [
        {
            "asset": asset,
            **{state: counted.get(state, 0) for state in states},
            "because": _causes(causes.get(asset, {})),
        }
        for asset, counted in counts.items()
    ]
    show_rows(console, rows)


def show_reasons(console: Console, partition: str, reasons: Sequence[str]) -> None:
    """Print one partition with its state, and the reasons on indented lines."""
    console.print("\n  ".join([partition, *reasons]), markup=False, highlight=False, soft_wrap=True)


def show_failed(console: Console, failed: Sequence[tuple[str, str]]) -> None:
    """Print the titles of failed partitions with their reasons, at most `LISTED_FAILURES`."""
    for title, reason in failed[:LISTED_FAILURES]:
        show_line(console, f"{title}: {reason}", "Failed", "bold red")
    if len(failed) > LISTED_FAILURES:
        left = len(failed) - LISTED_FAILURES
        show_line(console, f"… and {left:,} more: videomme status --reasons")


def show_nightly_runs(console: Console, reports: Sequence["Assessment"]) -> None:
    """Print the checks of each nightly run."""
    for report in reports:
        drop = report.detectable_drop
        detectable = "" if drop is None else f", detectable drop at the 5% level {percent(drop)}"
        console.print(f"[bold]{escape(report.evaluation)}[/], {report.date}{detectable}")
        for finding in report.findings:
            mark = _MARKS["ok" if finding.passed else _MARK_OF_SEVERITY[finding.severity.value]]
            show_line(console, f"{finding.check.value}: {finding.summary}", *mark)


def time_span(seconds: float) -> str:
    """A duration in the largest unit that gives a number of at least 2: "40 s", "12.5 min"."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"


def _accuracy(row: Row) -> dict[str, str]:
    """The scores of one row. If questions failed, they are lower bounds."""
    group_score = row["group_score"]
    return {
        "accuracy": at_least(row["failed"], percent(row["accuracy"])),
        "interval": interval(row["accuracy_low"], row["accuracy_high"]),
        "accuracy_of_answered": percent(row["accuracy_of_answered"]),
        "group_score": at_least(row["failed"], "" if group_score is None else f"{group_score:.1f}"),
    }


def _causes(counted: Mapping[Any, int]) -> str:
    ordered = sorted(counted.items(), key=lambda item: item[1], reverse=True)
    return ", ".join(f"{cause} ({number:,})" for cause, number in ordered)


def _range(low: int, high: int) -> str:
    if low == high:
        return f"{high:,}"
    return f"at most {high:,}" if low == 0 else f"{low:,} to {high:,}"


def _dollars(estimate: "CostEstimate") -> str:
    if not estimate.costs_money:
        return "free"
    if estimate.dollars_low is None or estimate.dollars_high is None:
        return "unknown" if estimate.prompt_tokens is None else "unknown price"
    return f"{estimate.dollars_low:.2f} to {estimate.dollars_high:.2f}"


def _known(value: Any, formatted: Callable[[Any], str]) -> str:
    return "unknown" if value is None else formatted(value)
