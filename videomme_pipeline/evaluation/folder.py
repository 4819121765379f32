"""The configuration folder: evaluations/*.yaml, benchmarks.yaml and the optional other files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from videomme_pipeline.benchmarks.facets import NEEDS_VIDEO
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark, register, register_declared
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.configuration import (
    MAX_NAME_CHARACTERS,
    is_name,
    nearest,
    parse_spec,
    read_yaml,
    shown,
)
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.reading import check_name, parse_evaluation
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.frames.sampling_names import configured_sampling
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.scoring.scored_question import ObservedQuestion, ScoredQuestion
from videomme_pipeline.scoring.verdicts import Checkpoint, CheckpointOutcome

OWN_BENCHMARKS = "benchmarks"
"""Folder of the files that declare the user's own benchmarks, inside the configuration folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The content of the configuration folder.

    `samplings` are the entries of samplings.yaml by benchmark. `problems` has an error for each
    evaluation file that cannot be used, by name. The other evaluations are not affected.
    `checkpoints` are the names of the evaluations that have no file, but a recorded checkpoint.
    """

    folder: Path
    benchmarks: Mapping[str, BenchmarkSettings]
    catalog: Catalog
    samplings: Mapping[str, Sequence[Sampling]]
    evaluations: Mapping[str, Evaluation]
    problems: Mapping[str, ConfigurationError]
    checkpoints: frozenset[str] = frozenset()

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation with this name. Raises ConfigurationError without a usable file."""
        if name in self.evaluations:
            return self.evaluations[name]
        if name in self.problems:
            raise self.problems[name]
        raise ConfigurationError(
            f"no evaluation `{name}` in {self.folder / 'evaluations'}: "
            f"{nearest(name, list(self.evaluations))} (`videomme init {name}` writes a new one)"
        )

    @property
    def files(self) -> dict[str, Evaluation]:
        """The evaluations that have a file. Evaluations of checkpoints have none."""
        return {name: e for name, e in self.evaluations.items() if name not in self.checkpoints}

    def benchmark_of(self, name: str) -> str | None:
        """The benchmark that the file of an evaluation names; None if it names no known one."""
        try:
            named = str(read_yaml(self.folder / "evaluations" / f"{name}.yaml").get("benchmark"))
        except ConfigurationError:
            return None
        return named if named in self.benchmarks else None

    def evaluations_of(self, benchmark: str) -> list[Evaluation]:
        """The evaluations of one benchmark, sorted by name."""
        return [e for e in self.evaluations.values() if e.benchmark == benchmark]

    def samplings_of(self, benchmark: str) -> dict[str, Sampling]:
        """The samplings in a benchmark's evaluations and in samplings.yaml, by name."""
        used = [e.sampling for e in self.evaluations_of(benchmark) if e.sampling]
        offered = [*self.samplings.get(benchmark, ()), *used]
        return {s.name: s for s in sorted(offered, key=lambda sampling: sampling.name)}

    def samplings_of_model(self, name: str) -> list[str]:
        """Sorted names of the samplings of a model's evaluations, without `frames_by_duration`."""
        of_model = (e.sampling for e in self.evaluations.values() if e.model.name == name)
        return sorted({sampling.for_duration(None).name for sampling in of_model if sampling})


def read_configuration(folder: Path) -> Configuration:
    """Read benchmarks.yaml, evaluations/*.yaml and the optional other files.

    These are models.yaml, samplings.yaml, samplings/* with the frames of each question, and
    benchmarks/*.yaml with the user's own benchmarks. Raises ConfigurationError if one of them
    cannot be used, except for evaluation files, which become `problems`.
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
            _check_case(path.stem, evaluations, path)
            check_name(path.stem, path)
            evaluation = parse_evaluation(read_yaml(path), path, benchmarks, catalog)
            evaluations[path.stem] = evaluation
        except ConfigurationError as error:
            problems[path.stem] = error
    configuration = Configuration(
        folder=folder,
        benchmarks=benchmarks,
        catalog=catalog,
        samplings=_read_samplings(folder / "samplings.yaml"),
        evaluations=evaluations,
        problems=problems,
    )
    for name in benchmarks:
        _register_needs_video(name, configuration)
    return configuration


def _register_needs_video(name: str, configuration: Configuration) -> None:
    """Keep the facet `needs_video` only for benchmarks whose settings name a blind evaluation."""
    benchmark, blind = find_benchmark(name), configuration.benchmarks[name].needs_video
    facets = tuple(facet for facet in benchmark.facets if facet != NEEDS_VIDEO)
    if blind is not None:
        key = f"{configuration.folder / 'benchmarks.yaml'}, `{name}`: `needs_video: {blind}`"
        evaluation = configuration.evaluation(blind)
        if (evaluation.benchmark, evaluation.sampling) != (name, None):
            raise ConfigurationError(
                f"{key} has `benchmark: {evaluation.benchmark}` and `sampling: "
                f"{evaluation.sampling_name}`; name an evaluation of {name} without frames"
            )
        if NEEDS_VIDEO.column in (facet.column for facet in facets):
            raise ConfigurationError(
                f"{key}: the benchmark declares this facet itself; remove one of the two"
            )
        facets += (NEEDS_VIDEO,)
    if facets != benchmark.facets:
        register(benchmark.model_copy(update={"facets": facets}), replaces=True)


def _register_own(folder: Path) -> list[str]:
    names: list[str] = []
    for path in sorted(folder.glob("*.yaml")):
        check_name(path.stem, path)
        _check_case(path.stem, names, path)
        names.append(register_declared(path, reserved_columns()).name)
    return names


def _check_case(name: str, others: Iterable[str], path: Path) -> None:
    """Raise ConfigurationError if a disk that ignores case would mix the files of two names."""
    for other in others:
        if other != name and other.lower() == name.lower():
            raise ConfigurationError(
                f"{path}: `{name}` and `{other}` differ only in case, which some disks ignore; "
                "rename one of the two"
            )


def reserved_columns() -> set[str]:
    """The names of columns of the tables, which no declared facet can have."""
    tables = (Question, ScoredQuestion, ObservedQuestion)
    return {name for table in tables for name in arrow_schema(table).names}


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
            samplings[benchmark] = tuple(configured_sampling(v, path.parent) for v in offered)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, `{benchmark}`: {error}") from error
    return samplings


def with_checkpoints(configuration: Configuration, rows: Iterable[Checkpoint]) -> Configuration:
    """`configuration` with one evaluation per recorded checkpoint and template.

    A checkpoint that was deleted before it was evaluated has none. A template with a mistake is a
    problem of the evaluations of its checkpoints.
    """
    evaluations, problems = dict(configuration.evaluations), dict(configuration.problems)
    recorded = [row for row in rows if row.outcome is not CheckpointOutcome.DELETED]
    for row in recorded:
        try:
            template = configuration.evaluation(row.template)
            evaluations[row.evaluation] = checkpoint_evaluation(
                template, row.run, row.step, row.folder
            )
        except ConfigurationError as error:
            problems[row.evaluation] = error
    return replace(
        configuration,
        evaluations=dict(sorted(evaluations.items())),
        problems=problems,
        checkpoints=frozenset(row.evaluation for row in recorded),
    )


def checkpoint_evaluation(template: Evaluation, run: str, step: int, folder: str) -> Evaluation:
    """The evaluation of the checkpoint in `folder`. Raises ConfigurationError without weights."""
    name = f"{template.name}-{run}-{step}"
    model = template.model.with_weights(f"{template.model.name}-{run}-{step}", folder)
    if model is None:
        raise ConfigurationError(
            f"evaluation {template.name} cannot be the template of checkpoints: its model "
            f"{template.model.name} has no `serve: weights`; choose a model whose servers are "
            "started by runs"
        )
    for text in (name, model.name):
        if not is_name(text):
            raise ConfigurationError(
                f"training run {run}: `{text}` cannot be a name; use letters, digits, `.`, `_`, "
                f"`-` and at most {MAX_NAME_CHARACTERS} characters in the names of the run, the "
                "template and its model"
            )
    return replace(template, name=name, model=model)
