"""Progress of long work on standard error."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from types import TracebackType

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

from videomme_pipeline.reports.terminal.runs import time_span

_LINES_OF_THE_RATE = 6
"""The time left is estimated from this many plain lines, so that it follows a changing speed."""


class ProgressLines:
    """Progress with the number of failures and the time left: bars on a terminal, else plain lines.

    A plain line is printed when work starts, waits and ends, and at most every `every_seconds`
    between.
    """

    def __init__(
        self,
        console: Console,
        every_seconds: float = 10.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._console = console
        self._every_seconds = every_seconds
        self._clock = clock
        self._tasks: dict[str, TaskID] = {}
        self._printed: dict[str, deque[tuple[float, int]]] = defaultdict(
            lambda: deque(maxlen=_LINES_OF_THE_RATE)
        )
        self._waits: dict[str, str] = {}
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

    def show(self, what: str, done: int, total: int, *, failed: int = 0, wait: str = "") -> None:
        """Show that `done` of `total` items of `what` are finished, and `failed` of these failed.

        `wait` is what the work waits for, or "".
        """
        counts = [f"{done - failed:,} answered, {failed:,} failed"] if failed else []
        waits = [wait] if wait else []
        if self._console.is_terminal:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            description = escape(", ".join([what, *counts, *waits]))
            self._bars.update(
                self._tasks[what], completed=done, total=total, description=description
            )
            return
        now, printed = self._clock(), self._printed[what]
        is_due = done >= total or now - (printed[-1][0] if printed else -inf) >= self._every_seconds
        is_news = wait != "" and wait != self._waits.get(what)
        self._waits[what] = wait
        if is_due or is_news:
            printed.append((now, done))
            left = _time_left(printed, total) if now - printed[0][0] >= self._every_seconds else []
            line = ", ".join([f"{what}: {done:,} of {total:,}", *counts, *left, *waits])
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _time_left(printed: Sequence[tuple[float, int]], total: int) -> list[str]:
    """The estimated time left at the rate since the first of `printed`, (time, items done)."""
    (began, done_before), (now, done) = printed[0], printed[-1]
    if done <= done_before or done >= total:
        return []
    return [f"about {time_span((total - done) * (now - began) / (done - done_before))} left"]
