"""Parser of sampling names: `uniform_n-16`, `fps_based-1-max-512.long_side-512.png`.

A name is a strategy with its parameters, and each option that is not the default after a dot.
"""

import difflib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.configuration import expectation, nearest, parse_spec, shown
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.frames.backends import BACKENDS, PYAV
from videomme_pipeline.frames.frame_files import read_frame_file
from videomme_pipeline.frames.picture import Encoding, Resize
from videomme_pipeline.frames.sampling import STRATEGIES, FromFile, OnDamage, Sampling

_OPTION_EXAMPLES = (
    "short_side-336",
    "long_side-512",
    "area-200704",
    "square-448",
    "native",
    "patches-28-max-401408-total-19267584",
    "patches-32-video",
    "jpeg-95",
    "png",
    "webp",
    "use_what_decodes",
    "frames_by_duration-8-16-32",
    *(name for name in BACKENDS if name != PYAV),
)
_STRATEGY_EXAMPLES = [name for strategy in STRATEGIES.values() for name in strategy.name_examples]
_FRAMES_BY_DURATION = re.compile(r"frames_by_duration-(\d+|_)-(\d+|_)-(\d+|_)")
_PATCHES = re.compile(
    r"patches-(?P<side>\d+)(?P<per_video>-video)?(?:-min-(?P<min_pixels>\d+))?"
    r"(?:-max-(?P<max_pixels>\d+))?(?:-total-(?P<total_pixels>\d+))?"
)
_SIZED = (Resize.SHORT_SIDE, Resize.LONG_SIDE, Resize.AREA, Resize.SQUARE)


FRAME_FILES = "samplings"
"""Folder of the files that name frames, inside the configuration folder."""


def configured_sampling(value: str | Mapping[str, Any], configuration: Path) -> Sampling:
    """The sampling `value`. If it has a file, its entries are read from the configuration folder.

    Raises ConfigurationError if there is no such sampling or file, or the file has no usable entry.
    """
    sampling = parse_sampling(value)
    if not isinstance(sampling, FromFile):
        return sampling
    file = read_frame_file(configuration / FRAME_FILES, sampling.file)
    return sampling.model_copy(update={"content": file.content, "questions": (), "entries": file})


def parse_sampling(value: str | Mapping[str, Any]) -> Sampling:
    """The sampling with the name `value`, or with the fields in the mapping `value`.

    Raises:
        ConfigurationError: if there is no such sampling. The message has the nearest name.
    """
    return _from_name(value) if isinstance(value, str) else _from_mapping(value)


@cache  # evaluations with one sampling share the object, so that comparing it is fast
def _from_name(value: str) -> Sampling:
    strategy_name, *options = re.split(r"\.(?=[a-z])", value.strip())
    try:
        strategy, fields = _read_strategy(strategy_name)
        fields["picture"] = {}
        for option in options:
            _read_option(option, fields)
        return strategy.model_validate(fields)
    except ValueError as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            reason = "; ".join(map(_mistake, error.errors()))
        near = _nearest(strategy_name)
        hint = "." if near == strategy_name else f"; did you mean {near!r}?"
        raise ConfigurationError(
            f"sampling {shown(value)}: {reason}{hint} A sampling is one of "
            f"{', '.join(_STRATEGY_EXAMPLES)}, followed by any of "
            f"{', '.join(_OPTION_EXAMPLES)}, each after a dot"
        ) from error


def _mistake(item: Mapping[str, Any]) -> str:
    """Name and value of the wrong parameter, and the expected value."""
    if not item["loc"]:  # two parameters that do not fit together
        return str(item["msg"]).removeprefix("Value error, ")
    return f"{item['loc'][-1]} is {shown(item['input'])}, {expectation(item)}"


def _from_mapping(value: object) -> Sampling:
    where = f"sampling {shown(value)}"
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where}: expected a name or a mapping with `strategy`")
    name = str(value.get("strategy"))
    if name not in STRATEGIES:
        raise ConfigurationError(f"{where}: no strategy `{name}`, {nearest(name, [*STRATEGIES])}")
    return parse_spec(value, STRATEGIES[name], where)


def _read_strategy(text: str) -> tuple[type[Sampling], dict[str, Any]]:
    for strategy in STRATEGIES.values():
        if (fields := strategy.read_name(text)) is not None:
            return strategy, dict(fields)
    raise ValueError(f"{text!r} is not a strategy with its parameters")


def _read_option(text: str, fields: dict[str, Any]) -> None:
    """Write the value of a name's option into `fields`, or into the fields of the picture."""
    name, _, value = text.partition("-")
    picture = fields["picture"]
    if match := _FRAMES_BY_DURATION.fullmatch(text):
        counts = [None if count == "_" else int(count) for count in match.groups()]
        fields["frames_by_duration"] = dict(zip(Duration, counts, strict=True))
    elif match := _PATCHES.fullmatch(text):
        limits = match.groupdict()
        per_video = limits.pop("per_video") is not None
        numbers = {key: int(number) for key, number in limits.items() if number is not None}
        picture["patches"] = {"per_video": per_video, **numbers}
    elif name in _SIZED and value.isdecimal():
        picture.update(resize=name, pixels=int(value))
    elif text == Resize.NATIVE:
        picture.update(resize=text)
    elif name == Encoding.JPEG and value.isdecimal():
        picture.update(jpeg_quality=int(value))
    elif text in (Encoding.PNG, Encoding.WEBP):
        picture.update(encoding=text)
    elif text == OnDamage.USE_WHAT_DECODES:
        fields["on_damage"] = text
    elif text in BACKENDS and text != PYAV:
        fields["backend"] = text
    else:
        near = difflib.get_close_matches(text, _OPTION_EXAMPLES, n=1, cutoff=0.0)[0]
        raise ValueError(f"{text!r} is not an option (the nearest is {near!r})")


def _nearest(text: str) -> str:
    """The nearest strategy name, with the parameters in `text` if they are valid for it."""
    name, _, parameters = text.partition("-")
    near = difflib.get_close_matches(name, STRATEGIES, n=1, cutoff=0.4)
    if near and STRATEGIES[near[0]].read_name(f"{near[0]}-{parameters}"):
        return f"{near[0]}-{parameters}"
    return difflib.get_close_matches(text, _STRATEGY_EXAMPLES, n=1, cutoff=0.0)[0]
