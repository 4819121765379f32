"""Prompts: the text that a model reads, with a question, its options and its aligned subtitles.

The wording is in `templates/*.txt`, one file per published prompt.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from upath import UPath

from videomme_pipeline.benchmarks.question import Letter, Question, split_option
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.configuration import parse_spec
from videomme_pipeline.errors import ConfigurationError, PromptError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.subtitles.align import AlignedLine, Alignment

_WRITTEN_SECONDS = r"\{seconds:\.(\d)f\}"
"""The place of the seconds in `frame_times`, and the number of their decimals."""
FrameTimes = Annotated[str, Field(max_length=100, pattern=_WRITTEN_SECONDS)]
"""The time of a frame in words, such as `<{seconds:.1f} seconds>` of Qwen3-VL's processor."""
MAX_TEMPLATE_CHARACTERS = 100_000
RENDER_VERSION = 1
"""Part of the fingerprint of every prompt. Increase it when a template renders to another text."""


class TemplateName(StrEnum):
    """The published prompts (`docs/subtitles-and-prompts.md`). Their texts are in `templates/`."""

    OFFICIAL_V1 = "official_v1"
    """The README of Video-MME."""
    OFFICIAL_V1_ZH = "official_v1_zh"
    """The Chinese README of Video-MME."""
    CONTRACT_V1 = "contract_v1"
    """The benchmark contract's template, and the prompt of evaluation files without `prompt`."""
    LMMS_EVAL = "lmms_eval"
    """lmms-eval's default variant of the v1 tasks, and its v2 tasks for questions in groups."""
    LMMS_EVAL_QWEN3_VL = "lmms_eval_qwen3_vl"
    """lmms-eval's format `qwen3_vl`. Source: `videomme_doc_to_text_qwen3vl` at 0696573."""
    VLMEVALKIT = "vlmevalkit"
    """VLMEvalKit. For questions in groups (v2), its variant of the official v2 prompt."""
    OFFICIAL_V2 = "official_v2"
    """The official v2 script, which always names the letters A to H."""
    OFFICIAL_V2_THINK = "official_v2_think"
    """The official v2 script with `--reasoning`."""
    QWEN3_VL = "qwen3_vl"
    """Qwen3-VL's script for Video-MME: `evaluation/VideoMME/dataset_utils.py` at 9658872."""
    VIDEOLLAMA3 = "videollama3"
    """VideoLLaMA3's script for Video-MME: `evaluation/benchmarks/videomme.py` at 05cee23."""


class SubtitleUse(StrEnum):
    """The position of the subtitles in a prompt, or the reason for their absence."""

    OFF = "off"
    """A track without subtitles."""
    NONE = "none"
    """A track with subtitles, but there are none at the frames of this video."""
    LISTED = "listed"
    """All lines are in the text, after the frames."""
    INTERLEAVED = "interleaved"
    """The lines are between the frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The text that is sent after the frames of a video, one row per question."""

    benchmark: str
    """Name of the benchmark."""
    question_id: str
    """Id of the question, unique in the benchmark."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""
    template: str
    """Name of the template."""
    system: str | None
    """System message, or None if the template has none."""
    text: str
    """Text that is sent after the frames."""
    after_frame: tuple[str, ...]
    """Text after each frame: subtitles in the interleaved v2 form, and the time of the next frame
    if `frame_times` is set. Empty if there are neither."""
    num_frames: int
    """Number of frames that are sent."""
    subtitle_lines: int
    """Number of subtitle lines that are sent."""
    subtitles: SubtitleUse = SubtitleUse.OFF
    """Form of the subtitles."""
    before_frames: str = ""
    """Text before the first frame: its time, if `frame_times` is set."""


class Template(Spec):
    """A prompt template. Its text is part of the fingerprint.

    A published template needs only its name, also in YAML. Any other template needs a `text`:
    Jinja with the variables in `VARIABLES` and the filters first, join, last, length, list,
    lower, map, round, trim and upper, without calls or other files.

    Raises:
        PromptError: if a text is not such a template.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    text: str = Field(max_length=MAX_TEMPLATE_CHARACTERS)
    system: str | None = Field(default=None, max_length=MAX_TEMPLATE_CHARACTERS)
    """A template of the system message. The published prompts have none."""
    frame_times: FrameTimes | None = None
    """The text before each frame with its time. None writes no times."""

    @model_validator(mode="before")
    @classmethod
    def _with_published_text(cls, value: Any) -> Any:
        fields = {"name": value} if isinstance(value, str) else value
        if isinstance(fields, dict) and "text" not in fields:
            if fields.get("name") in tuple(TemplateName):
                return fields | {"text": _published_text(fields["name"])}
            raise ValueError(
                f"no template {fields.get('name')!r}; choose {', '.join(TemplateName)}, "
                "or give your own with `text`"
            )
        return fields

    @model_validator(mode="after")
    def _check_name_and_texts(self) -> Self:
        if self.is_published and (
            self.system is not None or self.text != _published_text(self.name)
        ):
            raise ValueError(f"{self.name} is a published prompt; give your own another name")
        if not self.is_published:
            try:
                _ = self._variables
            except PromptError as error:
                raise PromptError(f"template {self.name}, {error}") from error
        return self

    @property
    def is_published(self) -> bool:
        """True for one of the texts in `templates/`."""
        return self.name in tuple(TemplateName)

    @property
    def can_list(self) -> bool:
        """True if the template can list subtitles after the frames."""
        return not self._variables.isdisjoint({"subtitles", "lines"})

    @property
    def can_interleave(self) -> bool:
        """True if the template has a variant for subtitles between the frames."""
        return "interleaved" in self._variables

    @property
    def _variables(self) -> frozenset[str]:
        from videomme_pipeline.prompts.sandbox import variables_of  # noqa: PLC0415 - loads Jinja

        return variables_of(self.text) | variables_of(self.system or "")


def parse_template(name: str) -> Template:
    """The published template of that name. Raises ConfigurationError if there is none."""
    try:
        return Template.model_validate(name)
    except ValidationError as error:
        raise ConfigurationError(
            f"prompt template {name!r}: no such template; choose {', '.join(TemplateName)}, "
            "or write your own to a file"
        ) from error


def load_template(path: Path | UPath) -> Template:
    """A custom template from a text file. The name of the template is the stem of the file name.

    Raises ConfigurationError if the file cannot be read, is too long, or has the name of a
    published template, and PromptError if the text is not a template.
    """
    where = f"prompt template {path}"
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_TEMPLATE_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{where}: {error}") from error
    return parse_spec({"name": path.stem, "text": text}, Template, where)


_LMMS_EVAL_PROMPTS: Mapping[str, tuple[str | None, str]] = {
    TemplateName.LMMS_EVAL: (
        None,
        "\nAnswer with the option's letter from the given choices directly.",
    ),
    TemplateName.LMMS_EVAL_QWEN3_VL: ("Question: ", "Answer with the option letter only."),
}
"""The `pre_prompt` and `post_prompt` in the templates of lmms-eval, or None if it uses none."""


def with_prompts(template: Template, pre_prompt: str | None, post_prompt: str | None) -> Template:
    """A template of lmms-eval with another `pre_prompt` or `post_prompt`, where they are given.

    Raises ConfigurationError if lmms-eval has no such text in this template.
    """
    text = template.text
    own = _LMMS_EVAL_PROMPTS.get(template.name, (None, None))
    for key, given, published in zip(
        ("pre_prompt", "post_prompt"), (pre_prompt, post_prompt), own, strict=True
    ):
        if given is None:
            continue
        if published is None:
            raise ConfigurationError(
                f"`{key}` of lmms-eval changes nothing in prompt `{template.name}`; use "
                f"{TemplateName.LMMS_EVAL_QWEN3_VL}, or write the prompt to a file"
            )
        text = text.replace(published, f"{{{{ {json.dumps(given)} }}}}")
    return template if text == template.text else Template(name=f"{template.name}-own", text=text)


def render(
    template: Template,
    question: Question,
    lines: Sequence[AlignedLine] | None,
    *,
    frame_seconds: Sequence[float],
    alignment: Alignment | None = None,
) -> Prompt:
    """The prompt of one question.

    `lines` is None on a track without subtitles, and empty for a video without subtitles.
    `alignment` is the alignment that selected the lines. Consecutive texts of a published evaluator
    are concatenated without a separator, as in chat templates. Raises PromptError if the template
    cannot show the given subtitles, or uses a forbidden operation.
    """
    where = f"question {question.question_id}, template {template.name}"
    interleaved = alignment is not None and alignment.is_interleaved
    spoken = None if lines is None else [line for line in lines if not line.is_notice]
    use = SubtitleUse.INTERLEAVED if interleaved else SubtitleUse.LISTED
    if not spoken:
        use = SubtitleUse.OFF if spoken is None else SubtitleUse.NONE
    if interleaved and not template.can_interleave:
        raise PromptError(
            f"{where}: the template has no form for subtitles between frames; choose "
            "official_v2, or an alignment that lists lines"
        )
    if use is SubtitleUse.LISTED and not template.can_list:
        raise PromptError(
            f"{where}: the template never shows the subtitles of this track; use the variable "
            "`subtitles`, or choose an evaluation without subtitles"
        )
    values = {
        "question": question.question,
        "options": list(question.options),
        "texts": [split_option(option)[1] for option in question.options],
        "letters": [letter.value for letter in question.letters],
        "letter_list": _phrase(question.letters),
        "in_group": find_benchmark(question.benchmark).grouping is not None,
        "num_frames": len(frame_seconds),
        "frame_seconds": list(frame_seconds),
        "subtitles": None if spoken is None else [line.text for line in spoken],
        "lines": spoken,
        "interleaved": interleaved,
        "notice": next((line.text for line in lines or () if line.is_notice), None),
    }
    times = _times(template, frame_seconds)
    after_frame: tuple[str, ...] = ("",) * len(times)
    if alignment is not None and interleaved:
        after_frame = _after_frame(spoken or (), len(frame_seconds), alignment, where)
    return Prompt(
        benchmark=question.benchmark,
        question_id=question.question_id,
        video_id=question.video_id,
        template=template.name,
        system=None if template.system is None else _fill(template, template.system, values, where),
        text=_fill(template, template.text, values, where),
        after_frame=tuple(
            text + time for text, time in zip_longest(after_frame, times[1:], fillvalue="")
        ),
        before_frames=next(iter(times), ""),
        num_frames=len(frame_seconds),
        subtitle_lines=len(spoken or ()),
        subtitles=use,
    )


def _times(template: Template, frame_seconds: Sequence[float]) -> list[str]:
    """The text with the time of each frame; empty without `frame_times`."""
    if template.frame_times is None:
        return []
    before, digits, after = re.split(_WRITTEN_SECONDS, template.frame_times, maxsplit=1)
    return [f"{before}{seconds:.{digits}f}{after}" for seconds in frame_seconds]


def _fill(template: Template, text: str, values: Mapping[str, Any], where: str) -> str:
    from videomme_pipeline.prompts import sandbox  # noqa: PLC0415 - loads Jinja

    try:
        fill = sandbox.fill if template.is_published else sandbox.fill_in_child
        return fill(text, values)
    except PromptError as error:
        raise PromptError(f"{where}: {error}") from error


def _phrase(letters: Sequence[Letter]) -> str:
    """The letters as the published prompts list them: `A`, `A or B`, `A, B, or C`."""
    if len(letters) <= 2:
        return " or ".join(letters)
    return f"{', '.join(letters[:-1])}, or {letters[-1]}"


def _after_frame(
    lines: Sequence[AlignedLine], num_frames: int, alignment: Alignment, where: str
) -> tuple[str, ...]:
    """One text per frame: stamped lines as in the official v2 script, or plain lines."""
    texts = [""] * num_frames
    for line in lines:
        if line.frame is None or not 0 <= line.frame < num_frames:
            raise PromptError(
                f"{where}: subtitle line at frame {line.frame}, but {num_frames} frames are "
                "sent; align again with the frames of this evaluation"
            )
        stamp = f"[Subtitle {line.start_seconds:.2f}s - {line.end_seconds:.2f}s]: {line.text}"
        texts[line.frame] += stamp if alignment.is_stamped else f"{line.text}\n"
    return tuple(texts)


@cache
def _published_text(name: str) -> str:
    file = files("videomme_pipeline.prompts").joinpath("templates", f"{name}.txt")
    return file.read_text(encoding="utf-8")
