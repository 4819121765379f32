"""Training runs in `checkpoints.yaml`: finding finished checkpoints, and the gate of each one."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from statistics import fmean

from pydantic import Field
from upath import UPath

from videomme_pipeline.configuration import is_name, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError, ScoringError
from videomme_pipeline.evaluation.checkpoints import checkpoint_evaluation
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.trackers import Tracker
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
from videomme_pipeline.storage.objects import list_objects, listing, open_folder
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

    pattern: str
    """The folders of the checkpoints, with `*`: a path or an fsspec URL (`s3://…`)."""
    template: str | tuple[str, ...]
    """The evaluation whose settings are used, or a list. The model must have `serve`."""
    step: re.Pattern[str] = re.compile(r"\d+(?=\D*$)")
    """A regular expression for the training step in the path from the first `*` of `pattern` on.
    Default: the last number."""
    complete: str = "trainer_state.json"
    """The file in the folder that is written last. It may contain `*`."""
    compare_with: str = PREVIOUS
    """`previous`, `best` (of all earlier checkpoints), or the name of an evaluation."""
    margin: float = Field(default=2.0, ge=0)
    """Points that are no difference in practice."""
    fail_if: FailIf = FailIf.WORSE
    """The verdict that fails the gate."""
    max_failed: float = Field(default=0.1, ge=0, le=1)
    """Largest share of unanswered questions."""
    tracker: Tracker | None = None
    """The experiment tracker that gets the scores at their training steps."""

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.template,) if isinstance(self.template, str) else self.template

    @property
    def baseline(self) -> str | None:
        """The evaluation that all checkpoints are compared with, or None."""
        return None if self.compare_with in (PREVIOUS, BEST) else self.compare_with

    def folders(self) -> Iterator[tuple[int, UPath]]:
        """Yield the training step and the folder of each checkpoint. Others are left out.

        Raises:
            ConfigurationError: if two folders have the same step.
            StorageError: if a folder cannot be listed.
        """
        pattern = os.path.expanduser(self.pattern)  # noqa: PTH111 - it can be a URL
        wildcard = _WILDCARD.search(pattern)
        end = pattern.rfind("/", 0, wildcard.start() if wildcard else None) + 1
        root = open_folder(pattern[:end] or ".", "folder of checkpoints").absolute()
        by_step: dict[int, UPath] = {}
        with listing(root):
            paths = sorted(path for path in root.glob(pattern[end:]) if path.is_dir())
        for path in paths:
            step = self.step.search(str(path.relative_to(root)))
            if step is None or not step[0].isdecimal():
                continue
            if (other := by_step.setdefault(int(step[0]), path)) is not path:
                raise ConfigurationError(
                    f"{other} and {path} have the same training step {step[0]}; write one entry "
                    f"per training run in {CHECKPOINTS_FILE}, or set `step`"
                )
        yield from by_step.items()


def read_training_runs(configuration: Configuration) -> dict[str, TrainingRun]:
    """The entries of `checkpoints.yaml`. Empty without the file.

    Raises:
        ConfigurationError: if the file has mistakes or names an unknown evaluation.
    """
    path = configuration.folder / CHECKPOINTS_FILE
    entries = read_yaml(path) if path.exists() else {}
    runs = {n: parse_spec(entry, TrainingRun, f"{path}: {n}") for n, entry in entries.items()}
    for name, run in runs.items():
        if not is_name(str(name)):
            raise ConfigurationError(
                f"{path}: `{name}` cannot name a training run; use letters, digits, `.`, `_`, `-`"
            )
        for evaluation in (*run.templates, *filter(None, [run.baseline])):
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
        raise ConfigurationError(f"{file}: no training run `{name}`; add an entry for it")
    return runs[name]


def record_finished(project: Project, seen: Mapping[str, str]) -> dict[str, str]:
    """Record the checkpoints that are finished, and return the states of those that are not.

    `seen` is the result of the look before. A checkpoint is finished if the file that is written
    last is there and no file of the folder has changed since that look. A recorded checkpoint is
    not looked at again, unless it was deleted before it was evaluated.
    """
    rows = read_checkpoints(project.store)
    recorded = {row.key for row in rows if row.outcome is not CheckpointOutcome.DELETED}
    unfinished = {}
    for name, run in read_training_runs(project.configuration).items():
        for step, folder in run.folders():
            key = partition_key(name, step)
            if key in recorded:
                continue
            files = list_objects(folder)
            state = fingerprint(sorted(files.items()))
            if seen.get(key) == state and any(fnmatchcase(file, run.complete) for file in files):
                _record(project, name, run, step, folder)
            else:
                unfinished[key] = state
    return unfinished


def _record(project: Project, name: str, run: TrainingRun, step: int, folder: UPath) -> None:
    """Record a checkpoint, for which the configuration then has evaluations."""
    templates = [project.configuration.evaluation(template) for template in run.templates]
    rows = [
        Checkpoint(
            run=name,
            step=step,
            template=template.name,
            benchmark=template.benchmark,
            evaluation=checkpoint_evaluation(template, name, step, str(folder)).name,
            folder=str(folder),
            recorded_at=datetime.now(UTC),
        )
        for template in templates
    ]
    write_checkpoint(project.store, rows)


def next_pending(project: Project) -> list[list[Checkpoint]]:
    """The rows of the first pending checkpoint of each training run in `checkpoints.yaml`.

    The next one follows when it has an outcome, because it is compared with the ones before.
    """
    recorded = read_checkpoints(project.store)
    first: dict[str, str] = {}
    for row in recorded:
        if row.outcome is CheckpointOutcome.PENDING:
            first.setdefault(row.run, row.key)
    runs = read_training_runs(project.configuration)
    return [[row for row in recorded if row.key == first[run]] for run in first if run in runs]


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
    reference = run.baseline or _earlier(project, run, row, recorded)
    if reference is None:
        reason = "There is no earlier checkpoint with the same settings to compare with."
        return replace(row, outcome=CheckpointOutcome.PASSED, reason=reason)
    baseline = _scores(project, reference)
    asked = {score.question_id for score in scores} & {score.question_id for score in baseline}
    gate = decide(baseline, scores, margin=run.margin, asked=asked, max_failed=run.max_failed)
    check = gate.checks[0]
    is_undecided = gate.verdict is Verdict.UNDECIDED
    outcome = CheckpointOutcome.UNDECIDED if is_undecided else CheckpointOutcome.PASSED
    return replace(
        row,
        outcome=CheckpointOutcome.FAILED if gate.fails(run.fail_if) else outcome,
        reference=reference,
        verdict=gate.verdict.value,
        difference=check.difference,
        difference_low=check.low,
        difference_high=check.high,
        p_value=check.p_value,
        reason=f"Against {reference}: {sentence(check)}",
    )


def _earlier(
    project: Project, run: TrainingRun, row: Checkpoint, recorded: Sequence[Checkpoint]
) -> str | None:
    """The evaluation of the earlier checkpoint that `row` is compared with, or None."""
    scores = {
        other.evaluation: rows  # in the order of the steps
        for other in recorded
        if (other.run, other.template) == (row.run, row.template)
        and other.step < row.step
        and other.outcome in EVALUATED
        and (rows := _scores(project, other.evaluation))
    }
    if run.compare_with == PREVIOUS:
        return next(reversed(scores), None)
    # `max` returns the earliest of equally good checkpoints.
    return max(scores, key=lambda name: fmean(r.is_correct for r in scores[name]), default=None)


def _scores(project: Project, name: str) -> list[ScoredQuestion]:
    """The stored scores of an evaluation; empty if there are none with its current settings."""
    evaluation = project.configuration.evaluation(name)
    try:
        rows = read_rows(project.store.scores(evaluation.benchmark, name), ScoredQuestion)
    except FileNotFoundError:
        return []
    return rows if rows and rows[0].evaluation_fingerprint == evaluation.fingerprint else []
