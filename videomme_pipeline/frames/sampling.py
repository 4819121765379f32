"""Which pictures of a video to take: pure maths on a packet index, no decoding.

A strategy is one small class: its parameters are fields, `choose` is the rule. Named
placements equal those of the published evaluators. A sampling also says what becomes of each
picture (size, encoding) and of a damaged video, since all of it changes what a model sees;
how pictures are decoded and drawn is said in `frames.decode` and `frames.jpeg`.

A sampling has a name that is also how it is written (`uniform_n-16`,
`fps_based-1-max-512.long_side-512.png`): the strategy, then, each after a point, what differs
from the defaults.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec

Integers = NDArray[np.int64]

SAME_INSTANT_SECONDS = 1e-6
"""Times closer than this are the same: pts are fractions, times are floats."""


class Timing(Protocol):
    """What a strategy sees of a video (`videos.packets.PacketIndex` has it)."""

    @property
    def seconds(self) -> NDArray[np.float64]:
        """When each frame is shown, from the first one, ascending."""
        ...

    @property
    def keyframes(self) -> Integers:
        """The numbers of the frames that are keyframes."""
        ...

    @property
    def duration_seconds(self) -> float: ...


class Placement(StrEnum):
    """Where `n` frames stand in a video.

    MIDPOINT cuts the video in n equal parts and takes the middle of each (video-slicer);
    INTERIOR takes n points that cut it in n + 1 parts (VLMEvalKit and the official v2 script);
    ENDPOINTS spreads them from the first frame to the last (lmms-eval).
    """

    MIDPOINT = "midpoint"
    INTERIOR = "interior"
    ENDPOINTS = "endpoints"


class Limit(StrEnum):
    """Why a choice has another number of frames than the strategy asked for."""

    ALL_THERE_ARE = "all_there_are"
    """The video has fewer frames than asked (or shows one at several of the asked times)."""
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The frames to take, by number and ascending, and when each was wanted.

    `asked` is how many the strategy wanted before any limit; `limit` is None when that is how
    many there are.
    """

    frames: tuple[int, ...]
    requested_seconds: tuple[float, ...]
    asked: int
    limit: Limit | None

    @property
    def given(self) -> int:
        return len(self.frames)


class Resize(StrEnum):
    """What `pixels` measures. A picture is made smaller to fit, never larger."""

    NATIVE = "native"
    SHORT_SIDE = "short_side"
    LONG_SIDE = "long_side"
    AREA = "area"


class Encoding(StrEnum):
    JPEG = "jpeg"
    PNG = "png"


class OnDamage(StrEnum):
    """What to do with a video of which some wanted frames do not decode."""

    FAIL = "fail"
    USE_WHAT_DECODES = "use_what_decodes"


class Backend(StrEnum):
    """Which decoder reads the pictures. Where one is not exact, PYAV is used and it is said."""

    PYAV = "pyav"
    DECORD = "decord"
    TORCHCODEC = "torchcodec"


class PictureSpec(Spec):
    """The size and encoding of a picture. The default suits what vision models look at.

    `pixels` is the length of a side, or the number of pixels for AREA; unused for NATIVE.
    """

    resize: Resize = Resize.SHORT_SIDE
    pixels: PositiveInt = 448
    encoding: Encoding = Encoding.JPEG
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] = 85

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        if self.resize is Resize.NATIVE and self.pixels != _default(PictureSpec, "pixels"):
            raise ValueError("`pixels` has no meaning with `resize: native`; leave it out")
        if self.encoding is Encoding.PNG and self.jpeg_quality != _default(
            PictureSpec, "jpeg_quality"
        ):
            raise ValueError("`jpeg_quality` has no meaning with `encoding: png`; leave it out")
        return self

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of a picture of `width` by `height` after resizing."""
        scale = {
            Resize.NATIVE: 1.0,
            Resize.SHORT_SIDE: self.pixels / min(width, height),
            Resize.LONG_SIDE: self.pixels / max(width, height),
            Resize.AREA: (self.pixels / (width * height)) ** 0.5,
        }[self.resize]
        if scale >= 1:
            return width, height
        return max(1, round(width * scale)), max(1, round(height * scale))

    @property
    def media_type(self) -> str:
        return f"image/{self.encoding}"


class Budgets(Spec):
    """How many frames a video of each duration class gets; None leaves the strategy's own."""

    short: PositiveInt | None = None
    medium: PositiveInt | None = None
    long: PositiveInt | None = None

    def for_duration(self, duration: Duration | None) -> int | None:
        return None if duration is None else getattr(self, duration.value)


class _Strategy(Spec):
    """What all strategies have beside their rule."""

    picture: PictureSpec = PictureSpec()
    on_damage: OnDamage = OnDamage.FAIL
    backend: Backend = Backend.PYAV
    budgets: Budgets = Budgets()

    budgeted_field: ClassVar[str]
    """The field that a budget replaces."""

    @property
    def name(self) -> str:
        """How this sampling is written; also a partition key (`[A-Za-z0-9._-]`)."""
        return ".".join([self._rule_name, *_option_names(self)])

    @property
    def _rule_name(self) -> str:
        raise NotImplementedError

    def for_duration(self, duration: Duration | None) -> Self:
        """This sampling with the budget of a duration class put in, and no budgets left.

        Two videos of different classes have the same recipe when they get as many frames.
        """
        budget = self.budgets.for_duration(duration)
        changed: dict[str, object] = {"budgets": Budgets()}
        if budget is not None:
            changed[self.budgeted_field] = budget
        return type(self).model_validate({**dict(self), **changed})

    def choose(self, index: Timing, duration: Duration | None = None) -> Choice:
        """The frames to take from a video; `duration` picks the budget.

        A video with fewer frames than asked gives all it has, and the choice says so.
        """
        return self.for_duration(duration)._choose(index)

    def _choose(self, index: Timing) -> Choice:
        raise NotImplementedError


class UniformN(_Strategy):
    """`frames` frames spread evenly over the video, by frame number.

    The default placement is `midpoint`: every frame stands for an equal part of the video, and
    the first and last frames, which are often black, are not taken.
    """

    strategy: Literal["uniform_n"] = "uniform_n"
    frames: PositiveInt
    placement: Placement = Placement.MIDPOINT

    budgeted_field: ClassVar[str] = "frames"

    @property
    def _rule_name(self) -> str:
        default = self.placement is Placement.MIDPOINT
        return f"uniform_n-{self.frames}" + ("" if default else f"-{self.placement}")

    def _choose(self, index: Timing) -> Choice:
        frames = place(len(index.seconds), self.frames, self.placement)
        return _choice(frames, index.seconds[frames], asked=self.frames)


class FpsBased(_Strategy):
    """A frame every 1/`fps` seconds from the first one: the one on screen at that time.

    A video of d seconds asks for floor(d · fps) frames (as the official v2 script), and for one
    at least. Beyond `max_frames`, or below `min_frames`, that many are spread over the video
    in equal steps, again from the first frame.
    """

    strategy: Literal["fps_based"] = "fps_based"
    fps: PositiveFloat
    min_frames: PositiveInt | None = None
    max_frames: PositiveInt | None = None

    budgeted_field: ClassVar[str] = "max_frames"

    @model_validator(mode="after")
    def _minimum_below_maximum(self) -> Self:
        if self.min_frames and self.max_frames and self.min_frames > self.max_frames:
            raise ValueError(
                f"min_frames {self.min_frames} is above max_frames {self.max_frames}; swap them"
            )
        return self

    @property
    def _rule_name(self) -> str:
        least = f"-min-{self.min_frames}" if self.min_frames else ""
        most = f"-max-{self.max_frames}" if self.max_frames else ""
        return f"fps_based-{_number(self.fps)}{least}{most}"

    def for_duration(self, duration: Duration | None) -> Self:
        """As for every strategy; a budget below `min_frames` wins over it."""
        budget = self.budgets.for_duration(duration)
        if budget is None or self.min_frames is None or self.min_frames <= budget:
            return super().for_duration(duration)
        return (
            type(self).model_validate({**dict(self), "min_frames": budget}).for_duration(duration)
        )

    def _choose(self, index: Timing) -> Choice:
        length = index.duration_seconds
        asked = max(1, int(length * self.fps + SAME_INSTANT_SECONDS))
        given, limit = asked, None
        if self.max_frames is not None and asked > self.max_frames:
            given, limit = self.max_frames, Limit.MAXIMUM
        elif self.min_frames is not None and asked < self.min_frames:
            given, limit = self.min_frames, Limit.MINIMUM
        step = 1 / self.fps if limit is None else length / given
        times = np.arange(given, dtype=np.float64) * step
        frames = on_screen(index.seconds, times)
        return _choice(frames, times, asked=asked, limit=limit)


class Keyframe(_Strategy):
    """The video's own keyframes: all of them, or `frames` spread over them by midpoint."""

    strategy: Literal["keyframe"] = "keyframe"
    frames: PositiveInt | None = None

    budgeted_field: ClassVar[str] = "frames"

    @property
    def _rule_name(self) -> str:
        return f"keyframe-{self.frames or 'all'}"

    def _choose(self, index: Timing) -> Choice:
        keys = index.keyframes
        asked = len(keys) if self.frames is None else self.frames
        frames = keys[place(len(keys), asked, Placement.MIDPOINT)]
        return _choice(frames, index.seconds[frames], asked=asked)


Sampling = Annotated[UniformN | FpsBased | Keyframe, Field(discriminator="strategy")]

_SAMPLING: TypeAdapter[UniformN | FpsBased | Keyframe] = TypeAdapter(Sampling)


def place(total: int, count: int, placement: Placement) -> Integers:
    """`count` of the numbers 0 … `total` - 1 by a named rule; all of them when not more.

    Equal, number for number, to the published evaluators as long as `count` < `total`; where
    those repeat frames of a shorter video, this gives each once.
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
    return np.asarray(numbers)


def on_screen(shown_seconds: NDArray[np.float64], times: NDArray[np.float64]) -> Integers:
    """The number of the frame on screen at each time: the last one shown by then."""
    numbers = np.searchsorted(shown_seconds, times + SAME_INSTANT_SECONDS, side="right") - 1
    return np.asarray(np.maximum(numbers, 0))[: len(times) if len(shown_seconds) else 0]


def parse_sampling(text: str) -> UniformN | FpsBased | Keyframe:
    """The sampling that is written as `text`; the inverse of its `name`.

    Raises:
        ConfigurationError: naming the nearest form that would be read.
    """
    rule, *options = re.split(r"\.(?=[a-z])", text.strip())
    try:
        values = _read_rule(rule)
        for option in options:
            _read_option(option, values)
        return _SAMPLING.validate_python(values)
    except (_UnreadableError, ValidationError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            reason = "; ".join(str(item["msg"]) for item in error.errors())
        near = _nearest(rule)
        hint = "." if near == rule else f"; did you mean {near!r}?"
        raise ConfigurationError(
            f"sampling {text!r}: {reason}{hint} "
            f"Written are {', '.join(_FORMS)}, each with any of {', '.join(_OPTION_FORMS)} "
            "after a point"
        ) from error


class _UnreadableError(Exception):
    pass


_FORMS = (
    "uniform_n-16",
    "uniform_n-16-interior",
    "uniform_n-16-endpoints",
    "fps_based-1",
    "fps_based-1-min-4",
    "fps_based-1-max-512",
    "fps_based-0.5-min-4-max-64",
    "keyframe-32",
    "keyframe-all",
)
_OPTION_FORMS = (
    "short_side-336",
    "long_side-512",
    "area-200704",
    "native",
    "jpeg-95",
    "png",
    "use_what_decodes",
    "decord",
    "torchcodec",
    "budgets-8-16-32",
)

_RULES: dict[re.Pattern[str], Callable[[Sequence[str | None]], dict[str, object]]] = {
    re.compile(r"uniform_n-(\d+)(?:-(midpoint|interior|endpoints))?"): lambda found: {
        "strategy": "uniform_n",
        "frames": int(found[0] or 0),
        "placement": found[1] or Placement.MIDPOINT,
    },
    re.compile(r"fps_based-(\d+(?:\.\d+)?)(?:-min-(\d+))?(?:-max-(\d+))?"): lambda found: {
        "strategy": "fps_based",
        "fps": float(found[0] or 0),
        "min_frames": None if found[1] is None else int(found[1]),
        "max_frames": None if found[2] is None else int(found[2]),
    },
    re.compile(r"keyframe-(\d+|all)"): lambda found: {
        "strategy": "keyframe",
        "frames": None if found[0] == "all" else int(found[0] or 0),
    },
}


def _read_rule(text: str) -> dict[str, object]:
    for pattern, read in _RULES.items():
        found = pattern.fullmatch(text)
        if found:
            return {**read(found.groups()), "picture": {}}
    raise _UnreadableError(f"{text!r} is no strategy with its parameters")


def _read_option(text: str, values: dict[str, object]) -> None:
    name, _, value = text.partition("-")
    picture = values["picture"]
    assert isinstance(picture, dict)
    budgets = re.fullmatch(r"budgets-(\d+|_)-(\d+|_)-(\d+|_)", text)
    if budgets:
        counts = [None if count == "_" else int(count) for count in budgets.groups()]
        values["budgets"] = dict(zip(Duration, counts, strict=True))
    elif name in (Resize.SHORT_SIDE, Resize.LONG_SIDE, Resize.AREA) and value.isdecimal():
        picture.update(resize=name, pixels=int(value))
    elif text == Resize.NATIVE:
        picture.update(resize=text)
    elif name == Encoding.JPEG and value.isdecimal():
        picture.update(jpeg_quality=int(value))
    elif text == Encoding.PNG:
        picture.update(encoding=text)
    elif text == OnDamage.USE_WHAT_DECODES:
        values["on_damage"] = text
    elif text in (Backend.DECORD, Backend.TORCHCODEC):
        values["backend"] = text
    else:
        near = difflib.get_close_matches(text, _OPTION_FORMS, n=1, cutoff=0.0)[0]
        raise _UnreadableError(f"{text!r} is no option (the nearest is {near!r})")


def _option_names(sampling: _Strategy) -> list[str]:
    """What differs from the defaults, in the order in which it is always written."""
    picture, default = sampling.picture, PictureSpec()
    names = []
    if any(sampling.budgets.for_duration(duration) is not None for duration in Duration):
        counts = [sampling.budgets.for_duration(duration) or "_" for duration in Duration]
        names.append("budgets-" + "-".join(map(str, counts)))
    if picture.resize is Resize.NATIVE:
        names.append(picture.resize.value)
    elif (picture.resize, picture.pixels) != (default.resize, default.pixels):
        names.append(f"{picture.resize}-{picture.pixels}")
    if picture.encoding is Encoding.PNG:
        names.append(picture.encoding.value)
    elif picture.jpeg_quality != default.jpeg_quality:
        names.append(f"jpeg-{picture.jpeg_quality}")
    if sampling.on_damage is not OnDamage.FAIL:
        names.append(sampling.on_damage.value)
    if sampling.backend is not Backend.PYAV:
        names.append(sampling.backend.value)
    return names


def _nearest(rule: str) -> str:
    """The form nearest to what was written, with its own numbers where they fit."""
    name, _, rest = rule.partition("-")
    strategies = {form.partition("-")[0] for form in _FORMS}
    near = difflib.get_close_matches(name, sorted(strategies), n=1, cutoff=0.4)
    if near and any(pattern.fullmatch(f"{near[0]}-{rest}") for pattern in _RULES):
        return f"{near[0]}-{rest}"
    return difflib.get_close_matches(rule, _FORMS, n=1, cutoff=0.0)[0]


def _choice(
    frames: Integers, times: NDArray[np.float64], *, asked: int, limit: Limit | None = None
) -> Choice:
    """The choice of `frames` wanted at `times`, each frame once."""
    distinct, firsts = np.unique(frames, return_index=True)
    if len(distinct) < (asked if limit is None else len(frames)):
        limit = Limit.ALL_THERE_ARE
    return Choice(
        frames=tuple(distinct.tolist()),
        requested_seconds=tuple(times[firsts].tolist()),
        asked=asked,
        limit=limit,
    )


def _number(value: float) -> str:
    """A number as it is written: 1, 0.5, 29.97, never an exponent."""
    return np.format_float_positional(value, trim="-")


def _default(spec: type[Spec], field: str) -> object:
    return spec.model_fields[field].default
