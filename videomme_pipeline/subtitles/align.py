"""Alignment policies: rules that assign cues to frames.

They depend only on cues and times. `prompts` contains the wording around the lines.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from videomme_pipeline.errors import ConfigurationError, SubtitleError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.cache import Frame, ShownFrame
from videomme_pipeline.subtitles.cues import Cue, CueFile, SrtParser

ALIGN_VERSION = 3
"""Part of the fingerprint of all lines. Increase it when a policy or `cues` changes the lines."""

DEFAULT_BEFORE_MS = 500
"""The benchmark contract's window: 500 ms before the frame's time."""

SEGMENT_GAP_SECONDS = 0.5
SENTENCE_GAP_SECONDS = 0.1
"""The official v2 evaluation starts a new segment after a longer pause than the first value, or
after a word that ends a sentence and a longer pause than the second value."""

_WINDOW_NAME = re.compile(r"window(?:-(\d+))?(?:-(\d+))?", re.ASCII)
_LMMS_EVAL_TAG = re.compile(r'<font color="white" size=".72c">')


class Policy(StrEnum):
    """The rule that assigns cues to frames (`docs/subtitles-and-prompts.md`).

    A word file (v2) contains words instead of cues. Its lines are segments: the words up to a
    pause, as the official v2 script groups them. The published v1 evaluators list all words.
    """

    OFFICIAL = "official"
    """The first cue on screen at each frame, as in the v1 authors' script (video-slicer)."""
    WINDOW = "window"
    """The lines on screen from `before_ms` before to `after_ms` after a frame (the contract)."""
    LMMS_EVAL = "lmms_eval"
    """The cues at the frames by frame number, in the order of a Python set, as in lmms-eval."""
    LMMS_EVAL_FULL = "lmms_eval_full"
    """lmms-eval's full-subtitle mode: every row that contains its font tag."""
    VLMEVALKIT = "vlmevalkit"
    """The same rule as `official`, as in VLMEvalKit."""
    VLMEVALKIT_INTERLEAVED = "vlmevalkit_interleaved"
    """VLMEvalKit's v2 form: the words between two frames are one line with the frames' times."""
    FULL = "full"
    """Every line in order of time, independent of the frames."""
    CONCAT = "concat"
    """All text in file order, as in the official v2 script."""
    INTERLEAVED = "interleaved"
    """The official v2 form: after each frame the lines that are spoken until the next frame."""
    LONGVIDEOBENCH = "longvideobench"
    """A cue is between the frames before and after its midpoint, as in LongVideoBench."""


OtherFrames = Annotated[str, Field(pattern=r"^lmms_eval-(all|[1-9]\d{0,4})$")]
"""lmms-eval's `frame_num`: `lmms_eval` at so many frames of the video, evenly from the first to the
last, instead of those that are sent. `all` is lmms-eval's -1."""


class Alignment(Spec):
    """A policy and its parameters, which can be written as a name in YAML: `window-500-250`."""

    policy: Policy | OtherFrames
    before_ms: int = Field(default=DEFAULT_BEFORE_MS, ge=0, le=3_600_000)
    """A line belongs to frames up to this long after the line's end (`window` only)."""
    after_ms: int = Field(default=0, ge=0, le=3_600_000)
    """A line belongs to frames from this long before the line's start (`window` only)."""
    parser: SrtParser = SrtParser.PYSUBS2
    """The package that parses the cues of SRT files."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        name, dot, parser = value.partition(".")
        fields = {"policy": name, "parser": parser if dot else None}
        if match := _WINDOW_NAME.fullmatch(name):
            fields |= {"policy": Policy.WINDOW, "before_ms": match[1], "after_ms": match[2]}
        return {key: text for key, text in fields.items() if text is not None}

    @model_validator(mode="after")
    def _window_parameters_only_for_window(self) -> Self:
        window = self.before_ms, self.after_ms
        if self.policy != Policy.WINDOW and window != (DEFAULT_BEFORE_MS, 0):
            raise ValueError(f"before_ms and after_ms belong to window, not to {self.policy}")
        return self

    @property
    def name(self) -> str:
        """Name of the alignment: `official`, `window-500`, `window-500-250`, `full.pysrt` …"""
        name = str(self.policy)
        if self.policy == Policy.WINDOW:
            name += f"-{self.before_ms}" + (f"-{self.after_ms}" if self.after_ms else "")
        return name if self.parser is SrtParser.PYSUBS2 else f"{name}.{self.parser}"

    @property
    def is_interleaved(self) -> bool:
        """True if lines are between the frames, and not in a list after them."""
        return self.policy in _INTERLEAVED

    @property
    def is_stamped(self) -> bool:
        """True if lines between the frames begin with their times."""
        return self.policy != Policy.LONGVIDEOBENCH


def parse_alignment(text: str) -> Alignment:
    """The alignment with the name `text`. `window` is the contract's default, `window-500`.

    ConfigurationError if there is no such alignment. The message lists all alignments.
    """
    try:
        return Alignment.model_validate(text)
    except ValidationError as error:
        names = ", ".join(policy for policy in Policy if policy != Policy.WINDOW)
        raise ConfigurationError(
            f"subtitle alignment {text!r}: no such alignment; choose {names}, "
            "window-BEFORE or window-BEFORE-AFTER in milliseconds (window-500), or lmms_eval-8 or "
            "lmms_eval-all for the cues at other frames; .pysrt after it parses the cues with pysrt"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFrames:
    """The times and numbers of the sent frames, ascending. `fps` is the average of the video."""

    seconds: tuple[float, ...]
    indices: tuple[int, ...]
    fps: float
    video_end_seconds: float

    def __post_init__(self) -> None:
        if len(self.seconds) != len(self.indices):
            raise ValueError(f"{len(self.seconds)} times but {len(self.indices)} frame numbers")

    @classmethod
    def of(
        cls, frames: Sequence[Frame | ShownFrame], *, fps: float, video_end_seconds: float
    ) -> Self:
        return cls(
            seconds=tuple(frame.pts_seconds for frame in frames),
            indices=tuple(frame.index for frame in frames),
            fps=fps,
            video_end_seconds=video_end_seconds,
        )

    def evenly(self, count: str) -> Self:
        """`count` frames of the video, or `all`, evenly from the first to the last."""
        total = round(self.fps * self.video_end_seconds)
        number = total if count == "all" else int(count)
        indices = np.linspace(0, total - 1, number, dtype=int) if total else np.zeros(0, int)
        seconds = tuple((indices / self.fps).tolist()) if total else ()
        return replace(self, seconds=seconds, indices=tuple(indices.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedLine:
    """One line of subtitles in a prompt."""

    frame: int | None
    """Position of the frame in its set, from 0; None if the policy assigns no lines to frames."""
    cue: int | None
    """Number of the first cue of the line. None for lmms-eval's notice that a video has no
    subtitles, and for a cue that only the published evaluator accepts."""
    last_cue: int | None
    """Number of the last cue of the line, or None like `cue`."""
    start_seconds: float
    """Start of the first cue. With `vlmevalkit_interleaved`, start of the frame."""
    end_seconds: float
    """End of the last cue. With `vlmevalkit_interleaved`, end of the frame."""
    text: str
    """Text of the line."""
    question_id: str | None = None
    """Question that has the frames of the line, or None if all on the video have them."""

    @property
    def is_notice(self) -> bool:
        """True for lmms-eval's notice that a video has no subtitles."""
        return self.frame is None and self.cue is None


def align(alignment: Alignment, cues: CueFile | None, frames: SampledFrames) -> list[AlignedLine]:
    """The lines of `cues` that belong to `frames`. `cues` is None for a video without a file.

    SubtitleError if the evaluator that a published policy reproduces cannot read the file.
    """
    policy = alignment.policy
    is_lmms_eval = policy.startswith(Policy.LMMS_EVAL)
    if cues is None:
        notice = _line(None, 0.0, frames.video_end_seconds, "No subtitles available")
        return [notice] if is_lmms_eval else []
    if policy == Policy.WINDOW:
        return _within_window(cues, frames, alignment.before_ms, alignment.after_ms)
    if cues.is_words and (is_lmms_eval or policy in (Policy.OFFICIAL, Policy.VLMEVALKIT)):
        return _spoken(cues)
    if not isinstance(policy, Policy):
        frames_of_video = frames.evenly(policy.rpartition("-")[2])
        return [replace(line, frame=None) for line in _lmms_eval(cues, frames_of_video)]
    return _POLICIES[policy](cues, frames)


def _line(
    cue: int | None, start_seconds: float, end_seconds: float, text: str, last: int | None = None
) -> AlignedLine:
    """A line without a frame: the text of cue `cue`, or of the cues `cue` … `last`."""
    return AlignedLine(
        frame=None,
        cue=cue,
        last_cue=cue if last is None else last,
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        text=text,
    )


def _line_of_words(words: Sequence[Cue]) -> AlignedLine:
    start, end = words[0].start_seconds, words[-1].end_seconds
    text = " ".join(word.text for word in words)
    return _line(words[0].number, start, end, text, last=words[-1].number)


def _spoken(cues: CueFile, _: SampledFrames | None = None) -> list[AlignedLine]:
    """Every line of a file: a cue with text of an SRT file, or a segment of a word file."""
    if cues.is_words:
        return _segments(cues.in_file_order)
    return [_line_of_words([cue]) for cue in cues.cues if cue.text]


def _full(cues: CueFile, _: SampledFrames) -> list[AlignedLine]:
    return sorted(_spoken(cues), key=lambda line: line.start_seconds)


def _within_window(
    cues: CueFile, frames: SampledFrames, before_ms: int, after_ms: int
) -> list[AlignedLine]:
    """The lines [start, end) that are on screen in [t - before, t + after] of a frame at t."""
    lines = _full(cues, frames)
    if not lines or not frames.seconds:
        return []
    # In microseconds, so that the end of a cue and the edge of a window compare exactly.
    times = np.rint(np.array(frames.seconds) * 1e6)[:, None]
    starts = np.rint(np.array([line.start_seconds for line in lines]) * 1e6)
    ends = np.rint(np.array([line.end_seconds for line in lines]) * 1e6)
    counts = (starts <= times + 1000 * after_ms) & (ends > times - 1000 * before_ms)
    first_frame = counts.argmax(axis=0).tolist()
    return [
        replace(lines[number], frame=first_frame[number])
        for number in np.flatnonzero(counts.any(axis=0)).tolist()
    ]


# Each published v1 evaluator parses files in its own way, and keeps the order of the file.


def _require_utf8(cues: CueFile, evaluator: str) -> None:
    if cues.encoding not in ("utf-8", "utf-8-sig"):
        raise SubtitleError(
            f"{evaluator} reads UTF-8 only, but this file is {cues.encoding}; "
            "choose another alignment for it"
        )


def _first_on_screen(cues: CueFile, frames: SampledFrames) -> list[AlignedLine]:
    """Source: look4u-ok/video-slicer, slice_and_extract.py; VLMEvalKit, dataset/videomme.py."""
    from pysubs2.time import frames_to_ms  # noqa: PLC0415 - needed by these policies only

    _require_utf8(cues, "pysubs2 in the official script and in VLMEvalKit")
    entries = _pysubs2_entries(cues)
    if not entries or not frames.indices:
        return []
    if frames.fps <= 0:
        raise SubtitleError(
            f"frame rate {frames.fps}: this policy needs a positive frame rate; use `window`"
        )
    times = np.array([frames_to_ms(index, frames.fps) for index in frames.indices])[:, None]
    starts = np.array([round(entry.start_seconds * 1000) for entry in entries])
    ends = np.array([round(entry.end_seconds * 1000) for entry in entries])
    on_screen = (starts < times) & (ends > times)
    first = on_screen.argmax(axis=1).tolist()
    return [
        replace(entries[first[frame]], frame=frame)
        for frame in np.flatnonzero(on_screen.any(axis=1)).tolist()
        if entries[first[frame]].text.strip()
    ]


def _pysubs2_entries(cues: CueFile) -> list[AlignedLine]:
    """The cues as pysubs2 parses them: every line with two timestamps starts one."""
    import pysubs2  # noqa: PLC0415
    from pysubs2.formats.subrip import SubripFormat  # noqa: PLC0415

    timing_lines = [
        line
        for line, text in enumerate(cues.raw.split("\n"), 1)
        if text.count(":") >= 4  # cheap test for two timestamps, before the slow expression
        and len(SubripFormat.TIMESTAMP.findall(text)) == 2
    ]
    events = pysubs2.SSAFile.from_string(cues.raw, format_="srt")
    numbers = {cue.line: cue.number for cue in cues.cues}
    return [
        _line(
            numbers.get(line), event.start / 1000, event.end / 1000, event.text.replace("\\N", " ")
        )
        for line, event in zip(timing_lines, events, strict=True)
    ]


def _lmms_eval(cues: CueFile, frames: SampledFrames) -> list[AlignedLine]:
    """Source: lmms_eval/tasks/videomme/utils.py."""
    entries = _lmms_eval_entries(cues)
    if not entries or not frames.indices:
        return []
    indices = np.asarray(frames.indices)
    starts = np.array([int(entry.start_seconds * frames.fps) for entry in entries])
    ends = np.array([int(entry.end_seconds * frames.fps) for entry in entries])
    first_frame = np.searchsorted(indices, starts)  # the number of frames before each entry
    following = np.append(indices, np.iinfo(int).max)[first_frame]
    shown = np.flatnonzero(following < ends)
    # lmms-eval lists its lines in the order of a plain set that is filled in this order.
    order = list(set(shown[np.argsort(first_frame[shown], kind="stable")].tolist()))
    return [
        replace(entries[number], frame=int(first_frame[number]), text=text)
        for number in order
        if (text := _tagged_text(entries[number].text)) is not None
    ]


def _tagged_text(row: str) -> str | None:
    """The first text of a row inside lmms-eval's font tag, or None if there is none."""
    _, *after_tag = _LMMS_EVAL_TAG.split(row, maxsplit=1)
    text, end, _ = "".join(after_tag).partition("</font>")
    return text if end else None


def _lmms_eval_entries(cues: CueFile) -> list[AlignedLine]:
    """The cues as lmms-eval parses them. Of two cues with equal times, the later one is used."""
    _require_utf8(cues, "lmms-eval")
    numbers = {cue.line: cue.number for cue in cues.cues}
    entries: dict[tuple[float, float], AlignedLine] = {}
    line_number = 1
    for section in cues.raw.split("\n\n"):
        lines = section.split("\n")
        if section.strip() and len(lines) >= 3:
            times = lines[1].split(" --> ")
            try:
                start, end = _lmms_eval_seconds(times[0]), _lmms_eval_seconds(times[1])
            except (ValueError, IndexError, OverflowError) as error:
                raise SubtitleError(
                    f"lmms-eval stops at line {line_number + 1}, {lines[1]!r}, with {error!r}; "
                    "choose another alignment for this file"
                ) from error
            number = numbers.get(line_number + 1)
            entries[(start, end)] = _line(number, start, end, " ".join(lines[2:]))
        line_number += len(lines) + 1
    return list(entries.values())


def _lmms_eval_seconds(text: str) -> float:
    hours, minutes, seconds_and_fraction = text.split(":")
    seconds, milliseconds = seconds_and_fraction.split(",")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(milliseconds) / 1000


def _lmms_eval_full(cues: CueFile, _: SampledFrames) -> list[AlignedLine]:
    _require_utf8(cues, "lmms-eval")
    rows = cues.raw.split("\n")
    ordered = cues.in_file_order
    ends = [*(cue.line - 1 for cue in ordered[1:]), len(rows)]
    return [
        replace(_line_of_words([cue]), text=text)
        for cue, end in zip(ordered, ends, strict=False)
        for row in rows[cue.line : end]
        if (text := _tagged_text(row)) is not None
    ]


def _interleaved(cues: CueFile, frames: SampledFrames) -> list[AlignedLine]:
    """Source: MME-Benchmarks/Video-MME-v2, evaluation/test_video_mme_v2.py."""
    lines = _spoken(cues)
    return [
        replace(lines[number], frame=frame)
        for frame, number in np.argwhere(_spoken_between(lines, frames)).tolist()
    ]


def _vlmevalkit_interleaved(cues: CueFile, frames: SampledFrames) -> list[AlignedLine]:
    """Source: VLMEvalKit, its v2 dataset."""
    words = cues.in_file_order if cues.is_words else [cue for cue in cues.cues if cue.text]
    spoken = _spoken_between(words, frames)
    next_seconds = _next_seconds(frames)
    lines: list[AlignedLine] = []
    for frame in np.flatnonzero(spoken.any(axis=1)).tolist():
        line = _line_of_words([words[number] for number in np.flatnonzero(spoken[frame]).tolist()])
        start, end = frames.seconds[frame], next_seconds[frame]
        lines.append(replace(line, frame=frame, start_seconds=start, end_seconds=end))
    return lines


def _longvideobench(cues: CueFile, frames: SampledFrames) -> list[AlignedLine]:
    """Source: LongVideoBench, longvideobench_dataset.py (`insert_subtitles_into_frames`)."""
    lines = sorted(_spoken(cues), key=lambda line: line.cue or 0)
    seconds = np.array(frames.seconds, dtype=np.float64)
    starts = np.array([line.start_seconds for line in lines], dtype=np.float64)
    ends = np.array([line.end_seconds for line in lines], dtype=np.float64)
    middles = (starts + ends) / 2
    short = ends - starts < 1
    starts, ends = np.where(short, middles - 0.5, starts), np.where(short, middles + 0.5, ends)
    covers = (seconds[:, None] > starts) & (seconds[:, None] < ends)
    # No cue is before a frame that an earlier cue of the file follows.
    shown = np.maximum.accumulate(np.searchsorted(seconds, middles, side="right"))
    return [
        replace(lines[number], frame=max(int(shown[number]) - 1, 0))
        for number in np.flatnonzero(covers.any(axis=0)).tolist()
    ]


def _spoken_between(
    spoken: Sequence[Cue] | Sequence[AlignedLine], frames: SampledFrames
) -> NDArray[np.bool_]:
    """Array [frame, place]: True if `spoken[place]` is spoken between a frame and the next."""
    starts = np.array([item.start_seconds for item in spoken], dtype=np.float64)
    ends = np.array([item.end_seconds for item in spoken], dtype=np.float64)
    since = np.array(frames.seconds, dtype=np.float64)[:, None]
    until = np.array(_next_seconds(frames), dtype=np.float64)[:, None]
    return (ends >= since) & (starts < until)


def _next_seconds(frames: SampledFrames) -> list[float]:
    """For each frame the time of the next frame, and for the last one the end of the video."""
    return [*frames.seconds[1:], frames.video_end_seconds][: len(frames.seconds)]


def _segments(words: Sequence[Cue]) -> list[AlignedLine]:
    groups: list[list[Cue]] = []
    longest_gap = 0.0
    for word in words:
        if groups and word.start_seconds - groups[-1][-1].end_seconds <= longest_gap:
            groups[-1].append(word)
        else:
            groups.append([word])
        ends_sentence = word.text.rstrip().endswith((".", "!", "?"))
        longest_gap = SENTENCE_GAP_SECONDS if ends_sentence else SEGMENT_GAP_SECONDS
    return list(map(_line_of_words, groups))


_INTERLEAVED = (Policy.VLMEVALKIT_INTERLEAVED, Policy.INTERLEAVED, Policy.LONGVIDEOBENCH)
_POLICIES: Mapping[Policy, Callable[[CueFile, SampledFrames], list[AlignedLine]]] = {
    Policy.OFFICIAL: _first_on_screen,
    Policy.LMMS_EVAL: _lmms_eval,
    Policy.LMMS_EVAL_FULL: _lmms_eval_full,
    Policy.VLMEVALKIT: _first_on_screen,
    Policy.VLMEVALKIT_INTERLEAVED: _vlmevalkit_interleaved,
    Policy.FULL: _full,
    Policy.CONCAT: _spoken,
    Policy.INTERLEAVED: _interleaved,
    Policy.LONGVIDEOBENCH: _longvideobench,
}
