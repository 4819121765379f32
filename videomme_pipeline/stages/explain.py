"""Reasons why a partition is not fresh: the change, both values, and the partition where it began.

`plan` only computes fingerprints, which is fast. This module also reads the named parts in the
files of partitions that are not fresh: those of the file that the shown scores were computed from,
else those of the stored file that differs least. Commands that show reasons use it; runs do not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, product
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, VideoMMEError, listed
from videomme_pipeline.models.identity import read_identity, shown_differences
from videomme_pipeline.project.state.partitions import WHOLE, Partition
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.statistics.compare import changed_settings
from videomme_pipeline.stages.plan import Freshness, PartitionState, parents, upstream_of
from videomme_pipeline.stages.stage import BenchmarkStage
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.results import MANIFEST, Results
from videomme_pipeline.storage.tables import read_rows, stored_parts

_SHOWN_CHARACTERS = 60
_SHOWN_BEFORE = 20
"""Characters of a long text that are shown before the first difference."""
_SHOWN_VERSION = 8
_FILES_COMPARED = 20
"""The most stored files of a partition whose parts are compared."""


class Cause(StrEnum):
    """The causes of a partition that is not fresh, the most specific cause first."""

    FAILED = "failed"
    NEVER_BUILT = "never built"
    NEW_BYTES = "new video bytes"
    NEW_SUBTITLES = "new subtitle file"
    NEW_QUESTIONS = "new questions"
    SETTING = "changed setting"
    SERVER = "other server"
    CODE_VERSION = "code version"
    ANSWERS = "answers are missing"
    READER_VERSION = "reader version"
    FILE = "file gone or outdated"
    UPSTREAM = "upstream"


_ORDER = {cause: rank for rank, cause in enumerate(Cause)}


@dataclass(frozen=True, slots=True)
class Reason:
    """A cause with its detail: both values of a setting, an error, or where the change began."""

    cause: Cause
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.cause}: {self.detail}" if self.detail else self.cause.value


@dataclass(frozen=True, slots=True)
class _Root:
    """A partition where a change began."""

    asset: str
    partition: str
    cause: Cause


class Explanation:
    """The reasons of all partitions of one plan, computed on demand."""

    def __init__(self, states: Iterable[PartitionState]) -> None:
        self._states = {(state.stage.label, state.partition): state for state in states}
        self._stages = {state.stage.label: state.stage for state in self._states.values()}
        self._changing: dict[str, set[Partition]] = defaultdict(set)
        for state in self._states.values():
            if state.freshness is not Freshness.FRESH:
                self._changing[state.stage.label].add(state.partition)
        self._reasons: dict[PartitionState, tuple[Reason, ...]] = {}
        self._roots: dict[PartitionState, frozenset[_Root]] = {}

    def reasons(self, state: PartitionState) -> tuple[Reason, ...]:
        """The reasons of a partition that is not fresh, the most specific first; () if it is."""
        if state.freshness is Freshness.FRESH:
            return ()
        if state not in self._reasons:
            reasons = sorted(self._find(state), key=lambda reason: _ORDER[reason.cause])
            self._reasons[state] = tuple(reasons)
        return self._reasons[state]

    def causes(self) -> dict[str, Counter[Cause]]:
        """The number of partitions of each asset that are not fresh, by most specific cause."""
        counted: dict[str, Counter[Cause]] = defaultdict(Counter)
        for state in self._states.values():
            if state.freshness is not Freshness.FRESH:
                counted[state.stage.label][self._cause(state)] += 1
        return dict(counted)

    def _cause(self, state: PartitionState) -> Cause:
        """The most specific cause of a partition that is not fresh."""
        stage = state.stage
        if state.freshness is Freshness.MISSING and not (
            isinstance(stage, BenchmarkStage) and self._used_by_scores(stage, state.partition)
        ):  # of a new project, these are all partitions
            return Cause.NEVER_BUILT
        return self.reasons(state)[0].cause

    def _find(self, state: PartitionState) -> Iterator[Reason]:
        failed = state.freshness is Freshness.FAILED
        if failed:
            yield Reason(Cause.FAILED, state.reason)
        roots = self._roots_upstream(state)
        if roots:
            yield Reason(Cause.UPSTREAM, _named(roots))
        stage = state.stage
        if not isinstance(stage, BenchmarkStage):
            if not (roots or failed):
                yield Reason(Cause.FILE if stage.path.exists() else Cause.NEVER_BUILT)
            return
        changes = list(self._changes(stage, state, is_blocked=bool(roots)))
        yield from changes
        if not (changes or roots or failed):
            yield Reason(Cause.NEVER_BUILT)

    def _changes(
        self, stage: BenchmarkStage, state: PartitionState, *, is_blocked: bool
    ) -> Iterator[Reason]:
        """Yield the changes of a partition itself since it was built.

        With `is_blocked`, the caller already reports changes upstream.
        """
        try:
            target = stage.target(state.partition)
        except VideoMMEError as error:
            if not is_blocked and state.freshness is not Freshness.MISSING:
                yield Reason(Cause.FILE, str(error))
            return
        used = self._used_by_scores(stage, state.partition)
        if target.name.fingerprint in used:
            yield Reason(Cause.FILE, str(target.path))
            return
        now = stage.parts(target)
        name, before = self._reference(stage, state.partition, now, used)
        if name is None:
            return
        if name.part is not None and name.fingerprint == target.name.fingerprint:
            if not is_blocked:
                yield Reason(Cause.ANSWERS)
            return
        if not before:
            yield Reason(Cause.SETTING, "the settings changed; the earlier values are not stored")
            return
        changes = list(_differences(stage, now, before, is_blocked=is_blocked))
        if stage.name == "responses":
            changes += _changed_server(stage, state.partition, name)
        yield from changes
        if not changes and not is_blocked:
            yield _only_remaining(stage, name)

    def _used_by_scores(self, stage: BenchmarkStage, partition: Partition) -> list[str]:
        """Fingerprints of the files of a partition that shown scores were computed from."""
        evaluation = None if stage.name == "frames" else partition.variant
        return self._used.get((stage.benchmark.name, stage.name, evaluation, partition.video), [])

    @cached_property
    def _used(self) -> Mapping[tuple[str, str, str | None, str | None], list[str]]:
        """The fingerprints by benchmark, stage, evaluation (or None for all) and video."""
        used: dict[tuple[str, str, str | None, str | None], list[str]] = defaultdict(list)
        columns = {**MANIFEST, "frames": "frames_fingerprint"}
        for shown in self._results.scores():
            for row, (stage, column) in product(shown.manifest, columns.items()):
                video = None if stage == "questions" else row["video_id"]
                for evaluation in (None, shown.evaluation):
                    if row[column]:
                        used[shown.benchmark, stage, evaluation, video].append(row[column])
        return used

    @cached_property
    def _results(self) -> Results:
        stage = next(iter(self._stages.values()))
        return Results(stage.project.store, uses_plan=False)

    def _reference(
        self,
        stage: BenchmarkStage,
        partition: Partition,
        now: Mapping[str, Any],
        used: Sequence[str],
    ) -> tuple[StoredName | None, Mapping[str, Any]]:
        """The stored file that the partition is compared with, and its parts."""
        names = stage.names.by_partition.get((partition.variant, partition.video), [])
        if stage.name == "scores" and (scores := self._results.find(str(partition.variant))):
            used = [scores.name.fingerprint]
        if shown := [name for name in names if name.fingerprint in used[:1]]:
            names = shown
        store = stage.project.store
        candidates = [
            (name, stored_parts(store.built(stage.benchmark.name, stage.name, name)))
            for name in names[:_FILES_COMPARED]
        ]
        return min(
            candidates,
            key=lambda item: len([*_differences(stage, now, item[1], is_blocked=False)]),
            default=(None, {}),
        )

    def _changing_parents(self, state: PartitionState) -> Iterator[PartitionState]:
        """Yield the parents of a partition that will change."""
        for key in upstream_of(state.stage):
            changing = self._changing.get(key)
            if not changing:
                continue
            whole = self._states.get((key, WHOLE))
            if whole is not None and whole.is_whole_stage:
                yield whole
                continue
            for parent in parents(state.stage, state.partition, self._stages[key]):
                if parent in changing:
                    yield self._states[key, parent]

    def _roots_upstream(self, state: PartitionState) -> frozenset[_Root]:
        if state not in self._roots:
            parents_roots = map(self._began_at, self._changing_parents(state))
            self._roots[state] = frozenset(chain.from_iterable(parents_roots))
        return self._roots[state]

    def _began_at(self, state: PartitionState) -> frozenset[_Root]:
        """The partitions where the change of a partition began: the partition itself, or others."""
        cause = self.reasons(state)[0].cause
        upstream = self._roots_upstream(state)
        if upstream and cause in (Cause.UPSTREAM, Cause.NEVER_BUILT, Cause.FAILED):
            return upstream
        return frozenset({_Root(state.stage.label, state.name, cause)})


def matching(states: Sequence[PartitionState], words: str) -> list[PartitionState]:
    """The partitions that `words` select.

    `words` is the full name of a partition ("smoke/frames uniform_n-8|001"), or the name of an
    asset, a stage, a key, a video, a sampling, a track or an evaluation.

    Raises:
        ConfigurationError: if `words` selects no partition.
    """
    selected = [state for state in states if words in _names(state)]
    if not selected:
        by_kind = zip(*map(_names, states), strict=True)
        names = [name for name in dict.fromkeys(chain.from_iterable(by_kind)) if name is not None]
        raise ConfigurationError(
            f"no partition, video, sampling, track, evaluation or asset `{words}`: "
            f"{nearest(words, names) if names else 'no benchmark is configured'}"
        )
    return selected


def _names(state: PartitionState) -> tuple[str | None, ...]:
    """The names that select a partition. A name that selects more partitions comes first."""
    stage, partition = state.stage, state.partition
    return (
        stage.name,
        stage.label,
        partition.variant,
        partition.video,
        stage.key_of(partition),
        state.name,
    )


_CAUSES = {
    ("videos", "content"): Cause.NEW_BYTES,
    ("videos", "subtitle file"): Cause.NEW_SUBTITLES,
    ("subtitles", "subtitle file"): Cause.NEW_SUBTITLES,
    ("scores", "reader"): Cause.READER_VERSION,
}
"""The causes of inputs that no stage builds, by stage and input."""


def _differences(
    stage: BenchmarkStage, now: Mapping[str, Any], before: Mapping[str, Any], *, is_blocked: bool
) -> Iterator[Reason]:
    """Yield what differs between the parts of two fingerprints of one partition.

    With `is_blocked`, changes of stages upstream are left out.
    """
    if before.get("code") != now["code"]:
        yield Reason(Cause.CODE_VERSION, f"{before.get('code')} → {now['code']}")
    settings = list(_changed_settings(now["settings"], before.get("settings", {})))
    yield from settings
    inputs = before.get("inputs", {})
    for name in {**now["inputs"], **inputs}:
        old, new = inputs.get(name), now["inputs"].get(name)
        cause = _CAUSES.get((stage.name, name))
        if old == new or name == "server" or (cause is Cause.READER_VERSION and settings):
            continue
        if cause is Cause.READER_VERSION:
            yield Reason(cause, f"{old} → {new}")
        elif cause is not None:
            yield Reason(cause, _versions(old or "none", new or "none"))
        elif not is_blocked:
            label = f"{stage.benchmark.name}/{name}"
            yield Reason(Cause.UPSTREAM, f"{label} changed, {_versions(str(old), str(new))}")


def _changed_settings(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield the settings that differ from those in the stored file."""
    # A file has no selection of videos if the evaluation selects all videos.
    stored = now.keys() & (before.keys() | Selection.model_fields)
    for setting in changed_settings(
        {name: before.get(name) for name in now if name in stored},
        {name: now[name] for name in now if name in stored},
    ):
        yield Reason(Cause.SETTING, f"{setting.key}: {_change(setting.a, setting.b)}")


def _changed_server(
    stage: BenchmarkStage, partition: Partition, name: StoredName
) -> Iterator[Reason]:
    """Yield the differences between the model's current server and the server that answered."""
    record = stage.project.server_record
    evaluation = stage.benchmark.evaluations[str(partition.variant)]
    server = record.server_of(record.with_server(evaluation.model))
    if server is None:
        return
    path = stage.project.store.built(stage.benchmark.name, stage.name, name)
    with suppress(FileNotFoundError, DamagedFileError):
        for stored in sorted({row.server or "{}" for row in read_rows(path, Response)}):
            if different := read_identity(stored).differences(server.identity):
                yield Reason(Cause.SERVER, shown_differences(different))


def _only_remaining(stage: BenchmarkStage, name: StoredName) -> Reason:
    """The reason of a partition whose code, settings and inputs are the same as before.

    Then only the questions, their answers or the server can have changed.
    """
    if stage.name == "questions":
        return Reason(Cause.NEW_QUESTIONS, _changed_questions(stage, name))
    if stage.name == "responses":
        return Reason(Cause.SERVER)
    return Reason(Cause.NEW_QUESTIONS if stage.name == "scores" else Cause.SETTING)


def _changed_questions(stage: BenchmarkStage, name: StoredName) -> str:
    """The questions that differ from the stored ones, or the versions if they must be fetched."""
    snapshot = stage.benchmark.snapshot
    questions_now = snapshot.source.known_questions()
    if questions_now is None:
        return _versions(name.fingerprint, snapshot.questions_version)
    path = stage.project.store.built(stage.benchmark.name, stage.name, name)
    before = {question.question_id: question for question in read_rows(path, Question)}
    now = {question.question_id: question for question in questions_now}
    parts = {
        "changed": [key for key in now if key in before and now[key] != before[key]],
        "added": [key for key in now if key not in before],
        "removed": [key for key in before if key not in now],
    }
    return "; ".join(f"{listed(ids)} {what}" for what, ids in parts.items() if ids)


def _named(roots: Iterable[_Root]) -> str:
    """One text for all roots: the name of a single root, or the number of roots of one kind."""
    kinds: dict[tuple[str, Cause], list[str]] = defaultdict(list)
    for root in roots:
        kinds[root.asset, root.cause].append(root.partition)
    return "; ".join(
        f"{names[0] if len(names) == 1 else f'{len(names)} of {asset}'} ({cause})"
        for (asset, cause), names in sorted(kinds.items())
    )


def _versions(before: str, now: str) -> str:
    return f"{before[:_SHOWN_VERSION]} → {now[:_SHOWN_VERSION]}"


def _change(before: str | None, now: str | None) -> str:
    """Both values of a setting. Long values are cut to the part where they begin to differ."""
    texts = [("none" if text is None else text).replace("\n", "⏎") for text in (before, now)]
    start = 0
    if max(map(len, texts)) > _SHOWN_CHARACTERS:
        pairs = enumerate(zip(*texts, strict=False))
        differs = next((index for index, (a, b) in pairs if a != b), min(map(len, texts)))
        start = max(0, differs - _SHOWN_BEFORE)
    return " → ".join(_excerpt(text, start) for text in texts)


def _excerpt(text: str, start: int) -> str:
    end = start + _SHOWN_CHARACTERS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
