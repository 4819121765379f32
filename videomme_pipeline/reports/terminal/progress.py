"""Progress of long work on standard error."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
        """Write that `done` of `total` items of `what` are finished, `failed` of them failed.

        A line is written only if one is due. `wait` is what the work waits for, or "".
        """
        now, written = self._clock(), self._written[what]
        is_due = done >= total or now - (written[-1][0] if written else -inf) >= _SECONDS
        is_news = wait not in ("", self._waits.get(what))
        self._waits[what] = wait
        if is_due or is_news:
            written.append((now, done))
            left = _time_left(written, total) if now - written[0][0] >= _SECONDS else []
            counts = [f"{what}: {done:,} of {total:,}", *_counts(done, failed)]
            self._write(", ".join(filter(None, [*counts, *self._notes(), *left, wait])))


@contextmanager
def progress_on(console: Console) -> Iterator[Callable[..., None]]:
    """A function like `PlainLines.show`, within the block: bars on a terminal, else lines."""
    if not console.is_terminal:
        write = partial(console.print, highlight=False, markup=False, soft_wrap=True)
        yield PlainLines(write).show
        return
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int, *, failed: int = 0, wait: str = "") -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        description = escape(", ".join(filter(None, [what, *_counts(done, failed), wait])))
        bars.update(tasks[what], completed=done, total=total, description=description)

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bars:
        yield show


def _counts(done: int, failed: int) -> list[str]:
    return [f"{done - failed:,} answered, {failed:,} failed"] if failed else []


def _time_left(written: Sequence[tuple[float, int]], total: int) -> list[str]:
    """The rate since the first of `written`, (time, items done), and the estimated time left."""
    (began, done_before), (now, done) = written[0], written[-1]
    if done <= done_before or done >= total:
        return []
    rate = (done - done_before) / (now - began)
    return [f"{rate:.2g} per second", f"about {time_span((total - done) / rate)} left"]
