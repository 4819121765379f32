"""Named policies that say which cues go with which frames. Takes cues and times only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedLine:
    """One line of subtitles as a prompt shows it.

    `frame` is the position in the frame set (from 0) that it belongs to, None when the policy
    does not tie lines to frames; `cue` is the number of the cue it comes from.
    """

    frame: int | None
    cue: int
    start_seconds: float
    end_seconds: float
    text: str
