"""Reasons why a partition is not fresh: the change, both values, and the partition where it began.

`plan` only computes fingerprints, which is fast. This module also reads the named parts in the
files of partitions that are not fresh: those of the file that the shown scores were computed from,
else those of the stored file that differs least. Commands that show reasons use it; runs do not.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from itertools import chain, product
from typing import Any

from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, VideoMMEError
from videomme_pipeline.models.identity import read_identity, shown_differences
from videomme_pipeline.project.state.partitions import WHOLE, Partition
from videomme_pipeline.responses.response import Response
from videomme_pipeline.stages.plan import Freshness, PartitionState, parents
from videomme_pipeline.stages.stage import BenchmarkStage, key_of
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


_ORDER = list(Cause)


@dataclass(frozen=True, slots=True)
class Reason:
    """A cause with its detail: both values of a setting, an error, or where the change began."""

    cause: Cause
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.cause}: {self.detail}" if self.detail else self.cause.value


class Explanation:
    """The reasons of all partitions of one plan, computed on demand."""

    def __init__(self, states: Sequence[PartitionState]) -> None:
        self._states = states
        self._stages = {state.stage.label: state.stage for state in states}
        self.reasons: Callable[[PartitionState], tuple[Reason, ...]] = cache(self._reasons_of)
        self._roots: Callable[[PartitionState], frozenset[PartitionState]] = cache(self._roots_of)

    def _reasons_of(self, state: PartitionState) -> tuple[Reason, ...]:
        """The reasons of a partition that is not fresh, the most specific first; () if it is."""
        if state.freshness is Freshness.FRESH:
            return ()
        reasons = list(self._find(state)) or [Reason(Cause.NEVER_BUILT)]
        return tuple(sorted(reasons, key=lambda reason: _ORDER.index(reason.cause)))

    def causes(self) -> dict[str, Counter[Cause]]:
        """The number of partitions of each asset that are not fresh, by most specific cause."""
        counted: dict[str, Counter[Cause]] = defaultdict(Counter)
        for state in self._states:
            if state.freshness is not Freshness.FRESH:
                counted[state.stage.label][self._cause(state)] += 1
        return dict(counted)

    def _cause(self, state: PartitionState) -> Cause:
        stage = state.stage
        if state.freshness is Freshness.MISSING and not (
            isinstance(stage, BenchmarkStage)
            and self._used  # empty for a new project, most of whose partitions are missing
            and self._used_by_scores(stage, state.partition)
        ):
            return Cause.NEVER_BUILT
        return self.reasons(state)[0].cause

    def _find(self, state: PartitionState) -> Iterator[Reason]:
        failed = state.freshness is Freshness.FAILED
        if failed:
            yield Reason(Cause.FAILED, state.reason)
        roots = self._roots(state)
        if roots:
            yield Reason(Cause.UPSTREAM, self._named(roots))
        stage = state.stage
        if not isinstance(stage, BenchmarkStage):
            if not (roots or failed) and stage.path.exists():
                yield Reason(Cause.FILE)
        elif not state.is_whole_stage:  # its partitions, and so their fingerprints, are not known
            yield from self._changes(stage, state, is_blocked=bool(roots))

    def _changes(
        self, stage: BenchmarkStage, state: PartitionState, *, is_blocked: bool
    ) -> Iterator[Reason]:
        """Yield the changes since the partition was built; without those upstream if blocked."""
        try:
            target = stage.target(state.partition)
        except VideoMMEError as error:
            if not is_blocked and state.freshness is not Freshness.MISSING:
                yield Reason(Cause.FILE, str(error))
            return
        used = self._used_by_scores(stage, state.partition)
        if target.name.fingerprint in used:
            yield Reason(Cause.FILE, str(stage.path_of(target)))
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
            versions = _versions(name.fingerprint, target.name.fingerprint)
            detail = versions if stage.name == "questions" else ""
            yield Reason(_REMAINING.get(stage.name, Cause.SETTING), detail)

    def _used_by_scores(self, stage: BenchmarkStage, partition: Partition) -> list[str]:
        """Fingerprints of the files of a partition that shown scores were computed from."""
        evaluation = None if stage.name == "frames" else partition.variant
        return self._used.get((stage.benchmark.name, stage.name, evaluation, partition.video), [])

    @cached_property
    def _used(self) -> Mapping[tuple[str, str, str | None, str | None], list[str]]:
        """The fingerprints by benchmark, stage, evaluation (or None for all) and video."""
        used: dict[tuple[str, str, str | None, str | None], list[str]] = defaultdict(list)
        for shown in self._results.scores():
            for row, (stage, column) in product(shown.manifest, MANIFEST.items()):
                video = None if stage == "questions" else row["video_id"]
                for evaluation in (None, shown.evaluation):
                    if row[column]:
                        used[shown.benchmark, stage, evaluation, video].append(row[column])
        return used

    @cached_property
    def _results(self) -> Results:
        return Results(next(iter(self._stages.values())).project.store, uses_plan=False)

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

    @cached_property
    def _by_partition(self) -> Mapping[tuple[str, Partition], PartitionState]:
        return {(state.stage.label, state.partition): state for state in self._states}

    def _changing_parents(self, state: PartitionState) -> Iterator[PartitionState]:
        for label in state.stage.upstream:
            if label in self._stages:
                partitions = parents(state.stage, state.partition, self._stages[label])
                for partition in {WHOLE, *partitions}:  # WHOLE if the partitions are not known yet
                    parent = self._by_partition.get((label, partition))
                    if parent is not None and parent.freshness is not Freshness.FRESH:
                        yield parent

    def _roots_of(self, state: PartitionState) -> frozenset[PartitionState]:
        """The partitions upstream where the change of a partition began."""
        roots = map(self._began_at, self._changing_parents(state))
        return frozenset(chain.from_iterable(roots))

    def _began_at(self, state: PartitionState) -> frozenset[PartitionState]:
        """The partitions where the change of a partition began: the partition itself, or others."""
        cause = self.reasons(state)[0].cause
        upstream = self._roots(state)
        if upstream and cause in (Cause.UPSTREAM, Cause.NEVER_BUILT, Cause.FAILED):
            return upstream
        return frozenset({state})

    def _named(self, roots: Iterable[PartitionState]) -> str:
        kinds: dict[tuple[str, Cause], list[str]] = defaultdict(list)
        for root in roots:
            kinds[root.stage.label, self.reasons(root)[0].cause].append(root.name)
        return "; ".join(
            f"{names[0] if len(names) == 1 else f'{len(names)} of {asset}'} ({cause})"
            for (asset, cause), names in sorted(kinds.items())
        )


def matching(states: Sequence[PartitionState], words: str) -> list[PartitionState]:
    """The partitions that `words` select. Raises ConfigurationError if there are none.

    `words` is the full name of a partition ("smoke/frames uniform_n-8|001"), or the name of an
    asset, a stage, a key, a video, a sampling, a track or an evaluation.
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
        key_of(partition),
        state.name,
    )


_CAUSES = {
    ("videos", "content"): Cause.NEW_BYTES,
    ("videos", "subtitle file"): Cause.NEW_SUBTITLES,
    ("subtitles", "subtitle file"): Cause.NEW_SUBTITLES,
    ("scores", "reader"): Cause.READER_VERSION,
}
"""The causes of inputs that no stage builds, by stage and input."""
_REMAINING = {
    "questions": Cause.NEW_QUESTIONS,
    "responses": Cause.SERVER,
    "scores": Cause.NEW_QUESTIONS,
}
"""The cause if code, settings and named inputs are the same as before, by stage."""


def _differences(
    stage: BenchmarkStage, now: Mapping[str, Any], before: Mapping[str, Any], *, is_blocked: bool
) -> Iterator[Reason]:
    """Yield what differs in two fingerprints' parts; without stages upstream if blocked."""
    from videomme_pipeline.scoring.statistics.compare import changed_settings  # noqa: PLC0415 - SciPy

    if before.get("code") != now["code"]:
        yield Reason(Cause.CODE_VERSION, f"{before.get('code')} → {now['code']}")
    settings = changed_settings(before.get("settings", {}), now["settings"])
    for setting in settings:
        yield Reason(Cause.SETTING, f"{setting.key}: {_change(setting.a, setting.b)}")
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
    end = start + _SHOWN_CHARACTERS
    return " → ".join(
        f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}" for text in texts
    )
