"""Progress of a stage, for display."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` items are finished. `what` is a title, such as "smoke: frames".

    `wait` says what the work is waiting for, or is "".
    """

    what: str
    done: int
    total: int
    wait: str = ""


def no_progress(progress: Progress) -> None:
    """Ignore the progress."""


def no_message(message: str) -> None:
    """Ignore the message."""
