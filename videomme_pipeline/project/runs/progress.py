"""Progress of a stage, for display."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """`done` of `total` items are finished. `what` is a title, such as "smoke: frames".

    `failed` is the number of finished items without a result. `stored` is a sentence about the
    others, for a run that is stopped now. `wait` says what the work is waiting for, or is "".
    `workers` are the workers of a cluster, or "".
    """

    what: str
    done: int
    total: int
    stored: str
    failed: int = 0
    wait: str = ""
    workers: str = ""


def ignore(_shown: object) -> None:
    """Show neither progress nor messages."""
