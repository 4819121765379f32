"""Progress of a stage, for display."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` items are finished. `what` is a title, such as "smoke: frames"."""

    what: str
    done: int
    total: int


def no_progress(progress: Progress) -> None:
    """Ignore the progress."""


def no_message(message: str) -> None:
    """Ignore the message."""
