"""Tables and lines of `videomme run`, `status`, `nightly`, `scores`, `power` and `cache ls`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import filesize
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
    from videomme_pipeline.scoring.statistics.power import PowerAnalysis

LISTED_FAILURES = 10

SCORE_TITLES = {
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
_POWER_TITLES = {"alpha": "level", "effect": "detectable difference (points)"}
_APART = {
    "chosen": "Chosen lists of questions (no scores of a benchmark)",
    "conversation": "Groups of questions, each asked as one conversation",
}
_MARKS = {"error": ("failed ", "bold red"), "warn": ("warning", "yellow")}
"""The mark of a failed check by its severity."""


def _show_apart(
    console: Console, rows: Sequence[Row], show: Callable[[Console, Sequence[Row]], None]
) -> None:
    """Print `rows`, those of chosen lists and of conversations in tables of their own."""
    from videomme_pipeline.scoring.scored_question import apart  # noqa: PLC0415 - slow

    for reasons in sorted({(), *(apart(row["track"]) for row in rows)}):
        if reasons:
            console.print("\n" + "; ".join(_APART[reason] for reason in reasons))
        show(console, [row for row in rows if apart(row["track"]) == reasons])


def score_rows(leaderboard: Sequence[Row]) -> list[dict[str, Any]]:
    """Cells of rows of the `leaderboard` view. If questions failed, scores are lower bounds."""
    from videomme_pipeline.scoring.scored_question import apart  # noqa: PLC0415 - slow

    return [
        {
            **{name: row[name] for name in ("benchmark", "evaluation")},
            "questions": _part(row["questions"], row["benchmark_questions"])
            + "".join(f" ({reason})" for reason in apart(row["track"])),
            "accuracy": at_least(row["failed"], percent(row["accuracy"])),
            "interval": interval(row["accuracy_low"], row["accuracy_high"]),
            "accuracy_of_answered": percent(row["accuracy_of_answered"]),
            "group_score": at_least(row["failed"], _known(row["group_score"], ".1f", "")),
            **{name: row[name] for name in ("unreadable", "failed", "citation")},
        }
        for row in leaderboard
    ]


def show_scores(console: Console, leaderboard: Sequence[Row]) -> None:
    """Print rows of the `leaderboard` view."""
    _show_apart(
        console, leaderboard, lambda to, rows: show_rows(to, score_rows(rows), SCORE_TITLES)
    )


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


def show_across(console: Console, rows: Sequence[Row]) -> None:
    """Print the rows of `across_rows`. "n of N" marks a score of only n of N questions."""
    shown = [
        {name: value for name, value in row.items() if name != "scores"}
        | {name: _cell(cell) for name, cell in row["scores"].items()}
        for row in rows
    ]
    _show_apart(console, shown, show_rows)


def _cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    part = f" ({_part(cell['questions'], cell['benchmark_questions'])})"
    score = at_least(cell["failed"], percent(cell["score"]))
    return f"{score}{'' if cell['complete'] else part} {cell['evaluation']}"


def _part(asked: int, questions: int | None) -> str:
    """The number of questions: "2,700", or "900 of 2,700" for a part of them."""
    return f"{asked:,}" if questions in (None, asked) else f"{asked:,} of {questions:,}"


def show_estimates(console: Console, estimates: Sequence[Row]) -> None:
    """Print the number of partitions of each asset that a run would build, or "unknown"."""
    rows = [{"asset": row["asset"], "build": _known(row["partitions"], ",")} for row in estimates]
    show_rows(console, rows, {"build": "to build"})


def show_costs(console: Console, estimates: Sequence["CostEstimate"]) -> None:
    """Print the requests that each evaluation would send, and their cost."""
    rows = [
        {
            "evaluation": estimate.evaluation,
            "model": estimate.model,
            "questions": estimate.questions,
            "requests": _range(estimate.requests_low, estimate.requests),
            "most_frames": f"{estimate.most_frames:,}",
            "prompt_tokens": _known(estimate.prompt_tokens, ","),
            "dollars": _dollars(estimate),
            "time": "unknown" if estimate.seconds is None else time_span(estimate.seconds),
        }
        for estimate in estimates
    ]
    if rows:
        console.print()
        titles = {"most_frames": "most frames", "prompt_tokens": "prompt tokens"}
        show_rows(console, rows, titles | {"dollars": "US dollars"})
    for estimate in estimates:
        if estimate.problem:
            console.print(
                f"{estimate.evaluation}: {estimate.too_large:,} of {estimate.requests:,} requests "
                f"cannot be answered by {estimate.model}: {estimate.problem}."
            )


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


def _known(value: float | None, form: str, unknown: str = "unknown") -> str:
    return unknown if value is None else f"{value:{form}}"


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


def _causes(counted: Mapping[Any, int]) -> str:
    ordered = sorted(counted.items(), key=lambda item: item[1], reverse=True)
    return ", ".join(f"{cause} ({number:,})" for cause, number in ordered)


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
            mark = ("ok     ", "green") if finding.passed else _MARKS[finding.severity.value]
            show_line(console, f"{finding.check.value}: {finding.summary}", *mark)


def show_power(console: Console, analyses: Sequence["PowerAnalysis"]) -> None:
    """Print one row per analysis; the last column has points of accuracy."""
    rows = [
        {
            "videos": f"{analysis.videos:,}",
            "questions": f"{analysis.questions:,}",
            "discordance": percent(analysis.discordance),
            "correlation": f"{analysis.correlation:.2f}",
            "alpha": percent(analysis.alpha),
            "power": percent(analysis.power),
            "effect": f"{100 * analysis.effect:.1f}",
        }
        for analysis in analyses
    ]
    show_rows(console, rows, _POWER_TITLES)


def show_shelves(console: Console, shelves: Sequence[Row]) -> None:
    """Print the stored files of each kind and name, and a last row with the totals."""
    rows = [
        {
            "kind": shelf["kind"],
            "name": shelf["name"],
            "videos": shelf["videos"] or "",
            "files": shelf["files"],
            "size": filesize.decimal(shelf["bytes"]),
            "used_by": ", ".join(shelf["named_by"]),
        }
        for shelf in shelves
    ]
    files, size = (sum(shelf[column] for shelf in shelves) for column in ("files", "bytes"))
    total = {"kind": "all", "files": files, "size": filesize.decimal(size)}
    show_rows(console, [*rows, total], {"used_by": "used by"})


def time_span(seconds: float) -> str:
    """A duration in the largest unit that gives a number of at least 2: "40 s", "12.5 min"."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"
