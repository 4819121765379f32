"""Cues: what is said and when, read from SRT files (v1) and word files (v2)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """One subtitle line and when it is on screen, end excluded.

    `number` is the cue's place in its file, from 0.
    """

    number: int
    start_seconds: float
    end_seconds: float
    text: str

    def covers(self, seconds: float) -> bool:
        return self.start_seconds <= seconds < self.end_seconds
