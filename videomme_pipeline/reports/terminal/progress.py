"""Progress of long work on standard error."""

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


class ProgressLines:
    """Progress bars with counts and time left on a terminal, plain lines elsewhere.

    A plain line is printed when work starts, waits and ends, and at most every `every_seconds`
    between.
    """

    def __init__(self, console: Console, every_seconds: float = 10.0) -> None:
        self._console = console
        self._every_seconds = every_seconds
        self._tasks: dict[str, TaskID] = {}
        self._printed_at: dict[str, float] = {}
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

    def show(self, what: str, done: int, total: int, wait: str = "") -> None:
        """Show that `done` of `total` items of `what` are finished, and what the work waits for."""
        if self._console.is_terminal:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            description = escape(f"{what}, {wait}" if wait else what)
            self._bars.update(
                self._tasks[what], completed=done, total=total, description=description
            )
            return
        now = monotonic()
        is_due = done >= total or now - self._printed_at.get(what, -inf) >= self._every_seconds
        is_news = wait != "" and wait != self._waits.get(what)
        self._waits[what] = wait
        if is_due or is_news:
            self._printed_at[what] = now
            line = f"{what}: {done} of {total}" + (f", {wait}" if wait else "")
            self._console.print(line, highlight=False, markup=False)
