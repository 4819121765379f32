"""Tables for a terminal: aligned and coloured there, plain tab-separated lines when piped."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import inf
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import filesize
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from videomme_pipeline.responses.estimate import CostEstimate
    from videomme_pipeline.scoring.statistics.compare import Comparison
    from videomme_pipeline.scoring.statistics.estimates import Estimate, PairedDifference

Row = Mapping[str, Any]

SIGNIFICANCE = 0.05

_NUMBER = re.compile(r"|[+-]?[\d.,]+( %)?(( – | to )[+-]?[\d.,]+)?")
"""Texts that are read as numbers, so that they stand under one another."""

SCORE_COLUMNS = {
    "benchmark": "benchmark",
    "evaluation": "evaluation",
    "questions": "questions",
    "accuracy": "accuracy",
    "interval": "95 % interval",
    "accuracy_of_answered": "of answered",
    "group_score": "group score",
    "unreadable": "unreadable",
    "failed": "failed",
}


def show_rows(console: Console, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """`rows` with the named columns; `columns` gives their headings in order.

    Without a terminal: a heading line and one line a row, tab-separated, nothing shortened.
    """
    if not console.is_terminal:
        # Not through `console.print`, which turns tabs into spaces.
        console.file.write("\t".join(columns) + "\n")
        for row in rows:
            console.file.write("\t".join(_text(row.get(name)) for name in columns) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, heading in columns.items():
        numeric = all(_NUMBER.fullmatch(_text(row.get(name))) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(_text(row.get(name))) for name in columns))
    console.print(table)


def score_rows(leaderboard: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of the `leaderboard` view as people read them: percentages, intervals in one cell."""
    return [
        {
            "benchmark": row["benchmark"],
            "evaluation": row["evaluation"],
            "questions": row["questions"],
            "accuracy": percent(row["accuracy"]),
            "interval": interval(row["accuracy_low"], row["accuracy_high"]),
            "accuracy_of_answered": percent(row["accuracy_of_answered"]),
            "group_score": "" if row["group_score"] is None else f"{row['group_score']:.1f}",
            "unreadable": row["unreadable"],
            "failed": row["failed"],
        }
        for row in leaderboard
    ]


COST_COLUMNS = {
    "evaluation": "evaluation",
    "model": "model",
    "questions": "questions",
    "requests": "to ask",
    "prompt_tokens": "prompt tokens",
    "dollars": "US dollars",
}


def cost_rows(estimates: Sequence["CostEstimate"]) -> list[dict[str, Any]]:
    """What asking would cost, by evaluation, as people read it."""
    return [
        {
            "evaluation": held.evaluation,
            "model": held.model,
            "questions": held.questions,
            "requests": _span(held.requests_low, held.requests),
            "prompt_tokens": _known(held.prompt_tokens, lambda tokens: f"{tokens:,}"),
            "dollars": _dollars(held),
        }
        for held in estimates
    ]


def _span(low: int, high: int) -> str:
    return str(high) if low == high else f"{low} to {high}"


def _dollars(estimate: "CostEstimate") -> str:
    if not estimate.costs_money:
        return "not paid"
    if estimate.dollars_low is None or estimate.dollars_high is None:
        return "unknown" if estimate.prompt_tokens is None else "unknown price"
    return f"{estimate.dollars_low:.2f} to {estimate.dollars_high:.2f}"


ESTIMATE_COLUMNS = {
    "asset": "asset",
    "make": "to make",
    "already_stored": "already stored",
    "time": "time",
    "disk": "disk",
}


def estimate_rows(estimates: Sequence[Row]) -> list[dict[str, Any]]:
    """What a run would take, by asset, as people read it; the last row is all of it.

    A sum with something unknown in it is said to be more than what is known.
    """
    rows = [
        {
            "asset": row["asset"],
            "make": _known(row["partitions"], str),
            "already_stored": row["already_stored"],
            "time": _known(row["seconds"], time_span),
            "disk": _known(row["bytes"], lambda size: filesize.decimal(round(size))),
        }
        for row in estimates
    ]
    return [
        *rows,
        {
            "asset": "all",
            "make": _total(estimates, "partitions", str),
            "already_stored": sum(row["already_stored"] for row in estimates),
            "time": _total(estimates, "seconds", time_span),
            "disk": _total(estimates, "bytes", lambda size: filesize.decimal(round(size))),
        },
    ]


SHELF_COLUMNS = {
    "kind": "kind",
    "name": "name",
    "videos": "videos",
    "files": "files",
    "size": "size",
    "used_by": "used by",
}


def shelf_rows(shelves: Sequence[Row]) -> list[dict[str, Any]]:
    """What is stored, as people read it; the last row is all of it."""
    rows = [
        {
            **{name: shelf[name] for name in ("kind", "name", "files")},
            "videos": shelf["videos"] or "",
            "size": filesize.decimal(shelf["bytes"]),
            "used_by": ", ".join(shelf["named_by"]) or ("samplings.yaml" * shelf["offered"]),
        }
        for shelf in shelves
    ]
    total = {column: sum(shelf[column] for shelf in shelves) for column in ("files", "bytes")}
    return [
        *rows,
        {"kind": "all", "files": total["files"], "size": filesize.decimal(total["bytes"])},
    ]


def time_span(seconds: float) -> str:
    """A time to wait, in the unit that a person would say it in."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"


def _known(value: Any, written: Callable[[Any], str]) -> str:
    return "unknown" if value is None else written(value)


def _total(rows: Sequence[Row], column: str, written: Callable[[Any], str]) -> str:
    known = [row[column] for row in rows if row[column] is not None]
    text = written(sum(known))
    return text if len(known) == len(rows) else f"more than {text}" if known else "unknown"


MARGINAL_COLUMNS = {
    "by": "by",
    "value": "value",
    "a": "A",
    "b": "B",
    "difference": "A − B",
    "interval": "95 % interval",
    "n": "n",
    "p_value": "adjusted p",
    "real": "real",
}
SETTING_COLUMNS = {"setting": "differs", "a": "A", "b": "B"}
_MARGINAL_ORDER = ("duration", "domain", "task_type", "sub_category", "group_type", "level")


def show_comparison(console: Console, comparison: "Comparison") -> None:
    """A minus B: which is better, what differs in the specification, and every part.

    In points of accuracy, of the group score where there are groups.
    """
    difference, flips = comparison.accuracy.difference, comparison.flip_rate
    lines = [
        f"A  {comparison.evaluation_a}  {percent(comparison.accuracy_a.mean)}",
        f"B  {comparison.evaluation_b}  {percent(comparison.accuracy_b.mean)}",
        f"Accuracy A − B  {_verdict(comparison.accuracy, 100)}",
    ]
    if comparison.group_score is not None:
        lines.append(f"Group score A − B  {_verdict(comparison.group_score, 1)}")
    lines.append(
        f"{difference.values} questions answered by both: {len(comparison.won)} right in A alone, "
        f"{len(comparison.lost)} in B alone, {percent(flips.mean)} with another letter; "
        f"{len(comparison.failed)} without an answer"
    )
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    settings = [
        {"setting": one.key, "a": one.a or "–", "b": one.b or "–"}
        for one in comparison.changed_settings
    ]
    for rows, columns in (
        (settings, SETTING_COLUMNS),
        (marginal_rows(comparison), MARGINAL_COLUMNS),
    ):
        if rows:
            console.print()
            show_rows(console, rows, columns)


def marginal_rows(comparison: "Comparison") -> list[dict[str, Any]]:
    """Every part as people read it, breakdown by breakdown, the largest difference first."""
    unit = 100 if comparison.group_score is None else 1
    place = {column: number for number, column in enumerate(_MARGINAL_ORDER)}
    ordered = sorted(
        comparison.marginals,
        key=lambda m: (
            place.get(m.column, len(place)),
            m.column,
            -abs(m.difference.difference.mean),
        ),
    )
    return [
        {
            "by": m.column,
            "value": m.value,
            "a": f"{unit * m.accuracy_a:.1f}",
            "b": f"{unit * m.accuracy_b:.1f}",
            "difference": f"{unit * m.difference.difference.mean:+.1f}",
            "interval": _signed_interval(m.difference.difference, unit),
            "n": m.difference.difference.values,
            "p_value": f"{m.adjusted_p_value:.3f}",
            "real": "yes" if m.significant else "",
        }
        for m in ordered
    ]


def _verdict(paired: "PairedDifference", unit: int) -> str:
    """ "+9.7 points, real: 95 % interval …"; real is a p-value below 5 %."""
    estimate = paired.difference
    real = "real" if paired.p_value < SIGNIFICANCE else "could be chance"
    spread = _signed_interval(estimate, unit) or "not defined"
    return (
        f"{unit * estimate.mean:+.1f} points, {real}: 95 % interval {spread}, "
        f"p {paired.p_value:.4f} (sign flips of {estimate.clusters} videos)"
    )


def _signed_interval(estimate: "Estimate", unit: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = max(-100, unit * estimate.low), min(100, unit * estimate.high)
    return f"{low:+.1f} to {high:+.1f}"


def percent(share: float | None) -> str:
    """A share in 0 … 1 as "52.8 %"; nothing for None."""
    return "" if share is None else f"{100 * share:.1f} %"


def interval(low: float | None, high: float | None) -> str:
    """Two shares as "41.2 – 64.4"; nothing when there are none."""
    return "" if low is None or high is None else f"{100 * low:.1f} – {100 * high:.1f}"


class ProgressLines:
    """Progress of long work: bars with counts and time left on a terminal, plain lines elsewhere.

    Plain lines come when work begins, ends, and at most every `every_seconds` between.
    """

    def __init__(self, console: Console, every_seconds: float = 10.0) -> None:
        self._console = console
        self._every_seconds = every_seconds
        self._tasks: dict[str, TaskID] = {}
        self._said_at: dict[str, float] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> "ProgressLines":
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def show(self, what: str, done: int, total: int) -> None:
        """`done` of `total` items of `what`."""
        if self._console.is_terminal:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(escape(what), total=total)
            self._bars.update(self._tasks[what], completed=done, total=total)
            return
        now = monotonic()
        if done >= total or now - self._said_at.get(what, -inf) >= self._every_seconds:
            self._said_at[what] = now
            self._console.print(f"{what}: {done} of {total}", highlight=False, markup=False)


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
