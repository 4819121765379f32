"""The packages that can parse the cues of an SRT file.

`cues` finds the cues of a file and corrects what the packages misread. Each parser here gets the
start, the end and the rows of one cue, and returns its times in milliseconds and its text. The
parsers return equal values, and each is imported only if it is used.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from videomme_pipeline.errors import SubtitleError

ParsedCue = tuple[int, int, str]
"""Start and end in milliseconds, and text with the line breaks and tags of the file."""


class SrtParser(StrEnum):
    """The package that parses a cue."""

    PYSUBS2 = "pysubs2"
    PYSRT = "pysrt"
    """GPL-3.0, and therefore not needed by anything else."""


def parse_cue(parser: SrtParser, start: str, end: str, rows: Sequence[str]) -> ParsedCue:
    """The cue with the times `start` and `end` (HH:MM:SS,mmm, with up to four digits of hours)."""
    return _PARSERS[parser](start, end, rows)


def _with_pysubs2(start: str, end: str, rows: Sequence[str]) -> ParsedCue:
    """pysubs2 gets the times in parts, because it reads 100 hours as 0 hours.

    It does not get the rows: it would start another cue at a row with two times, and drop a number
    in the last row.
    """
    from pysubs2.time import timestamp_to_ms  # noqa: PLC0415

    first, last = (timestamp_to_ms(time.replace(",", ":").split(":")) for time in (start, end))
    return first, last, "\n".join(rows)


def _with_pysrt(start: str, end: str, rows: Sequence[str]) -> ParsedCue:
    try:
        import pysrt  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SubtitleError(
            "the package pysrt is not installed; remove `.pysrt` from the alignment, or run "
            "`pip install pysrt`"
        ) from error
    # The blank row is for pysrt, which rejects a cue without rows.
    item = pysrt.SubRipItem.from_lines([f"{start} --> {end}", *rows, ""])
    return item.start.ordinal, item.end.ordinal, item.text


_PARSERS: Mapping[SrtParser, Callable[[str, str, Sequence[str]], ParsedCue]] = {
    SrtParser.PYSUBS2: _with_pysubs2,
    SrtParser.PYSRT: _with_pysrt,
}
