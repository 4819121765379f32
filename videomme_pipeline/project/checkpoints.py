"""Training runs in `checkpoints.yaml`: finding finished checkpoints, and the gate of each one."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import fmean

from pydantic import Field, field_validator
from upath import UPath

from videomme_pipeline.configuration import is_name, nearest, parse_spec, read_yaml
from videomme_pipeline.errors import (
    ConfigurationError,
    ScoringError,
    VideoMMEError,
    listed,
    printable,
)
from videomme_pipeline.evaluation.folder import Configuration, checkpoint_evaluation
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.plugins import TRACKERS, installed
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.reports.gate import sentence
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.gate import FailIf, Verdict, decide
from videomme_pipeline.scoring.verdicts import (
    EVALUATED,
    Checkpoint,
    CheckpointOutcome,
    partition_key,
    read_checkpoints,
    write_checkpoint,
)
from videomme_pipeline.storage.objects import is_local, list_objects, listing, open_folder
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_rows

CHECKPOINTS_FILE = "checkpoints.yaml"
CHECKPOINT_JOB = "checkpoint"
"""The Dagster job that evaluates one checkpoint."""
VERDICTS = "verdicts"
"""The metadata of the job's asset with the rows of the checkpoint as JSON."""
PREVIOUS, BEST = "previous", "best"
_WILDCARD = re.compile(r"[*?\[]")
_LAST_NUMBER = re.compile(r"(\d+)\D*$", re.ASCII)
_MAX_DIGITS = 18
"""The digits of a training step. A longer number does not fit into a table."""


class TrainingRun(Spec):
    """One training run and the gate of its checkpoints."""

    pattern: str
    """The folders of the checkpoints, with `*`: a path or an fsspec URL (`s3://…`)."""
    template: str | tuple[str, ...]
    """The evaluation whose settings are used, or a list. The model must have `serve`."""
    step: str | None = Field(default=None, pattern=r"^[^/{}]*\{step\}[^/{}]*$")
    """The name of the folder with the training step, such as `checkpoint-{step}`. Default: the last
    number in the path from the first `*` of `pattern` on."""
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
    tracker: str | None = None
    """The experiment tracker that gets the scores at their training steps: `wandb`, `trackio`,
    `mlflow`, `swanlab`, or one of another package."""

    @field_validator("tracker")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in (trackers := installed(TRACKERS)):
            raise ValueError(f"no installed package has it, {nearest(name, tuple(trackers))}")
        return name

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.template,) if isinstance(self.template, str) else self.template

    @property
    def baseline(self) -> str | None:
        """The evaluation that all checkpoints are compared with, or None."""
        return None if self.compare_with in (PREVIOUS, BEST) else self.compare_with

    def folders(self, leave_out: Callable[[str], None] = ignore) -> Iterator[tuple[int, UPath]]:
        """Yield the training step and the folder of each checkpoint. A step can have several.

        Folders without a step are left out. `leave_out` is called with one sentence about every
        other folder that is left out. Raises ConfigurationError if `pattern` names no folders, and
        StorageError if a folder cannot be listed.
        """
        pattern = os.path.expanduser(self.pattern)  # noqa: PTH111 - it can be a URL
        wildcard = _WILDCARD.search(pattern)
        end = pattern.rfind("/", 0, wildcard.start() if wildcard else None) + 1
        root = open_folder(pattern[:end] or ".", "folder of checkpoints").absolute()
        for path in _matching(root, pattern[end:]):
            digits = self._step_in(str(path.relative_to(root))) if path.is_dir() else None
            if digits is None:
                continue
            name = printable(str(path))
            if name != str(path):
                leave_out(f"{name} is left out: its name has characters that are no text")
            elif len(digits) > _MAX_DIGITS:
                leave_out(f"{name} is left out: its step has more than {_MAX_DIGITS} digits")
            elif is_local(path) and not path.resolve().is_relative_to(root.resolve()):
                leave_out(f"{name} is left out: it is a link to a folder elsewhere")
            else:
                yield int(digits), path

    def _step_in(self, path: str) -> str | None:
        """The digits of the training step in a path, or None if it has none."""
        if self.step is None:
            number = _LAST_NUMBER.search(path)
            return number and number[1]
        start, _, end = self.step.partition("{step}")
        names = [name for name in path.split("/") if name.startswith(start) and name.endswith(end)]
        steps = [name[len(start) : len(name) - len(end)] for name in names]
        return next((step for step in steps if step.isascii() and step.isdecimal()), None)

    def is_complete(self, folder: UPath) -> bool:
        """True if the file that is written last is in `folder`."""
        return any(path.is_file() for path in _matching(folder, self.complete))


def _matching(folder: UPath, pattern: str) -> list[UPath]:
    try:
        with listing(folder):
            return sorted(folder.glob(pattern))
    except FileNotFoundError:
        return []  # deleted meanwhile
    except (ValueError, NotImplementedError) as error:
        raise ConfigurationError(
            f"{CHECKPOINTS_FILE}: {pattern!r} names nothing in {folder}; write a pattern such as "
            "`run/checkpoint-*`, and in `complete` the name of a file"
        ) from error


def read_training_runs(configuration: Configuration) -> dict[str, TrainingRun]:
    """The entries of `checkpoints.yaml`. Raises ConfigurationError if the file has mistakes."""
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
    """One entry of `checkpoints.yaml`. Raises ConfigurationError if there is none."""
    runs = read_training_runs(configuration)
    if name not in runs:
        file = configuration.folder / CHECKPOINTS_FILE
        raise ConfigurationError(f"{file}: no training run `{name}`; add an entry for it")
    return runs[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of a look at all training runs.

    `unfinished` has the state of each checkpoint that is not finished, by key. `problems` has one
    sentence per folder or training run that is left out.
    """

    unfinished: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def record_finished(project: Project, seen: Mapping[str, str]) -> Look:
    """Record the checkpoints that are finished.

    `seen` is `unfinished` of the look before. A checkpoint is finished if the file that is written
    last is there and no file of the folder has changed since that look. A recorded checkpoint is
    not looked at again, unless it was deleted before it was evaluated. A problem with one folder or
    training run stops no other one.
    """
    rows = read_checkpoints(project.store)
    recorded = {row.key for row in rows if row.outcome is not CheckpointOutcome.DELETED}
    look = Look()
    for name, run in read_training_runs(project.configuration).items():
        by_step: dict[int, list[UPath]] = defaultdict(list)
        try:
            for step, folder in run.folders(look.problems.append):
                by_step[step].append(folder)
            for step, folders in by_step.items():
                key = partition_key(name, step)
                if key in recorded:
                    continue
                complete = list(filter(run.is_complete, folders))
                look.problems.extend(_left_out(run, step, folders, complete))
                if len(complete) > 1:
                    continue
                state = _state_of(complete[0]) if complete else ""
                if complete and state == seen.get(key):
                    _record(project, name, run, step, complete[0])
                else:
                    look.unfinished[key] = state
        except VideoMMEError as error:
            look.problems.append(f"training run {name} is left out: {error}")
    return look


def _left_out(
    run: TrainingRun, step: int, folders: Sequence[UPath], complete: Sequence[UPath]
) -> list[str]:
    """One sentence per folder that is left out because another one has the same step."""
    if len(complete) > 1:
        return [
            f"{listed(list(map(str, complete)))} are left out: they have the same training step "
            f"{step}. Write one entry per training run in {CHECKPOINTS_FILE}, or name the folders "
            "in `step` (checkpoint-{step})"
        ]
    return [
        f"{folder} is left out: {first} has the same training step {step}, and {run.complete}"
        for first in complete
        for folder in folders
        if folder != first
    ]


def _state_of(folder: UPath) -> str:
    """A hash of the names, sizes and versions of all files in a folder."""
    with listing(folder):
        return fingerprint(ascii(list_objects(folder)))


def _record(project: Project, name: str, run: TrainingRun, step: int, folder: UPath) -> None:
    """Record a checkpoint, for which the configuration then has evaluations."""
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
        for template in map(project.configuration.evaluation, run.templates)
    ]
    write_checkpoint(project.store, rows)


def next_pending(project: Project) -> list[list[Checkpoint]]:
    """The rows of each training run's first pending checkpoint. Later ones are compared with it."""
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

    Raises ConfigurationError if `checkpoints.yaml` has no entry for the training run, and
    ScoringError if there are no scores, or too many questions have no answer.
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
    shown = Results(project.store).find(name)
    if shown is None:
        return []
    try:
        rows = read_rows(shown.path, ScoredQuestion)
    except FileNotFoundError:
        return []
    return rows if rows and rows[0].evaluation_fingerprint == evaluation.fingerprint else []
