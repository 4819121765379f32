"""Nightly runs, which ask the evaluations that `nightly.yaml` tracks again.

Each nightly run of an evaluation is stored as one file and is never repeated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator
from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import stratified_videos
from videomme_pipeline.configuration import read_spec
from videomme_pipeline.errors import ConfigurationError, NotReadyError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.judge.judge import without_judge
from videomme_pipeline.project.answers import asking
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.answers.scores import score_response
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.responses.requests import VideoRequests
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.nightly.assess import Assessment, assess
from videomme_pipeline.scoring.nightly.history import Observation
from videomme_pipeline.scoring.nightly.policy import AlarmSpec
from videomme_pipeline.scoring.scored_question import ObservedQuestion, Outcome, ScoredQuestion
from videomme_pipeline.storage.names import is_part, part_id, record_name, record_of
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_rows, write_rows

NIGHTLY_FILE = "nightly.yaml"


class TrackingSpec(Spec):
    """The entry of one tracked evaluation."""

    videos: int | None = Field(default=None, ge=2)
    """The number of videos, or None for all. The stratified selection is the same in every run."""
    reference: date | None = None
    """The nightly run that others are compared with; None means the ordinary scores."""
    reference_repeats: int = Field(default=1, ge=1, le=10)
    """The number of times that the reference is asked. The first nightly run asks the repeats."""


class NightlySpec(Spec):
    """The content of `nightly.yaml`. Without the file, nothing is tracked."""

    cron: str = "0 2 * * *"
    timezone: str = "UTC"
    since: date | None = None
    """The date of the first possible nightly run."""
    schedule: bool = True
    """False if the schedule is off until it is turned on in the UI."""
    fresh_within_hours: float = Field(default=36.0, ge=1)
    """The age in hours, from the tick of its date, from which the newest run is overdue."""
    evaluations: dict[str, TrackingSpec] = Field(default_factory=dict)
    """The tracked evaluations. An empty entry has the default settings."""
    alarm: AlarmSpec = Field(default_factory=AlarmSpec)

    @field_validator("evaluations", mode="before")
    @classmethod
    def _empty_is_default(cls, value: object) -> object:
        entries = value.items() if isinstance(value, Mapping) else ()
        return {name: entry or {} for name, entry in entries} or value

    @model_validator(mode="after")
    def _has_a_start(self) -> Self:
        if self.evaluations and self.since is None:
            raise ValueError("`since` is missing; set it to the date of the first nightly run")
        return self


def read_nightly(configuration: Configuration) -> NightlySpec:
    """The content of `nightly.yaml`. Raises ConfigurationError if the file has mistakes."""
    spec = read_spec(configuration.folder / NIGHTLY_FILE, NightlySpec)
    for name in spec.evaluations:
        configuration.evaluation(name)
    return spec


def refused_files(configuration: Configuration, benchmark: str | None = None) -> list[str]:
    """The messages about models, evaluation files and the `nightly.yaml` that cannot be used.

    With `benchmark`, files of evaluations of other benchmarks are left out.
    """
    problems = [
        *map(str, configuration.catalog.problems.values()),
        *(
            str(problem)
            for name, problem in configuration.problems.items()
            if benchmark is None or configuration.benchmark_of(name) in (None, benchmark)
        ),
    ]
    try:
        read_nightly(configuration)
    except ConfigurationError as error:
        problems.append(str(error))
    return list(dict.fromkeys(problems))


@dataclass(frozen=True)
class TrackedEvaluation:
    """One tracked evaluation, with its stored nightly runs and their assessment."""

    project: Project
    evaluation: Evaluation
    nightly: NightlySpec

    @property
    def benchmark(self) -> BenchmarkState:
        return self.project.benchmarks[self.evaluation.benchmark]

    @property
    def tracked(self) -> TrackingSpec:
        return self.nightly.evaluations[self.evaluation.name]

    @cached_property
    def videos(self) -> tuple[str, ...]:
        """The videos that every nightly run asks about."""
        questions = self.benchmark.snapshot.questions_of(self.evaluation)
        if self.tracked.videos is None:
            return tuple(questions)
        strata = find_benchmark(self.benchmark.name).strata
        return stratified_videos(questions, self.tracked.videos, strata)

    def path(self, date: str) -> UPath:
        """The file of the nightly run of a date: the best stored one, or its future file."""
        names = self.benchmark.name, self.evaluation.name
        return self.project.store.record_file("nightly_runs", *names, date)

    def is_complete(self, date: str) -> bool:
        """True if the nightly run of a date is stored with an answer to every question."""
        return not _is_missing(self.path(date))

    def observe(self, date: str) -> list[ObservedQuestion]:
        """The rows of a nightly run. Only questions without a stored answer are asked now."""
        return self._observe(self.path(date), date)

    def repeat_reference(self, date: str) -> None:
        """Ask the repeats of the reference that are not stored yet, before the run of `date`.

        After the first nightly run with the current settings, no repeats are asked, because the
        model may have changed since the reference.
        """
        missing = [path for path in self._reference_repeats() if _is_missing(path)]
        if missing and not self._runs_before(date) and _is_missing(self.path(date)):
            for path in missing:
                self._observe(path, record_of(path))

    def _observe(self, path: UPath, name: str) -> list[ObservedQuestion]:
        """The rows that are stored at `path`. Missing answers are asked under `name`."""
        if not _is_missing(path):
            return read_rows(path, ObservedQuestion)
        scored = (
            score_response(self.benchmark, self.evaluation, question, response)
            for question, response in self._ask(name)
        )
        rows = [ObservedQuestion.of(row, name) for row in scored]
        answers = sum(row.outcome is not Outcome.FAILED for row in rows)
        part = part_id(answers, rows) if answers < len(rows) else ""
        write_rows(
            path.with_name(record_name(name, part)),
            rows,
            ObservedQuestion,
            fingerprint=fingerprint("nightly run", self.evaluation.fingerprint, name, self.videos),
            settings=self.evaluation.specification,
        )
        return rows

    def assess(self, date: str) -> Assessment:
        """Compare a stored nightly run with its reference and with the nightly runs in between.

        Raises NotReadyError as `reference`, and ScoringError if nothing can be compared.
        """
        rows = read_rows(self.path(date), ObservedQuestion)
        repeats = [
            Observation(
                name=f"reference repeat {number}",
                rows=[r for r in read_rows(path, ObservedQuestion) if r.video_id in self.videos],
            )
            for number, path in enumerate(self._reference_repeats(), start=2)
            if path.exists()
        ]
        return assess(
            [
                self.reference(),
                *repeats,
                *self._runs_before(date),
                Observation(name=date, rows=rows),
            ],
            self.nightly.alarm,
            tracked=len(self.nightly.evaluations),
            references=1 + len(repeats),
        )

    def reference(self) -> Observation:
        """The rows that nightly runs are compared with: the ordinary scores, or the pinned run.

        Nightly runs use no judge, so the letters that a judge read are removed from the ordinary
        scores. Raises NotReadyError if the rows are missing, or were built with other settings.
        """
        evaluation, pinned = self.evaluation, self.tracked.reference
        shown = Results(self.project.store).find(evaluation.name)
        path, name = shown.path if shown else None, "scores"
        if pinned is not None:
            path, name = self.path(pinned.isoformat()), f"nightly run of {pinned.isoformat()}"
        try:
            stored = [] if path is None else read_rows(path, ScoredQuestion)
        except FileNotFoundError:
            path = None
        if path is None:
            raise NotReadyError(
                f"{evaluation.name}: its reference, the {name}, does not exist; "
                f"run the evaluation once: videomme run {evaluation.name}"
            ) from None
        rows = [without_judge(row) for row in stored if row.video_id in set(self.videos)]
        if not rows or rows[0].evaluation_fingerprint != evaluation.fingerprint:
            raise NotReadyError(
                f"{evaluation.name}: its reference was built with other settings; "
                f"run it again (videomme run {evaluation.name}), or pin a nightly run as "
                "`reference`"
            )
        return Observation(name="reference" if pinned is None else pinned.isoformat(), rows=rows)

    def _reference_repeats(self) -> list[UPath]:
        tracked, names = self.tracked, (self.benchmark.name, self.evaluation.name)
        start = f"{tracked.reference or 'scores'}-{self.evaluation.fingerprint[:8]}"
        return [
            self.project.store.record_file("references", *names, f"{start}-{number}")
            for number in range(2, tracked.reference_repeats + 1)
        ]

    def _runs_before(self, date: str) -> list[Observation]:
        """The nightly runs between the reference and a date that have the current settings."""
        pinned = self.tracked.reference
        first = "" if pinned is None else pinned.isoformat()
        stored = self.project.store.observation_files(self.benchmark.name, self.evaluation.name)
        return [
            Observation(name=record_of(path), rows=rows)
            for path in stored
            if first < record_of(path) < date
            and (rows := read_rows(path, ObservedQuestion))
            and rows[0].evaluation_fingerprint == self.evaluation.fingerprint
        ]

    def _ask(self, date: str) -> Iterator[tuple[Question, Response]]:
        """Yield each question and repeat with its response, or with a failed one."""
        evaluation, responses = self.evaluation, dict[tuple[str, int], Response]()
        self.project.observe_servers([evaluation.name])
        requests, reasons = list[VideoRequests](), dict[str, str]()
        for video_id in self.videos:
            try:
                requests += asking.requests_of(Inputs(self.benchmark, video_id, evaluation))
            except VideoMMEError as error:
                reasons[video_id] = str(error)
        default = "never asked"
        try:
            with asking.open_journal(self.project, evaluation) as journal:
                plan = asking.plan_of(evaluation, date)
                for response in asking.ask_model(
                    self.project, evaluation.model, requests, journal, plan
                ):
                    responses[response.question_id, response.repeat] = response
        except VideoMMEError as error:
            default = str(error)
        for video_id in self.videos:
            questions = self.benchmark.snapshot.questions_of(evaluation)[video_id]
            reason = reasons.get(video_id, default)
            yield from asking.with_failed_ones(evaluation, questions, responses, reason)


def _is_missing(path: UPath) -> bool:
    return is_part(path) or not path.exists()


def tracked_evaluations(project: Project) -> list[TrackedEvaluation]:
    """The evaluations that `nightly.yaml` names."""
    nightly = read_nightly(project.configuration)
    return [
        TrackedEvaluation(project, project.configuration.evaluation(name), nightly)
        for name in nightly.evaluations
    ]


def nightly_date(moment: datetime, timezone: str) -> str:
    """The date in `timezone` of a nightly run that begins at `moment`."""
    return moment.astimezone(ZoneInfo(timezone)).date().isoformat()
