"""Sampling strategies, which choose frames of a video from its packet index without decoding.

A strategy is one class: its parameters are fields, `_choose` is its rule, and `name_syntax` is the
syntax of its name. A sampling also has the other settings that change the pictures a model sees:
their size and encoding, the backend, and the handling of damaged videos.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self, get_args

import numpy as np
from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.backends import BACKENDS, PYAV
from videomme_pipeline.frames.frame_files import FrameFile, QuestionFrames
from videomme_pipeline.frames.picture import PictureSpec
from videomme_pipeline.videos.packets import SAME_INSTANT, Floats, FrameTimes, Integers

MAX_FRAMES = 10_000
"""Limit of the frames of one video: a frame per second of almost three hours."""
MAX_FPS = 240
MIN_FPS = 0.0001

FrameCount = Annotated[int, Field(gt=0, le=MAX_FRAMES)]
FrameRate = Annotated[float, Field(ge=MIN_FPS, le=MAX_FPS)]


class Placement(StrEnum):
    """Rule that places n frames in a video.

    MIDPOINT: the middles of n equal parts of the video (video-slicer).
    INTERIOR: the n points that cut it into n + 1 equal parts (VLMEvalKit, the official v2 script).
    ENDPOINTS: n evenly spaced frames from first to last (lmms-eval; forced LLaVA-Video).
    SEGMENTS: the middles of n equal parts that are not rounded (InternVL in transformers).
    STARTS: the first frames of n equal parts (LLaVA-OneVision in transformers).
    INTERNVL: half a part after the starts of n equal parts, which are rounded first (`get_index` of
    InternVL, MVBench, MLVU, CG-Bench and Video-Holmes).
    """

    MIDPOINT = "midpoint"
    INTERIOR = "interior"
    ENDPOINTS = "endpoints"
    SEGMENTS = "segments"
    STARTS = "starts"
    INTERNVL = "internvl"


class Limit(StrEnum):
    """Reason why a choice has more or fewer frames than the strategy requests."""

    ALL_THERE_ARE = "all_there_are"
    """The video has fewer frames, or one frame is on screen at several requested times."""
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen frames by number, ascending, and the time at which each was requested.

    `asked` is the number of frames that the strategy requests, and `limit` why the choice has
    another number. If each question has its own frames, `by_question` has their numbers in the
    order in which they are sent, or the reason why a question has none.
    """

    frames: tuple[int, ...]
    requested_seconds: tuple[float, ...]
    asked: int
    limit: Limit | None
    by_question: Mapping[str, tuple[int, ...] | str] = dataclasses.field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.frames)


class OnDamage(StrEnum):
    """Handling of a video in which some of the chosen frames do not decode."""

    FAIL = "fail"
    USE_WHAT_DECODES = "use_what_decodes"


def _check_backend(name: str) -> str:
    if name not in BACKENDS:
        names = " or ".join(map(repr, BACKENDS))
        raise PydanticCustomError("enum", "Input should be {expected}", {"expected": names})
    return name


BackendName = Annotated[str, AfterValidator(_check_backend)]


class FramesByDuration(Spec):
    """The number of frames for each duration class. None keeps the number of the strategy."""

    short: FrameCount | None = None
    medium: FrameCount | None = None
    long: FrameCount | None = None

    def for_duration(self, duration: Duration | None) -> int | None:
        return None if duration is None else getattr(self, duration.value)

    @property
    def name_parts(self) -> list[str]:
        """The counts as written in a sampling's name, or an empty list without counts."""
        counts = [self.for_duration(duration) for duration in Duration]
        if not any(counts):
            return []
        return ["frames_by_duration-" + "-".join(str(count or "_") for count in counts)]


_NAME_PART = re.compile(r"(\[?)([^\[\]{}]+)\{(\w+)\}\]?")
_WRITTEN_VALUES: Mapping[object, str] = {
    Placement: "|".join(Placement),
    float: r"\d+(?:\.\d+)?",
    int: r"\d+",
    FrameCount | None: r"\d+|all",
    str: r"[A-Za-z0-9_-]+",
}


class Strategy(Spec):
    """Base class of all strategies, with the options that they share."""

    picture: PictureSpec = PictureSpec()
    on_damage: OnDamage = OnDamage.FAIL
    backend: BackendName = PYAV
    frames_by_duration: FramesByDuration = FramesByDuration()

    name_syntax: ClassVar[str]
    """The fields in the strategy's name: `-{frames}[-{placement}]`. A part in brackets is left out
    if its field has the default value. `all` is None."""
    name_examples: ClassVar[tuple[str, ...]]
    """Names of this strategy, for error messages."""
    count_field: ClassVar[str]
    """The field that `frames_by_duration` replaces."""
    rule_version: ClassVar[int] = 1
    """Increase this when a change of the strategy's rule chooses other frames."""

    @property
    def name(self) -> str:
        """Name of this sampling, which is also a partition key (`[A-Za-z0-9._-]`)."""
        parts = [self.strategy_name, *self.frames_by_duration.name_parts, *self.picture.name_parts]
        if self.on_damage is not OnDamage.FAIL:
            parts.append(self.on_damage.value)
        if self.backend != PYAV:
            parts.append(self.backend)
        return ".".join(parts)

    @property
    def strategy_name(self) -> str:
        """The strategy and its parameters, without the shared options."""
        fields = type(self).model_fields
        name = str(fields["strategy"].default)
        for optional, text, field in _NAME_PART.findall(self.name_syntax):
            value = getattr(self, field)
            if not optional or value != fields[field].default:
                name += text + _written(value)
        return name

    @classmethod
    def read_name(cls, name: str) -> dict[str, str | None] | None:
        """The fields in the name of a sampling of this strategy, or None for any other name."""
        pattern = str(cls.model_fields["strategy"].default)
        for optional, text, field in _NAME_PART.findall(cls.name_syntax):
            value = _WRITTEN_VALUES[cls.model_fields[field].annotation]
            pattern += f"(?:{text}(?P<{field}>{value}))" + ("?" if optional else "")
        match = re.fullmatch(pattern, name)
        if match is None:
            return None
        values = {field: value for field, value in match.groupdict().items() if value is not None}
        return {field: None if value == "all" else value for field, value in values.items()}

    def for_duration(self, duration: Duration | None) -> Self:
        """This sampling with the frame count of a duration class, without `frames_by_duration`.

        Two classes whose numbers of frames are equal then have equal samplings.
        """
        count = self.frames_by_duration.for_duration(duration)
        changes: dict[str, object] = {"frames_by_duration": FramesByDuration()}
        if count is not None:
            changes[self.count_field] = count
        return type(self).model_validate({**dict(self), **changes})

    def for_questions(self, questions: Sequence[Question]) -> Self:
        """This sampling with the frames that are named for these questions on one video."""
        del questions
        return self

    def choose(self, video: FrameTimes, duration: Duration | None = None) -> Choice:
        """Choose frames of a video. `duration` selects the frame count.

        If the video has fewer frames than requested, all of them are chosen and `limit` is set.
        """
        return self.for_duration(duration)._choose(video)

    def _choose(self, video: FrameTimes) -> Choice:
        raise NotImplementedError


class UniformN(Strategy):
    """`frames` frames spaced evenly over the video, by frame number, or all frames.

    The default placement, `midpoint`, leaves out the first and last frame, which are often black.
    """

    strategy: Literal["uniform_n"] = "uniform_n"
    frames: FrameCount | None
    placement: Placement = Placement.MIDPOINT

    name_syntax = "-{frames}[-{placement}]"
    name_examples = (
        "uniform_n-16",
        "uniform_n-all",
        *(f"uniform_n-16-{rule}" for rule in Placement if rule is not Placement.MIDPOINT),
    )
    count_field = "frames"

    def _choose(self, video: FrameTimes) -> Choice:
        total = len(video.seconds)
        asked = total if self.frames is None else self.frames
        frames = place(total, asked, self.placement)
        return _choice(frames, video.seconds[frames], asked=asked)


class FpsBased(Strategy):
    """The frame on screen every 1/`fps` seconds, starting with the first frame.

    For a video of d seconds, floor(d · fps) frames are requested, as in the official v2 script, and
    at least one. Beyond a limit, `max_frames` or `min_frames` frames are spaced evenly instead.
    """

    strategy: Literal["fps_based"] = "fps_based"
    fps: FrameRate
    min_frames: FrameCount | None = None
    max_frames: FrameCount | None = None

    name_syntax = "-{fps}[-min-{min_frames}][-max-{max_frames}]"
    name_examples = (
        "fps_based-1",
        "fps_based-1-min-4",
        "fps_based-1-max-512",
        "fps_based-0.5-min-4-max-64",
    )
    count_field = "max_frames"

    @model_validator(mode="after")
    def _minimum_below_maximum(self) -> Self:
        if self.min_frames and self.max_frames and self.min_frames > self.max_frames:
            raise ValueError(
                f"min_frames {self.min_frames} is above max_frames {self.max_frames}; swap them"
            )
        return self

    def for_duration(self, duration: Duration | None) -> Self:
        """See `Strategy.for_duration`. A count below `min_frames` also lowers `min_frames`."""
        count = self.frames_by_duration.for_duration(duration)
        if count is None or self.min_frames is None or self.min_frames <= count:
            return super().for_duration(duration)
        return type(self).model_validate({**dict(self), "min_frames": count}).for_duration(duration)

    def _choose(self, video: FrameTimes) -> Choice:
        length = video.duration_seconds
        asked = max(1, int(length * self.fps + SAME_INSTANT))
        count, step, limit = asked, 1 / self.fps, None
        if self.max_frames is not None and asked > self.max_frames:
            count, limit = self.max_frames, Limit.MAXIMUM
        elif self.min_frames is not None and asked < self.min_frames:
            count, limit = self.min_frames, Limit.MINIMUM
        if limit is not None:
            step = length / count
        times = np.arange(count, dtype=np.float64) * step
        return _choice(on_screen(video.seconds, times), times, asked=asked, limit=limit)


class QwenRate(Strategy):
    """Base class of the rules of Qwen's models: `fps` frames per second, within limits."""

    fps: FrameRate = 2.0
    min_frames: FrameCount = 4
    max_frames: FrameCount = 768

    name_syntax = "-{fps}[-min-{min_frames}][-max-{max_frames}]"
    count_field = "max_frames"
    rule_version = 2
    multiple: ClassVar[int] = 2
    """The number of frames is a multiple of this."""

    def _choose(self, video: FrameTimes) -> Choice:
        total = len(video.seconds)
        # As in the packages: the product of duration and rate can be just below a whole number.
        requested = total / video.average_fps * self.fps if total else 0.0
        count, asked = self._count(requested, total), max(self._whole(requested), 1)
        limit = None
        if count != self._whole(requested):
            limit = Limit.MAXIMUM if requested > count else Limit.MINIMUM
        # A video of one frame has no even number of frames.
        frames = self._place(total, count) if count else np.arange(total)
        return _choice(frames, video.seconds[frames], asked=asked, limit=limit)

    def _count(self, requested: float, total: int) -> int:
        """The number of frames, if the rate requests `requested` and the video has `total`."""
        least = self.min_frames + self.min_frames % self.multiple
        most = max(self._whole(self.max_frames), self.multiple)
        return self._whole(min(max(requested, least), most, total))

    def _whole(self, number: float) -> int:
        return int(number // self.multiple) * self.multiple

    def _place(self, total: int, count: int) -> Integers:
        """`count` of the numbers 0 … `total` - 1, ascending."""
        raise NotImplementedError


class QwenVl(QwenRate):
    """The frames that qwen-vl-utils 0.0.14 chooses, evenly by number from the first to the last.

    Their number is that of the rate within the limits, rounded down to an even number (at least 2).
    """

    strategy: Literal["qwen_vl"] = "qwen_vl"

    name_examples = ("qwen_vl-2", "qwen_vl-2-max-512", "qwen_vl-1-min-16-max-64")

    def _place(self, total: int, count: int) -> Integers:
        return spread(total, count)


class QwenSglang(QwenRate):
    """The frames that SGLang takes from a video: as many as `qwen_vl`, by numbers rounded down."""

    strategy: Literal["qwen_sglang"] = "qwen_sglang"

    name_examples = ("qwen_sglang-2", "qwen_sglang-2-max-512")

    def _place(self, total: int, count: int) -> Integers:
        return place(total, count, Placement.ENDPOINTS)


class Qwen2Vl(QwenRate):
    """The frames that transformers' `Qwen2VLVideoProcessor` (Qwen2-VL, Qwen2.5-VL) chooses.

    They are the first frames of as many equal parts as `qwen_vl` has frames. It calculates with
    32-bit numbers, so in long videos a few frames differ by one, depending on the CPU.
    """

    strategy: Literal["qwen2_vl"] = "qwen2_vl"

    name_examples = ("qwen2_vl-2", "qwen2_vl-2-max-512")

    def _count(self, requested: float, total: int) -> int:
        most = self._whole(min(self.max_frames, total))
        return self._whole(min(max(requested, self.min_frames), most))

    def _place(self, total: int, count: int) -> Integers:
        return place(total, count, Placement.STARTS)


class Qwen3Vl(QwenRate):
    """The frames that transformers' `Qwen3VLVideoProcessor` chooses. Their number may be odd."""

    strategy: Literal["qwen3_vl"] = "qwen3_vl"

    name_examples = ("qwen3_vl-2", "qwen3_vl-2-max-128")
    multiple = 1

    def _place(self, total: int, count: int) -> Integers:
        return np.linspace(0, total - 1, count).round().astype(np.int64)


class LlavaVideo(Strategy):
    """The frames of LLaVA-Video without forced sampling (which is `uniform_n-…-endpoints`).

    Every r-th frame is chosen, where r is the video's average frame rate divided by `fps` and
    rounded. More than `max_frames` become that number, evenly from the first frame to the last.
    """

    strategy: Literal["llava_video"] = "llava_video"
    fps: FrameRate = 1.0
    max_frames: FrameCount

    name_syntax = "-{fps}-max-{max_frames}"
    name_examples = ("llava_video-1-max-64",)
    count_field = "max_frames"
    rule_version = 2

    def _choose(self, video: FrameTimes) -> Choice:
        total = len(video.seconds)
        frames = np.arange(0, total, max(round(video.average_fps / self.fps), 1))
        asked, limit = len(frames), None
        if asked > self.max_frames:
            frames = place(total, self.max_frames, Placement.ENDPOINTS)
            limit = Limit.MAXIMUM
        return _choice(frames, video.seconds[frames], asked=asked, limit=limit)


class Keyframe(Strategy):
    """The video's own keyframes: all of them, or `frames` spaced evenly among them (midpoint)."""

    strategy: Literal["keyframe"] = "keyframe"
    frames: FrameCount | None = None

    name_syntax = "-{frames}"
    name_examples = ("keyframe-32", "keyframe-all")
    count_field = "frames"

    def _choose(self, video: FrameTimes) -> Choice:
        keys = video.keyframes
        asked = len(keys) if self.frames is None else self.frames
        frames = keys[place(len(keys), asked, Placement.MIDPOINT)]
        return _choice(frames, video.seconds[frames], asked=asked)


class FromFile(Strategy):
    """The frames that a file of the configuration names for each question, in the file's order.

    The frames of all questions about a video are extracted together. A time names the frame on
    screen. A question with a frame or time beyond the end of the video has no frames.
    """

    strategy: Literal["from_file"] = "from_file"
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=64)]
    content: SkipJsonSchema[str | None] = None
    """Hash of the entries of the file, or None for the frames of one video."""
    questions: SkipJsonSchema[tuple[QuestionFrames, ...]] = ()
    """The frames of the questions on one video."""
    entries: SkipJsonSchema[FrameFile | None] = Field(default=None, exclude=True, repr=False)

    name_syntax = "-{file}"
    name_examples = ("from_file-aks",)

    @model_validator(mode="after")
    def _no_frames_by_duration(self) -> Self:
        if self.frames_by_duration.name_parts:
            raise ValueError(
                "the file names the frames of each question; remove `frames_by_duration`"
            )
        return self

    def for_questions(self, questions: Sequence[Question]) -> Self:
        """See `Strategy.for_questions`. The entries of other videos change nothing."""
        own = () if self.entries is None else tuple(map(self.entries.of, questions))
        return self.model_copy(update={"content": None, "questions": own, "entries": None})

    def _choose(self, video: FrameTimes) -> Choice:
        by_question = {entry.question_id: _named(entry, video) for entry in self.questions}
        lists = [numbers for numbers in by_question.values() if not isinstance(numbers, str)]
        frames = sorted(set().union(*lists))
        return Choice(
            frames=tuple(frames),
            requested_seconds=tuple(video.seconds[frames].tolist()),
            asked=len(frames),
            limit=None,
            by_question=by_question,
        )


def _named(entry: QuestionFrames, video: FrameTimes) -> tuple[int, ...] | str:
    """The numbers of the frames that a file names for a question, or why it names none."""
    if entry.error is not None:
        return entry.error
    total, end = len(video.seconds), video.duration_seconds
    if entry.frames and max(entry.frames) >= total:
        return f"the file names frame {max(entry.frames)}, but the video has 0 to {total - 1}"
    if entry.seconds and max(entry.seconds) > end + SAME_INSTANT:
        return f"the file names {max(entry.seconds):g} s, but the video ends at {end:.3f} s"
    shown = on_screen(video.seconds, np.asarray(entry.seconds, np.float64))
    return entry.frames or tuple(shown.tolist())


Sampling = Annotated[
    UniformN
    | FpsBased
    | QwenVl
    | QwenSglang
    | Qwen2Vl
    | Qwen3Vl
    | LlavaVideo
    | Keyframe
    | FromFile,
    Field(discriminator="strategy"),
]
"""All strategies. Every list of strategies is derived from this union."""

STRATEGIES: Mapping[str, type[Sampling]] = {
    strategy.model_fields["strategy"].default: strategy
    for strategy in get_args(get_args(Sampling)[0])
}


def place(total: int, count: int, placement: Placement) -> Integers:
    """`count` of the numbers 0 … `total` - 1 by a named rule, as in the published evaluators.

    If `count` ≥ `total`, where these evaluators repeat frames, each number is returned once.
    """
    if count >= total:
        return np.arange(total)
    match placement:
        case Placement.MIDPOINT:
            edges = np.round(np.arange(count + 1) * ((total - 1) / count)).astype(np.int64)
            numbers = (edges[:-1] + edges[1:]) // 2
        case Placement.INTERIOR:
            numbers = (np.arange(1, count + 1) * (total / (count + 1))).astype(np.int64)
        case Placement.ENDPOINTS:
            numbers = np.linspace(0, total - 1, count).astype(np.int64)
        case Placement.SEGMENTS:
            positions = (np.arange(count) + 0.5) * (total / count)
            # As by `torch.arange`, which returns 32-bit numbers.
            numbers = positions.astype(np.float32).astype(np.int64)
        case Placement.STARTS:
            numbers = np.arange(count) * total // count
        case Placement.INTERNVL:
            size = (total - 1) / count
            numbers = (size / 2 + np.round(size * np.arange(count))).astype(np.int64)
    return np.asarray(numbers)


def spread(total: int, count: int) -> Integers:
    """`count` (at least 2) of the numbers 0 … `total` - 1, from the first to the last.

    Positions are 32-bit numbers, computed from the nearer end and rounded as by `torch.linspace`.
    """
    last = total - 1
    step = float(np.float32(last) / np.float32(count - 1))
    numbers = np.arange(count)
    positions = np.where(numbers < count // 2, step * numbers, last - step * numbers[::-1])
    return np.asarray(np.round(positions.astype(np.float32)).astype(np.int64))


def on_screen(shown_seconds: Floats, times: Floats) -> Integers:
    """The number of the frame on screen at each of `times`, in seconds.

    `shown_seconds` are the times at which the frames of the video are shown, ascending.
    """
    numbers = np.searchsorted(shown_seconds, times + SAME_INSTANT, side="right") - 1
    return np.asarray(np.maximum(numbers, 0))[: len(times) if len(shown_seconds) else 0]


def _choice(frames: Integers, times: Floats, *, asked: int, limit: Limit | None = None) -> Choice:
    """The choice of `frames`, each once. `times[i]` is the requested time (s) of `frames[i]`."""
    distinct, firsts = np.unique(frames, return_index=True)
    if len(distinct) < (asked if limit is None else len(frames)):
        limit = Limit.ALL_THERE_ARE
    return Choice(
        frames=tuple(distinct.tolist()),
        requested_seconds=tuple(times[firsts].tolist()),
        asked=asked,
        limit=limit,
    )


def _written(value: object) -> str:
    """A value as in a name: 1, 0.5, 29.97 (never with an exponent), `interior`, or `all`."""
    if isinstance(value, float):
        return np.format_float_positional(value, trim="-")
    return "all" if value is None else str(value)
