"""Progress of long work on standard error."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from time import monotonic

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

_SECONDS = 10.0
"""Time between two lines."""
_LINES_OF_THE_RATE = 6
"""The time left is estimated from this many lines, so that a changing speed shows."""


class PlainLines:
    """Progress as lines of text, with the number of failures, the rate and the time left.

    A line is written when work starts, waits and ends, and every ten seconds between. `notes`
    returns further parts of a line.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
        notes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._write = write
        self._notes = notes
        self._clock = clock
        self._written: dict[str, deque[tuple[float, int]]] = defaultdict(
            lambda: deque(maxlen=_LINES_OF_THE_RATE)
        )
        self._waits: dict[str, str] = {}

    def show(self, what: str, done: int, total: int, *, failed: int = 0, wait: str = "") -> None:
        """Write a line if one is due. The arguments are those of `ProgressLines.show`."""
        now, written = self._clock(), self._written[what]
        is_due = done >= total or now - (written[-1][0] if written else -inf) >= _SECONDS
        is_news = wait not in ("", self._waits.get(what))
        self._waits[what] = wait
        if is_due or is_news:
            written.append((now, done))
            left = _time_left(written, total) if now - written[0][0] >= _SECONDS else []
            counts = [f"{what}: {done:,} of {total:,}", *_counts(done, failed)]
            self._write(", ".join(filter(None, [*counts, *self._notes(), *left, wait])))


class ProgressLines:
    """Progress with the number of failures and the time left: bars on a terminal, else lines."""

    def __init__(self, console: Console, clock: Callable[[], float] = monotonic) -> None:
        self._console = console
        write = partial(console.print, highlight=False, markup=False, soft_wrap=True)
        self._lines = PlainLines(write, clock=clock)
        self._tasks: dict[str, TaskID] = {}
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

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def show(self, what: str, done: int, total: int, *, failed: int = 0, wait: str = "") -> None:
        """Show that `done` of `total` items of `what` are finished, and `failed` of these failed.

        `wait` is what the work waits for, or "".
        """
        if not self._console.is_terminal:
            self._lines.show(what, done, total, failed=failed, wait=wait)
            return
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        description = escape(", ".join(filter(None, [what, *_counts(done, failed), wait])))
        self._bars.update(self._tasks[what], completed=done, total=total, description=description)


def _counts(done: int, failed: int) -> list[str]:
    return [f"{done - failed:,} answered, {failed:,} failed"] if failed else []


def _time_left(written: Sequence[tuple[float, int]], total: int) -> list[str]:
    """The rate since the first of `written`, (time, items done), and the estimated time left."""
    (began, done_before), (now, done) = written[0], written[-1]
    if done <= done_before or done >= total:
        return []
    rate = (done - done_before) / (now - began)
    return [f"{rate:.2g} per second", f"about {time_span((total - done) / rate)} left"]
