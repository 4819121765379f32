"""Progress of a stage, for a person who is watching."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` items of `what`, such as "smoke: frames"."""

    what: str
    done: int
    total: int


def no_progress(progress: Progress) -> None:
    """Ignore the progress."""


def no_message(message: str) -> None:
    """Ignore the message."""
