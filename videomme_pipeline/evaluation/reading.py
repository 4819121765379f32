"""One evaluation file: its keys, and the evaluation that they describe.

The file's name is the evaluation's name and partition key.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from videomme_pipeline.benchmarks.questions import read_ids
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import BenchmarkSettings, Selection, VideoSelection
from videomme_pipeline.configuration import MAX_NAME_CHARACTERS, is_name, nearest, parse_spec
from videomme_pipeline.errors import ConfigurationError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import NONE, Evaluation
from videomme_pipeline.frames.sampling import FromFile
from videomme_pipeline.frames.sampling_names import configured_sampling
from videomme_pipeline.judge.judge import Judge, JudgeSpec
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.prompts import render
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.subtitles.align import parse_alignment

Reference = Annotated[str, Field(max_length=500)]
"""The name of something, or the path of a file."""

PromptPart = Annotated[str, Field(max_length=10_000)]


class EvaluationFile(VideoSelection):
    """The keys of an evaluation file. Most are names that other files and packages define."""

    benchmark: Reference
    model: Reference
    """A name in models.yaml, or a built-in model (`embedded`, `random`, `constant-A` …)."""
    sampling: Reference | dict[str, Any] = NONE
    """A name (`uniform_n-16`, `fps_based-1-max-512`, `from_file-NAME` …), a mapping of sampling
    settings, or `none` for a blind evaluation without frames."""
    subtitles: Reference = NONE
    """An alignment policy (`window-500`, `official`, `full` …), or `none`."""
    prompt: Reference = "contract_v1"
    """A named template, or the path of your own template beside the evaluation file."""
    pre_prompt: PromptPart | None = None
    """lmms-eval's text before the question. For the prompt `lmms_eval_qwen3_vl`."""
    post_prompt: PromptPart | None = None
    """lmms-eval's last lines of the prompt. For its prompts, `lmms_eval` without subtitles."""
    frame_times: render.FrameTimes | None = None
    """The text before each frame with its time: `<{seconds:.1f} seconds>`, as Qwen3-VL's processor
    writes it for a video. For frames that are sent as images."""
    reader: ReaderName = ReaderName.CAREFUL
    judge: JudgeSpec | None = None
    """A model that reads what `careful` cannot. Scores report its letters and cost separately."""
    generation: Generation = Generation()
    questions: Annotated[tuple[Reference, ...], Field(min_length=1)] | Reference | None = None
    """Ids of the only questions to ask: a list, or a file beside the evaluation with one per line
    (`errors.txt`), a column `question_id` (`.csv`) or a list (`compare.json#lost`)."""
    conversation: Literal["group"] | None = None
    """`group` asks the questions of each group in order as one conversation, in which the model
    sees the frames once and its own earlier answers. For benchmarks with groups."""
    repeats: int = Field(default=1, ge=1, le=100)
    """The number of times that each question is asked, for models that are not deterministic."""


def parse_evaluation(
    keys: Mapping[str, Any],
    path: Path,
    benchmarks: Mapping[str, BenchmarkSettings],
    catalog: Catalog,
) -> Evaluation:
    """The evaluation that a file at `path` with these `keys` describes. The file may be missing.

    Raises ConfigurationError, which has the file, the key, the wrong value and the valid values.
    """
    file = parse_spec(keys, EvaluationFile, str(path))
    if file.benchmark not in benchmarks:
        raise ConfigurationError(
            f"{path}: benchmark `{file.benchmark}` is not set up in benchmarks.yaml, "
            f"{nearest(file.benchmark, list(benchmarks))}"
        )
    try:
        evaluation = Evaluation(
            name=path.stem,
            benchmark=file.benchmark,
            model=catalog.find(file.model),
            sampling=None
            if file.sampling == NONE
            else configured_sampling(file.sampling, path.parent.parent),
            alignment=None if file.subtitles == NONE else parse_alignment(file.subtitles),
            template=render.with_prompts(
                _template(file.prompt, path.parent, file.benchmark),
                file.pre_prompt,
                file.post_prompt,
            ).model_copy(update={"frame_times": file.frame_times}),
            reader=file.reader,
            judge=None if file.judge is None else Judge.of(file.judge, catalog),
            generation=file.generation,
            repeats=file.repeats,
            selection=Selection(
                duration=file.duration,
                subset=file.subset,
                questions=_question_ids(file.questions, path.parent),
            ),
            conversation=file.conversation,
        )
    except VideoMMEError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    is_fixed = evaluation.alignment or find_benchmark(evaluation.benchmark).grouping
    if is_fixed and file.prompt == render.TemplateName.LMMS_EVAL and file.post_prompt is not None:
        raise ConfigurationError(
            f"{path}: with subtitles and for questions in groups, lmms-eval does not use "
            f"`post_prompt`; remove it, or use the prompt {render.TemplateName.LMMS_EVAL_QWEN3_VL}"
        )
    for problem in _problems(evaluation):
        raise ConfigurationError(f"{path}: {problem}")
    return evaluation


def _problems(evaluation: Evaluation) -> Iterator[str]:
    """Yield a sentence for each pair of settings that cannot be used together."""
    if evaluation.judge and evaluation.reader is not ReaderName.CAREFUL:
        yield (
            f"a judge reads what `careful` cannot, but `reader` is {evaluation.reader}; remove "
            "`judge`, or set `reader: careful`"
        )
    if isinstance(evaluation.sampling, FromFile) and evaluation.model.reads_video:
        yield (
            f"`{evaluation.sampling_name}` names the frames of each question, but the server of "
            f"`{evaluation.model.name}` takes frames from the video itself; send frames (without "
            "`frames_as: video_file`)"
        )
    key, model = "`conversation: group`", evaluation.model
    if evaluation.conversation and not find_benchmark(evaluation.benchmark).grouping:
        yield f"{key} is for groups of questions, but {evaluation.benchmark} has none; remove it"
    if evaluation.conversation and not model.takes_history:
        yield (
            f"{key} needs an endpoint or a program, but `{model.name}` gets one question without "
            "its earlier answers; remove the key, or choose another model"
        )
    if evaluation.conversation and isinstance(evaluation.sampling, FromFile):
        yield (
            f"{key} sends the frames once, but `{evaluation.sampling_name}` names frames of each "
            "question; choose another sampling"
        )
    subset = evaluation.selection.subset
    needed = dict.fromkeys(subset.stratify if subset else (), "subset")
    if evaluation.selection.duration is not None:
        needed["duration"] = "duration"
    declared = [facet.column for facet in find_benchmark(evaluation.benchmark).facets]
    for column, key in needed.items():
        if column not in declared:
            yield (
                f"`{key}` needs the facet `{column}`, which {evaluation.benchmark} does not have: "
                f"{nearest(column, declared)}"
            )
    alignment, template = evaluation.alignment, evaluation.template
    if alignment is not None and alignment.is_interleaved and not template.can_interleave:
        yield (
            f"`subtitles: {alignment.name}` puts lines between the frames, which prompt "
            f"`{template.name}` does not support; use official_v2, or an alignment that lists "
            "lines (window-500, full)"
        )


def _template(value: str, folder: Path, benchmark: str) -> render.Template:
    """The published template `value`, or the template in the file `value` below `folder`.

    The benchmark may declare prompts of its own. The file must be inside the configuration folder,
    the parent of `folder`, so that a configuration from elsewhere cannot send other files to a
    model.
    """
    declared = find_benchmark(benchmark)
    if value in declared.prompts:
        return render.Template(name=value, **dict(declared.prompts[value]))
    path = folder / value
    # `os.path` takes a text that cannot be a path, for example a long one, as no file.
    if value in set(render.TemplateName) or not os.path.isfile(path):  # noqa: PTH113
        return render.parse_template(value)
    allowed = folder.parent.resolve()
    if not path.resolve().is_relative_to(allowed):
        raise ConfigurationError(
            f"prompt template {value!r}: {path.resolve()} is outside of the configuration folder "
            f"{allowed}; copy the file beside the evaluation"
        )
    return render.load_template(path)


def _question_ids(named: tuple[str, ...] | str | None, folder: Path) -> tuple[str, ...] | None:
    """The ids in `named`: a list, or a file below `folder` with the key of a list after `#`."""
    if not isinstance(named, str):
        return named
    name, _, key = named.partition("#")
    return tuple(read_ids(folder / name, key))


def check_name(name: str, path: Path) -> None:
    """Raise ConfigurationError if the file at `path` cannot have the name `name`."""
    if not is_name(name):
        raise ConfigurationError(
            f"{path}: the file name is the evaluation's name; use letters, digits, `.`, `_`, `-`, "
            f"at most {MAX_NAME_CHARACTERS} characters"
        )
