"""Cues: the subtitle lines and their times, read from SRT files, JSON files and word files (v2).

Real subtitle files are damaged in many ways. Every readable cue is read. The others are counted
and reported. `align` assigns cues to frames.
"""

import codecs
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from upath import UPath

from videomme_pipeline.benchmarks.locate import MediaFile
from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.storage.copies import on_local_disk

MAX_FILE_BYTES = 8 * 1024**2
MAX_CUE_CHARACTERS = 20_000
"""Limits of a subtitle file and of the text after one timing line. Three hours of subtitles have
about half a megabyte (SRT) or two megabytes (words)."""
_MAX_SHOWN_WORDS = 40
"""The most words that rolling captions show again."""
_MOMENT_SECONDS = 0.1
_MAX_SECONDS = 10_000 * 3_600
_Item = TypeVar("_Item")

# UTF-32 comes first: its little-endian mark starts with that of UTF-16.
_MARKS: Mapping[str, bytes | tuple[bytes, ...]] = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_TIME = r"(-?)(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_TIMING = re.compile(rf"(?<![\d:.,]){_TIME}\s*-->\s*{_TIME}(?!\d)", re.ASCII)
_LONG_TIME = r"\d{1,4}:\d{1,2}(?::\d{1,2}(?:[.,]\d{1,3})?|[.,]\d{1,3})"
_SHORT_TIME = r"\d{1,4}:\d{1,2}(?=\s*[-=]*[>→])"
_LOOSE_ARROW = re.compile(
    rf"^(\s*(?:\d+\s+)?\[?(?:{_LONG_TIME}|{_SHORT_TIME}))\W{{1,7}}(?=\d+:)", re.ASCII
)
"""The start of a line with two times, and something else than an arrow: `->` or a dash."""
_CLOCK = re.compile(r"\d\s*:\s*\d", re.ASCII)
_CLOCK_AFTER_ARROW = re.compile(r"-->\s*-?\d+\s*:\s*\d", re.ASCII)
_STAMP = r"\W{0,4}\d{1,4}(?:\W|\s:\s)\d{1,2}(?:\W|\s:\s)\d{1,2}\W\d{1,4}\W{0,7}"
_ONLY_TIMES = re.compile(rf"{_STAMP}(?:(?:[^\W\d]{{1,5}}\W|gt;)?{_STAMP})?", re.ASCII)
_INDEX = re.compile(r"\s*\d+\s*", re.ASCII)
_STYLE_TAG = re.compile(
    r"</?(?:font|i|b|u|s|em|strong|span|ruby|rt|c|v|lang)\b[^<>]*>", re.IGNORECASE
)
_BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)
_OVERRIDE_TAG = re.compile(r"\{\\[^{}]*\}")
_OVERRIDE_SPACE = re.compile(r"\\[Nnh]")
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200e\u200f\u2060\x00"))
_TIME_TAG = re.compile(r"<\d+:[\d:.,]+>")
_JSON_LISTS = ("segments", "chunks", "body", "subtitles")
_JSON_TEXTS = ("text", "line", "content")
_JSON_STARTS = ("start_time", "start_seconds", "start", "from")
_JSON_ENDS = ("end_time", "end_seconds", "end", "to")
_NOT_A_CUE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NON_ASCII_RUN = re.compile(rb"[\x80-\xff]+")


class SrtParser(StrEnum):
    """The package that parses the cues of an SRT file. Both return equal values."""

    PYSUBS2 = "pysubs2"
    PYSRT = "pysrt"
    """GPL-3.0, so nothing else needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """One subtitle (SRT) or one word (v2), and its time on screen, end excluded.

    `number` is its position in the file from 0, counting broken cues too. `line` is the number of
    its timing line (or of the word's line) from 1. `text` is the visible text on one line, or the
    unchanged text of a word.
    """

    number: int
    line: int
    start_seconds: float
    end_seconds: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CueFile:
    """All readable cues of one file in order of time (equal times: in file order).

    `problems` has the line and the problem of each of the `skipped` cues. `raw` is the text of an
    SRT file with "\\n" line ends and all tags, for the policies that parse it like a published
    evaluator, or "" for a word file (v2).
    """

    cues: tuple[Cue, ...]
    skipped: int
    problems: tuple[str, ...]
    encoding: str
    raw: str = ""
    is_words: bool = False

    @property
    def in_file_order(self) -> tuple[Cue, ...]:
        return tuple(sorted(self.cues, key=lambda cue: cue.number))


def read_subtitles(path: MediaFile | UPath, parser: SrtParser = SrtParser.PYSUBS2) -> CueFile:
    """The cues of `path`: words in `.jsonl`, a list in `.json`, WebVTT in `.vtt`, otherwise SRT.

    SubtitleError if the file cannot be opened, is too large, or none of its cues can be read.
    """
    try:
        with on_local_disk(path) as local, local.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        match path.suffix.lower():
            case ".jsonl":
                return read_words(data)
            case ".json":
                return read_json(data)
            case ".vtt":
                return read_webvtt(data, parser)
        return read_srt(data, parser)
    except OSError as error:
        raise SubtitleError(f"{path}: cannot be opened ({error.strerror or error})") from error
    except SubtitleError as error:
        raise SubtitleError(f"{path}: {error}") from error


def read_srt(data: bytes, parser: SrtParser = SrtParser.PYSUBS2) -> CueFile:
    """The cues of an SRT file, which may be damaged.

    A cue starts at its timing line and ends before the next timing line, so that neither extra
    blank lines nor a missing index split or lose text. `parser` parses each cue after corrections
    for the silent errors of parsers: pysrt reads ",5" as five milliseconds and a letter as zero. A
    negative time counts as 0. A cue whose timing cannot be read, or that ends before it starts, is
    skipped. Bytes that are not Unicode are read as GBK or Latin-1 (Windows-1252).

    SubtitleError if there is text but no readable cue, or a limit is exceeded.
    """
    raw, encoding = _decode(data)
    cues, problems = _read_each("cue", _blocks(raw.split("\n")), partial(_srt_cue, parser))
    if not cues and raw.strip():
        raise _nothing_read("SRT", "00:00:01,000 --> 00:00:02,500", problems)
    return _cue_file(_each_word_once(cues), problems, encoding, raw=raw)


def _each_word_once(cues: list[Cue]) -> list[Cue]:
    """`cues` without the words that rolling captions, as those of YouTube, show again.

    There, most cues with new words begin with the words that end the cue before, or a moment shows
    them alone after the cue. In other files this is rare, and the words are said again.
    """
    once, shown, until, rolled, alone, new = list[Cue](), list[str](), 0.0, 0, 0, 0
    for cue in cues:
        words = cue.text.split()
        shown = shown if cue.start_seconds < until + _MOMENT_SECONDS else []
        lengths = range(min(len(words), len(shown), _MAX_SHOWN_WORDS), 0, -1)
        repeated = next((n for n in lengths if shown[-n:] == words[:n]), 0)
        once.append(replace(cue, text=" ".join(words[repeated:])))
        new += repeated < len(words)
        rolled += 0 < repeated < len(words)
        is_moment = cue.end_seconds - cue.start_seconds < _MOMENT_SECONDS
        alone += is_moment and 0 < repeated == len(words)
        shown, until = words or shown, cue.end_seconds
    is_rolling = (alone or rolled > 2) and 2 * max(rolled, alone) > new
    return once if is_rolling else cues


def read_webvtt(data: bytes, parser: SrtParser = SrtParser.PYSUBS2) -> CueFile:
    """The cues of a WebVTT file, without its header, notes, styles, identifiers and settings.

    Cues are read as by `read_srt`, with its errors. `raw` is an SRT text with the same cues.
    """
    raw, encoding = _decode(data)
    lines: list[str] = []
    for block in raw.split("\n\n"):
        rows = list(map(_with_arrow, block.split("\n")))
        timings = (n for n, row in enumerate(rows) if "-->" in row or _is_broken_timing(row))
        first = next(timings, len(rows))
        # Other lines become blank ones, so that problems have the numbers of the file's lines.
        lines += [*[""] * first, *rows[first:], ""]
    file = read_srt("\n".join(lines).encode(), parser)
    return _rewritten(replace(file, encoding=encoding), file.cues)


def read_words(data: bytes) -> CueFile:
    """The words of a v2 subtitle file, one `{"text", "start_time", "end_time"}` per line.

    SubtitleError if there is text but no readable word, or the file is too large.
    """
    raw, encoding = _decode(data)
    lines = [(number, line) for number, line in enumerate(raw.split("\n"), 1) if line.strip()]
    words, problems = _read_each("word", lines, _word)
    if not words and lines:
        example = '{"text": "Hello", "start_time": 0.3, "end_time": 0.5}'
        raise _nothing_read("words", example, problems)
    return _cue_file(words, problems, encoding, is_words=True)


def read_json(data: bytes) -> CueFile:
    """The cues of a JSON list, which may be in an object under `segments` or a similar key.

    A cue is `{"start", "end", "line"}` or `{"timestamp", "text"}` (LongVideoBench), `{"start",
    "end", "text"}` (Whisper), `{"start", "duration", "text"}` or `{"from", "to", "content"}`. Times
    are seconds or texts such as `00:00:01.500`. The second number of `timestamp` may be null: such
    a cue lasts until the next one.

    SubtitleError if it is not a list with a readable cue, or the file is too large.
    """
    raw, encoding = _decode(data)
    example = '[{"start": "00:00:01.000", "end": "00:00:02.500", "line": "Hello"}]'
    try:
        items = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _nothing_read("JSON", example, [str(error)]) from error
    if isinstance(items, dict):
        items = next((items[key] for key in _JSON_LISTS if key in items), items)
    listed = items if isinstance(items, list) else []
    cues, problems = _read_each("cue", ((0, item) for item in listed), _word)
    if not cues and items != []:
        raise _nothing_read("JSON", example, problems)
    ordered = sorted(cues, key=lambda cue: (cue.start_seconds, cue.number))
    following = [*(cue.start_seconds for cue in ordered[1:]), _MAX_SECONDS]
    ended = [
        replace(
            cue,
            text=_plain_text(cue.text),
            end_seconds=cue.end_seconds if cue.end_seconds < _MAX_SECONDS else following_start,
        )
        for cue, following_start in zip(ordered, following, strict=True)
    ]
    return _rewritten(_cue_file(ended, problems, encoding), ended)


def within(file: CueFile, start_seconds: float, length_seconds: float) -> CueFile:
    """The cues on screen in a part of the video, with times from the start of that part."""
    cues = [
        replace(
            cue,
            start_seconds=max(cue.start_seconds - start_seconds, 0.0),
            end_seconds=min(cue.end_seconds - start_seconds, length_seconds),
        )
        for cue in file.cues
        if cue.start_seconds < start_seconds + length_seconds and cue.end_seconds > start_seconds
    ]
    return _rewritten(file, cues)


def _rewritten(file: CueFile, cues: Sequence[Cue]) -> CueFile:
    """`file` with `cues` only, and their SRT text, so that published policies parse the same."""
    if file.is_words:
        return replace(file, cues=tuple(cues))
    placed = tuple(replace(cue, line=4 * index + 2) for index, cue in enumerate(cues))
    raw = "\n".join(
        f"{index}\n{_srt_time(cue.start_seconds)} --> {_srt_time(cue.end_seconds)}\n{cue.text}\n"
        for index, cue in enumerate(placed, start=1)
    )
    return replace(file, cues=placed, raw=raw)


def _srt_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02},{rest % 1000:03}"


def _read_each(
    noun: str, items: Iterable[tuple[int, _Item]], read: Callable[[int, int, _Item], Cue]
) -> tuple[list[Cue], list[str]]:
    """The cues of the readable `items` (line or 0, item), and the problems of the others."""
    cues: list[Cue] = []
    problems: list[str] = []
    for number, (line_number, item) in enumerate(items):
        try:
            cues.append(read(number, line_number, item))
        except ValueError as problem:
            line = f" (line {line_number})" if line_number else ""
            problems.append(f"{noun} {number + 1}{line}: {problem}")
    return cues, problems


def _word(number: int, line_number: int, item: Any) -> Cue:
    """A word or cue with unchanged text, from a JSON object or from the text of one."""
    try:
        start, end, text = _seconds_and_text(json.loads(item) if isinstance(item, str) else item)
        text.encode()  # raises for a lone surrogate, which tables cannot contain
    except _NOT_A_CUE as error:
        raise ValueError(f"{str(item).strip()[:80]!r} cannot be read") from error
    if not -_MAX_SECONDS < start <= end <= _MAX_SECONDS:
        raise ValueError(f"its times are not a span: {str(item).strip()[:80]!r}")
    return Cue(number=number, line=line_number, start_seconds=start, end_seconds=end, text=text)


def _seconds_and_text(item: Any) -> tuple[float, float, str]:
    """Start (s), end (s) and text of an item of a JSON list. The item is a word or a cue."""
    text = item[_key_in(item, _JSON_TEXTS)]
    if "timestamp" in item:
        start, end = item["timestamp"]
        is_open = not isinstance(end, int | float)
        return float(start), float(_MAX_SECONDS if is_open else end), text
    start = _seconds(item[_key_in(item, _JSON_STARTS)])
    end_key = _key_in(item, (*_JSON_ENDS, "duration"))
    end = _seconds(item[end_key])
    return start, start + end if end_key == "duration" else end, text


def _key_in(item: Any, keys: Sequence[str]) -> str:
    return next((key for key in keys if key in item), keys[0])


def _seconds(value: Any) -> float:
    """Seconds from a number, its text, or a text such as `00:00:01.500` or `01:02,5`."""
    *hours_and_minutes, seconds = str(value).replace(",", ".").split(":")
    hours, minutes = ["0", "0", *hours_and_minutes][-2:]
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _cue_file(
    cues: list[Cue], problems: list[str], encoding: str, *, raw: str = "", is_words: bool = False
) -> CueFile:
    return CueFile(
        cues=tuple(sorted(cues, key=lambda cue: (cue.start_seconds, cue.number))),
        skipped=len(problems),
        problems=tuple(problems),
        encoding=encoding,
        raw=raw,
        is_words=is_words,
    )


def _nothing_read(kind: str, example: str, problems: list[str]) -> SubtitleError:
    problem = problems[0] if problems else f"no line like {example}"
    return SubtitleError(
        f"no cue can be read as {kind} ({problem}); fetch the file again or remove it"
    )


def _decode(data: bytes) -> tuple[str, str]:
    """The text with "\\n" line ends, and the name of its encoding."""
    if len(data) > MAX_FILE_BYTES:
        raise SubtitleError(
            f"larger than {MAX_FILE_BYTES // 1024**2} MiB, the limit of a subtitle file; "
            "replace or remove it"
        )
    for encoding, errors in _encodings(data):
        try:
            text = data.decode(encoding, errors)
        except UnicodeDecodeError:
            continue
        break
    name = encoding if errors == "strict" else f"damaged {encoding}"
    return text.replace("\r\n", "\n").replace("\r", "\n"), name


def _encodings(data: bytes) -> Iterator[tuple[str, str]]:
    """Pairs of encoding and error handling, in the order to try. The last accepts any bytes."""
    yield from ((encoding, "strict") for encoding, mark in _MARKS.items() if data.startswith(mark))
    # UTF-16 without a mark: every second byte of its ASCII part is 0.
    head = data[:200]
    if 4 * head[1::2].count(0) > len(head):
        yield "utf-16-le", "strict"
    if 4 * head[0::2].count(0) > len(head):
        yield "utf-16-be", "strict"
    yield "utf-8", "strict"
    if _is_damaged_utf8(data):
        yield "utf-8", "replace"
    if _looks_like_gbk(data):
        yield "gb18030", "strict"
    yield "cp1252", "strict"
    yield "latin-1", "strict"


def _is_damaged_utf8(data: bytes) -> bool:
    """True if nearly all non-ASCII text is UTF-8, so that the few other bytes are damage."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return 4 * broken < sum(not character.isascii() for character in text) - broken


def _looks_like_gbk(data: bytes) -> bool:
    """True if most runs of non-ASCII bytes have an even length, as pairs for Chinese characters.

    General detectors of encodings need far more text than a short subtitle file contains.
    """
    runs = [len(run) for run in _NON_ASCII_RUN.findall(data)]
    return 2 * sum(length % 2 == 0 for length in runs) > len(runs)


_Block = tuple[re.Match[str] | None, list[str]]
"""The timing of a cue (None if it is unreadable) and its rows."""


def _blocks(lines: list[str]) -> Iterator[tuple[int, _Block]]:
    """The line number (from 1) and the block of each cue."""
    timings = [
        (index, timing)
        for index, line in enumerate(map(_with_arrow, lines))
        if (timing := _TIMING.search(line) if "-->" in line else None) or _is_broken_timing(line)
    ]
    ends = [*(index for index, _ in timings[1:]), None]
    for (start, timing), end in zip(timings, ends, strict=False):
        rows = lines[start + 1 : end]
        yield start + 1, (timing, rows if end is None else _without_index(rows))


def _with_arrow(line: str) -> str:
    return line if "-->" in line else _LOOSE_ARROW.sub(r"\1 --> ", line)


def _is_broken_timing(line: str) -> bool:
    """True for a line of times alone, a part of one after an arrow, or before it without a `>`."""
    if "-->" not in line:
        return line[:1].isdigit() and _ONLY_TIMES.fullmatch(line) is not None
    before_arrows = (part.rpartition(">")[2] for part in line.split("-->")[:-1])
    return any(map(_CLOCK.search, before_arrows)) or bool(_CLOCK_AFTER_ARROW.search(line))


def _without_index(rows: list[str]) -> list[str]:
    """`rows` of a cue without the index of the next cue.

    A number is an index directly before the timing line or after a blank line, else spoken text.
    """
    last = next((index for index in reversed(range(len(rows))) if rows[index].strip()), None)
    if last is None or not _INDEX.fullmatch(rows[last]):
        return rows
    is_adjacent = last == len(rows) - 1
    follows_blank = last > 0 and not rows[last - 1].strip()
    return rows[:last] if is_adjacent or follows_blank else rows


def _srt_cue(parser: SrtParser, number: int, line_number: int, block: _Block) -> Cue:
    timing, rows = block
    if (size := sum(map(len, rows))) > MAX_CUE_CHARACTERS:
        raise SubtitleError(
            f"cue {number + 1} (line {line_number}) has {size:,} characters, and the limit is "
            f"{MAX_CUE_CHARACTERS:,}; replace or remove the file"
        )
    if timing is None:
        raise ValueError("its timing cannot be read")
    parts = timing.groups("")
    parse = _with_pysubs2 if parser is SrtParser.PYSUBS2 else _with_pysrt
    start_ms, end_ms, text = parse(_time(*parts[:5]), _time(*parts[5:]), rows)
    if end_ms < start_ms or parts[5]:
        raise ValueError(f"it ends before it starts: {timing[0]!r}")
    return Cue(
        number=number,
        line=line_number,
        start_seconds=start_ms / 1000,
        end_seconds=end_ms / 1000,
        text=_plain_text(text),
    )


def _time(sign: str, hours: str, minutes: str, seconds: str, fraction: str) -> str:
    """A time in SRT's format, with hours and three decimals. A negative time becomes 0."""
    if sign:
        return "00:00:00,000"
    return f"{hours or '00'}:{minutes}:{seconds},{fraction.ljust(3, '0')}"


def _with_pysubs2(start: str, end: str, rows: Sequence[str]) -> tuple[int, int, str]:
    """Start and end in milliseconds, and text with line breaks and tags.

    pysubs2 reads only the times, in parts, because it reads 100 hours as 0 hours, starts another
    cue at a row with two times, and drops a number in the last row.
    """
    from pysubs2.time import timestamp_to_ms  # noqa: PLC0415

    first, last = (timestamp_to_ms(time.replace(",", ":").split(":")) for time in (start, end))
    return first, last, "\n".join(rows)


def _with_pysrt(start: str, end: str, rows: Sequence[str]) -> tuple[int, int, str]:
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


def _plain_text(markup: str) -> str:
    """The visible text on one line, without tags, with entities resolved."""
    text = _OVERRIDE_SPACE.sub(" ", _OVERRIDE_TAG.sub("", markup))
    text = _STYLE_TAG.sub("", _TIME_TAG.sub("", _BREAK_TAG.sub(" ", text)))
    return " ".join(html.unescape(text).translate(_INVISIBLE).split())
