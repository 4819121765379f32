"""Training runs in `checkpoints.yaml`: finding finished checkpoints, and the gate of each one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from statistics import fmean

from pydantic import Field, field_validator
from upath import UPath

from videomme_pipeline.configuration import is_name, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError, ScoringError
from videomme_pipeline.evaluation.checkpoints import checkpoint_evaluation
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.reports.gate import sentence
from videomme_pipeline.scoring.checkpoint import (
    EVALUATED,
    Checkpoint,
    CheckpointOutcome,
    partition_key,
    read_checkpoints,
    write_checkpoint,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.gate import FailIf, Verdict, decide
from videomme_pipeline.storage.objects import is_local, list_objects, listing, open_folder
from videomme_pipeline.storage.tables import read_rows

CHECKPOINTS_FILE = "checkpoints.yaml"
CHECKPOINT_JOB = "checkpoint"
"""The Dagster job that evaluates one checkpoint."""
VERDICTS = "verdicts"
"""The metadata of the job's asset with the rows of the checkpoint as JSON."""
PREVIOUS, BEST = "previous", "best"
_WILDCARD = re.compile(r"[*?\[]")


class TrainingRun(Spec):
    """One training run and the gate of its checkpoints."""

    pattern: str = Field(min_length=1)
    """The folders of the checkpoints, with `*`: a path or an fsspec URL (`s3://…`)."""
    template: str | tuple[str, ...]
    """The evaluation whose settings are used, or a list. The model must have `serve`."""
    step: str = r"(\d+)\D*$"
    """A regular expression with one group: the training step in the part of the path that
    `pattern` matches. Default: the last number."""
    complete: str = Field(default="trainer_state.json", min_length=1)
    """The file in the folder that is written last. It may contain `*`."""
    compare_with: str = PREVIOUS
    """`previous`, `best` (of all earlier checkpoints), or the name of an evaluation."""
    margin: float = Field(default=2.0, ge=0)
    """Points that are no difference in practice."""
    fail_if: FailIf = FailIf.WORSE
    """The verdict that fails the gate."""
    max_failed: float = Field(default=0.1, ge=0, le=1)
    """Largest share of unanswered questions."""

    @field_validator("pattern")
    @classmethod
    def _has_a_wildcard(cls, pattern: str) -> str:
        if not _WILDCARD.search(pattern):
            raise ValueError("write `*` for the part that is different for each checkpoint")
        return pattern

    @field_validator("step")
    @classmethod
    def _has_one_group(cls, step: str) -> str:
        try:
            groups = re.compile(step).groups
        except re.error as error:
            raise ValueError(f"not a regular expression ({error})") from None
        if groups != 1:
            raise ValueError(r"put the digits of the step into one group, such as (\d+)")
        return step

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.template,) if isinstance(self.template, str) else self.template

    def folders(self) -> Iterator[tuple[int, UPath]]:
        """Yield the training step and the folder of each checkpoint. Others are left out.

        Raises:
            ConfigurationError: if two folders have the same step.
            StorageError: if a folder cannot be listed.
        """
        wildcard = _WILDCARD.search(self.pattern)
        assert wildcard is not None
        root, _, rest = self.pattern[: wildcard.start()].rpartition("/")
        folder = open_folder(f"{root}/" if root or self.pattern[0] == "/" else ".", "checkpoints")
        if is_local(folder):
            folder = folder.expanduser().absolute()
        by_step: dict[int, UPath] = {}
        with listing(folder):
            matches = sorted(folder.glob(rest + self.pattern[wildcard.start() :]), key=str)
        for path in matches:
            step = re.search(self.step, str(path.relative_to(folder)))
            if step is None or not step[1].isdecimal() or not path.is_dir():
                continue
            if (other := by_step.setdefault(int(step[1]), path)) is not path:
                raise ConfigurationError(
                    f"{other} and {path} have the same training step {int(step[1])}; write one "
                    f"entry per training run in {CHECKPOINTS_FILE}, or set `step`"
                )
        yield from sorted(by_step.items())


def read_training_runs(configuration: Configuration) -> dict[str, TrainingRun]:
    """The entries of `checkpoints.yaml`. Empty without the file.

    Raises:
        ConfigurationError: if the file has mistakes or names an unknown evaluation.
    """
    path = configuration.folder / CHECKPOINTS_FILE
    runs = {}
    for name, value in (read_yaml(path) if path.exists() else {}).items():
        if not is_name(str(name)):
            raise ConfigurationError(
                f"{path}: `{name}` cannot be the name of a training run; use letters, digits, `.`, "
                "`_` and `-`"
            )
        run = runs[str(name)] = parse_spec(value, TrainingRun, f"{path}: {name}")
        baseline = () if run.compare_with in (PREVIOUS, BEST) else (run.compare_with,)
        for evaluation in (*run.templates, *baseline):
            configuration.evaluation(evaluation)
    return runs


def training_run(configuration: Configuration, name: str) -> TrainingRun:
    """One entry of `checkpoints.yaml`.

    Raises:
        ConfigurationError: as `read_training_runs`, or if there is no such entry.
    """
    runs = read_training_runs(configuration)
    if name not in runs:
        file = configuration.folder / CHECKPOINTS_FILE
        raise ConfigurationError(f"no training run `{name}` in {file}; add an entry for it")
    return runs[name]


def partitions_name(project: Project) -> str:
    """Dagster's name of the dynamic partitions of checkpoints."""
    return f"{project.runs.prefix}checkpoints"


def record_finished(project: Project, seen: Mapping[str, str]) -> dict[str, str]:
    """Record the checkpoints that are finished, and return the states of those that are not.

    `seen` is the result of the look before. A checkpoint is finished if the file that is written
    last is there and no file of the folder has changed since that look. A recorded checkpoint is
    not looked at again, unless it was deleted before it was evaluated.
    """
    recorded = {
        row.key
        for row in read_checkpoints(project.store)
        if row.outcome is not CheckpointOutcome.DELETED
    }
    unfinished = {}
    for name, run in read_training_runs(project.configuration).items():
        for step, folder in run.folders():
            key = partition_key(name, step)
            if key in recorded:
                continue
            files = list_objects(folder)
            state = fingerprint(sorted(files.items()))
            is_complete = any(fnmatchcase(file, run.complete) for file in files)
            if is_complete and seen.get(key) == state:
                record(project, name, step, folder)
            else:
                unfinished[key] = state
    return unfinished


def record(project: Project, name: str, step: int, folder: UPath) -> None:
    """Record a checkpoint, for which the configuration then has evaluations.

    Raises:
        ConfigurationError: if a template cannot evaluate checkpoints.
    """
    rows = []
    for template in training_run(project.configuration, name).templates:
        settings = project.configuration.evaluation(template)
        evaluation = checkpoint_evaluation(settings, name, step, str(folder))
        rows.append(
            Checkpoint(
                run=name,
                step=step,
                template=template,
                benchmark=evaluation.benchmark,
                evaluation=evaluation.name,
                folder=str(folder),
                recorded_at=datetime.now(UTC),
            )
        )
    write_checkpoint(project.store, rows)


def next_pending(rows: Sequence[Checkpoint]) -> list[str]:
    """The key of the first pending checkpoint of each training run.

    The next one follows when it has an outcome, because it is compared with the ones before.
    """
    first: dict[str, str] = {}
    for row in rows:
        if row.outcome is CheckpointOutcome.PENDING:
            first.setdefault(row.run, row.key)
    return list(first.values())


def decide_checkpoint(
    project: Project, row: Checkpoint, recorded: Sequence[Checkpoint]
) -> Checkpoint:
    """`row` with the verdict of its gate. The first checkpoint has nothing to be compared with.

    Raises:
        ConfigurationError: if `checkpoints.yaml` has no entry for the training run.
        ScoringError: if there are no scores, or too many questions have no answer.
    """
    run = training_run(project.configuration, row.run)
    scores = _scores(project, row.evaluation)
    failed = sum(score.outcome is Outcome.FAILED for score in scores)
    if not scores or failed > run.max_failed * len(scores):
        raise ScoringError(
            f"{row.evaluation}: {failed:,} of {len(scores):,} questions have no answer, more than "
            f"`max_failed: {run.max_failed}` allows; submit the checkpoint again"
        )
    reference = _reference(project, run, row, recorded)
    if reference is None:
        reason = "There is no earlier checkpoint with the same settings to compare with."
        return replace(row, outcome=CheckpointOutcome.PASSED, reason=reason)
    baseline = _scores(project, reference)
    gate = decide(baseline, scores, margin=run.margin, max_failed=run.max_failed)
    check = gate.checks[0]
    if gate.fails(run.fail_if):
        outcome = CheckpointOutcome.FAILED
    elif gate.verdict is Verdict.UNDECIDED:
        outcome = CheckpointOutcome.UNDECIDED
    else:
        outcome = CheckpointOutcome.PASSED
    return replace(
        row,
        outcome=outcome,
        reference=reference,
        verdict=gate.verdict.value,
        difference=check.difference,
        difference_low=check.low,
        difference_high=check.high,
        p_value=check.p_value,
        reason=f"Against {reference}: {sentence(check)}",
    )


def _reference(
    project: Project, run: TrainingRun, row: Checkpoint, recorded: Sequence[Checkpoint]
) -> str | None:
    """The evaluation that a checkpoint is compared with, or None."""
    if run.compare_with not in (PREVIOUS, BEST):
        return run.compare_with
    earlier = [
        (other, scores)
        for other in recorded
        if (other.run, other.template) == (row.run, row.template)
        and other.step < row.step
        and other.outcome in EVALUATED
        and (scores := _scores(project, other.evaluation))
    ]
    if not earlier:
        return None
    if run.compare_with == PREVIOUS:
        return max(earlier, key=lambda item: item[0].step)[0].evaluation
    # `max` returns the earliest of equally good checkpoints.
    best, _ = max(earlier, key=lambda item: fmean(score.is_correct for score in item[1]))
    return best.evaluation


def _scores(project: Project, name: str) -> list[ScoredQuestion]:
    """The stored scores of an evaluation; empty if there are none with its current settings."""
    evaluation = project.configuration.evaluation(name)
    try:
        rows = read_rows(project.store.scores(evaluation.benchmark, name), ScoredQuestion)
    except FileNotFoundError:
        return []
    return rows if rows and rows[0].evaluation_fingerprint == evaluation.fingerprint else []
