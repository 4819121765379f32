"""An evaluation: benchmark × model × sampling × track × prompt × decoding × reader.

Each evaluation has one YAML file, whose name is the evaluation's name and partition key. Each stage
has its own small spec in its own package. This module combines these specs and reads the files.
The cost and the state of an evaluation are computed in `project` and `assets`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from upath import UPath

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.inspection import inspect_folder
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import (
    find_benchmark,
    known_benchmarks,
    register_declared,
)
from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.benchmarks.settings import BenchmarkSettings
from videomme_pipeline.configuration import (
    MAX_NAME_CHARACTERS,
    is_name,
    nearest,
    parse_spec,
    read_yaml,
    shown,
)
from videomme_pipeline.errors import ConfigurationError, VideoMMEError
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Decoding
from videomme_pipeline.prompts.render import Template, TemplateName, load_template, parse_template
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.scoring.nightly.observation import ObservedQuestion
from videomme_pipeline.scoring.readers.judge import Judge, JudgeSpec
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import ScoredQuestion, track
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.subtitles.align import Alignment, parse_alignment

NONE = "none"

OWN_BENCHMARKS = "benchmarks"
"""Folder of the files that declare the user's own benchmarks, inside the configuration folder."""


Reference = Annotated[str, Field(max_length=500)]
"""The name of something, or the path of a file."""


class EvaluationFile(Selection):
    """The keys of an evaluation file. Most are names that other files and packages define."""

    renamed: ClassVar[Mapping[str, str]] = {"samples": "repeats"}

    benchmark: Reference
    model: Reference
    """A name in models.yaml, or a built-in model (`embedded`, `random`, `constant-A` …)."""
    sampling: Reference | dict[str, Any] = NONE
    """A name (`uniform_n-16`, `fps_based-1-max-512`, `keyframe-32` …), a mapping of sampling
    settings, or `none` for a blind evaluation without frames."""
    subtitles: Reference = NONE
    """An alignment policy (`window-500`, `official`, `full` …), or `none`."""
    prompt: Reference = "contract_v1"
    """A named template, or the path of your own template beside the evaluation file."""
    reader: ReaderName = ReaderName.STRICT
    judge: JudgeSpec | None = None
    """A model that reads the responses that `strict` cannot read. Scores report its letters and
    cost separately."""
    decoding: Decoding = Decoding()
    repeats: int = Field(default=1, ge=1, le=100)
    """How many times each question is asked, for models that are not deterministic."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An evaluation file with every name resolved to the object that it refers to."""

    name: str
    benchmark: str
    model: ModelSpec
    sampling: Sampling | None
    alignment: Alignment | None
    template: Template
    reader: ReaderName
    judge: Judge | None = None
    decoding: Decoding
    repeats: int
    selection: Selection = field(default_factory=Selection)

    @property
    def sampling_name(self) -> str:
        """The name of the sampling; `none` for an evaluation without frames."""
        return NONE if self.sampling is None else self.sampling.name

    @property
    def track(self) -> str:
        """The track under which results are reported."""
        return track(subtitles=self.alignment is not None, audio=self.model.hears_audio)

    @property
    def track_name(self) -> str | None:
        """The partition of the subtitles, `<sampling>.<alignment>`, or None without subtitles."""
        return None if self.alignment is None else f"{self.sampling_name}.{self.alignment.name}"

    @property
    def track_pair(self) -> str:
        """Hash that is equal for evaluations that differ only in their subtitles."""
        return replace(self, alignment=None).fingerprint

    @property
    def specification(self) -> dict[str, Any]:
        """Every value that can change a score, as JSON, by stage."""
        parts = {name: _as_json(part) for name, part in self._parts.items()}
        return parts | self.selection.selected_by

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the whole specification, without the name of the evaluation."""
        return fingerprint(*map(_as_hashed, self._parts.values()), **self.selection.selected_by)

    @property
    def _parts(self) -> dict[str, Any]:
        """Everything that can change a response or how it is read, in the order of the fingerprint.

        The selection of videos is not a part. It is added to the fingerprint if there is one.
        """
        return {
            "benchmark": self.benchmark,
            "model": self.model,
            "sampling": self.sampling,
            "alignment": self.alignment,
            "template": self.template,
            "decoding": self.decoding,
            "reader": self.reader,
            "repeats": self.repeats,
            "judge": self.judge,
        }


def _as_json(part: Any) -> Any:
    if isinstance(part, Spec):
        return part.model_dump(mode="json")
    if isinstance(part, Judge):
        return part.specification
    return part.value if isinstance(part, Enum) else part


def _as_hashed(part: Any) -> Any:
    """The value that represents `part` in the fingerprint of an evaluation.

    Models and judges have keys that cannot change a score, such as URLs. Their own fingerprints
    leave these keys out.
    """
    return part.fingerprint if isinstance(part, ModelSpec | Judge) else part


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The content of the configuration folder.

    `samplings` are the entries of samplings.yaml by benchmark. `problems` has an error for each
    evaluation file that cannot be used, by name. The other evaluations are not affected.
    """

    folder: Path
    benchmarks: Mapping[str, BenchmarkSettings]
    catalog: Catalog
    samplings: Mapping[str, Sequence[Sampling]]
    evaluations: Mapping[str, Evaluation]
    problems: Mapping[str, ConfigurationError]

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation with this name.

        Raises:
            ConfigurationError: if there is none, or its file cannot be used.
        """
        if name in self.evaluations:
            return self.evaluations[name]
        if name in self.problems:
            raise self.problems[name]
        raise ConfigurationError(
            f"no evaluation `{name}` in {self.folder / 'evaluations'}: "
            f"{nearest(name, list(self.evaluations))} (`videomme init {name}` writes a new one)"
        )

    def evaluations_of(self, benchmark: str) -> list[Evaluation]:
        """The evaluations of one benchmark, sorted by name."""
        return [e for e in self.evaluations.values() if e.benchmark == benchmark]

    def samplings_of(self, benchmark: str) -> dict[str, Sampling]:
        """The samplings in a benchmark's evaluations and in samplings.yaml, by name."""
        used = [e.sampling for e in self.evaluations_of(benchmark) if e.sampling]
        offered = [*self.samplings.get(benchmark, ()), *used]
        return {s.name: s for s in sorted(offered, key=lambda sampling: sampling.name)}


def read_configuration(folder: Path) -> Configuration:
    """Read benchmarks.yaml, evaluations/*.yaml and the optional other files.

    These are models.yaml, samplings.yaml, and benchmarks/*.yaml with the user's own benchmarks.

    Raises:
        ConfigurationError: if one of them cannot be used, except for evaluation files, which
            become `problems`.
    """
    own = _register_own(folder / OWN_BENCHMARKS)
    benchmarks = {name: BenchmarkSettings() for name in own}
    benchmarks |= _read_benchmarks(folder / "benchmarks.yaml")
    models = folder / "models.yaml"
    catalog = Catalog.read(models) if models.exists() else Catalog()
    evaluations: dict[str, Evaluation] = {}
    problems: dict[str, ConfigurationError] = {}
    for path in sorted((folder / "evaluations").glob("*.yaml")):
        try:
            evaluations[path.stem] = read_evaluation(path, benchmarks, catalog)
        except ConfigurationError as error:
            problems[path.stem] = error
    return Configuration(
        folder=folder,
        benchmarks=benchmarks,
        catalog=catalog,
        samplings=_read_samplings(folder / "samplings.yaml"),
        evaluations=evaluations,
        problems=problems,
    )


def read_evaluation(
    path: Path, benchmarks: Mapping[str, BenchmarkSettings], catalog: Catalog
) -> Evaluation:
    """The evaluation in one YAML file.

    Raises:
        ConfigurationError: if the file has a mistake. The message has the file, the key, the wrong
            value and the valid values.
    """
    _check_name(path.stem, path)
    file = parse_spec(read_yaml(path), EvaluationFile, str(path))
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
            sampling=None if file.sampling == NONE else parse_sampling(file.sampling),
            alignment=None if file.subtitles == NONE else parse_alignment(file.subtitles),
            template=_template(file.prompt, path.parent, file.benchmark),
            reader=file.reader,
            judge=None if file.judge is None else Judge.of(file.judge, catalog),
            decoding=file.decoding,
            repeats=file.repeats,
            selection=Selection(duration=file.duration, subset=file.subset),
        )
    except VideoMMEError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if evaluation.judge and evaluation.reader is not ReaderName.STRICT:
        raise ConfigurationError(
            f"{path}: a judge reads what `strict` cannot, but `reader` is {evaluation.reader}; "
            "remove `judge`, or set `reader: strict`"
        )
    _check_selection(evaluation, path)
    alignment, template = evaluation.alignment, evaluation.template
    if alignment is not None and alignment.is_interleaved and not template.can_interleave:
        raise ConfigurationError(
            f"{path}: `subtitles: {alignment.name}` puts lines between the frames, which prompt "
            f"`{template.name}` does not support; use official_v2, or an alignment that lists "
            "lines (window-500, full)"
        )
    return evaluation


def _check_selection(evaluation: Evaluation, path: Path) -> None:
    """Raise ConfigurationError if a key that selects videos needs a facet that is not declared."""
    subset = evaluation.selection.subset
    needed = dict.fromkeys(subset.stratify if subset else (), "subset")
    if evaluation.selection.duration is not None:
        needed["duration"] = "duration"
    known = [facet.column for facet in find_benchmark(evaluation.benchmark).facets]
    for column, key in needed.items():
        if column not in known:
            raise ConfigurationError(
                f"{path}: `{key}` needs the facet `{column}`, which {evaluation.benchmark} does "
                f"not have: {nearest(column, known)}"
            )


def _register_own(folder: Path) -> list[str]:
    """Register the benchmarks that files in `folder` declare, and return their names, sorted."""
    names = []
    for path in sorted(folder.glob("*.yaml")):
        _check_name(path.stem, path)
        names.append(register_declared(path, _reserved_columns()).name)
    return names


def _reserved_columns() -> set[str]:
    """The columns of tables that no declared facet can have the name of.

    They are those of the rows themselves, numbers of other benchmarks, and derived facets.
    """
    tables = (Question, ScoredQuestion, ObservedQuestion)
    own = {name for table in tables for name in arrow_schema(table).names} - Facets.declared.keys()
    numbers = {name for name, kind in Facets.declared.items() if kind is not str}
    return own | numbers | Facets.derivations.keys()


def _read_benchmarks(path: Path) -> dict[str, BenchmarkSettings]:
    benchmarks = {}
    for name, value in read_yaml(path).items():
        try:
            find_benchmark(str(name))
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        settings = {} if value is None else value
        benchmarks[name] = parse_spec(settings, BenchmarkSettings, f"{path}, `{name}`")
    return benchmarks


def _read_samplings(path: Path) -> dict[str, tuple[Sampling, ...]]:
    """Samplings by benchmark; the file is optional."""
    if not path.exists():
        return {}
    samplings = {}
    for benchmark, values in read_yaml(path).items():
        offered = [] if values is None else values
        if not isinstance(offered, list):
            raise ConfigurationError(
                f"{path}, `{benchmark}`: expected a list of samplings, found {shown(offered)}"
            )
        try:
            samplings[benchmark] = tuple(parse_sampling(value) for value in offered)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, `{benchmark}`: {error}") from error
    return samplings


def _template(value: str, folder: Path, benchmark: str) -> Template:
    """The published template `value`, or the one in a file at this path from `folder`.

    The name of the benchmark is that of the prompt in its declaration.

    The file must be inside the configuration folder, the parent of `folder`, so that a
    configuration from elsewhere cannot send other files to a model.
    """
    declared = find_benchmark(benchmark)
    if value == declared.name and declared.prompt_text is not None:
        return Template(name=value, text=declared.prompt_text)
    path = folder / value
    if value in set(TemplateName) or not _is_file(path):
        return parse_template(value)
    allowed = folder.parent.resolve()
    if not path.resolve().is_relative_to(allowed):
        raise ConfigurationError(
            f"prompt template {value!r}: {path.resolve()} is outside of the configuration folder "
            f"{allowed}; copy the file beside the evaluation"
        )
    return load_template(path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the text is not the path of any file, for example too long
        return False


def _check_name(name: str, path: Path) -> None:
    if not is_name(name):
        raise ConfigurationError(
            f"{path}: the file name is the evaluation's name; use letters, digits, `.`, `_`, `-`, "
            f"at most {MAX_NAME_CHARACTERS} characters"
        )


def write_example(folder: Path, name: str, benchmark: str) -> Path:
    """Write a commented evaluation file to start from, and return its path.

    Raises:
        ConfigurationError: if the file exists, or the name is not valid for an evaluation.
    """
    path = folder / f"{name}.yaml"
    _check_name(name, path)
    if path.exists():
        raise ConfigurationError(f"{path}: an evaluation with this name exists; choose another")
    declared = find_benchmark(benchmark)
    example = _EXAMPLE.format(
        benchmark=benchmark,
        alignment=declared.alignment,
        prompt=declared.prompt,
        prompts=", ".join(TemplateName),
        readers=", ".join(ReaderName),
    )
    publish(UPath(path), example.encode())
    return path


def write_declaration(folder: Path, name: str, videos: Path) -> Path:
    """Declare the benchmark `name` for the user's folder `videos`, and return the file's path.

    `folder` is the configuration folder.

    Raises:
        ConfigurationError: if there is a benchmark with this name, or the name is not valid.
        AnnotationError: if the folder has no annotations.
    """
    path = folder / OWN_BENCHMARKS / f"{name}.yaml"
    _check_name(name, path)
    if name in known_benchmarks():
        raise ConfigurationError(f"there is a benchmark called {name}; choose another name")
    root = videos.expanduser().absolute()
    text = inspect_folder(root, _reserved_columns()).yaml(name, root)
    path.parent.mkdir(exist_ok=True)
    publish(UPath(path), text.encode())
    return path


_EXAMPLE = """\
# One file is one evaluation. The file name is its name.
benchmark: {benchmark}

# A name in models.yaml, or one that needs no entry: embedded, random, constant-A, longest-option.
model: embedded

# uniform_n-16, fps_based-1-max-512, keyframe-32 …, or none to ask without frames.
sampling: uniform_n-16

# none, or an alignment policy: {alignment}, full …
subtitles: none

# {prompts},
# or the path of your own template.
prompt: {prompt}

# How a letter is read from an answer:
# {readers}.
reader: strict

# A model in models.yaml that reads the responses that strict cannot read. Scores report its
# letters separately.
# judge:
#   model: my-model

# decoding:
#   temperature: 0.0
#   max_tokens: 1024
#   seed: 7
# repeats: 1        # how many times each question is asked

# Only some of the videos: those of one duration, a random sample, or both.
# duration: long    # short, medium or long
# subset: {{videos: 90, stratify: [duration, domain], seed: 7}}
"""
