"""Reasons why a partition is not fresh: the change, both values, and the partition where it began.

`freshness` only compares data versions, which is fast. This module also reads the events and files
of partitions that are not fresh. Commands that show reasons use it; runs do not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import dagster as dg

from videomme_pipeline.assets.instance import History
from videomme_pipeline.assets.planning.freshness import (
    Freshness,
    PartitionState,
    parents,
    recorded_tags,
)
from videomme_pipeline.assets.stages.base import AnyStage, BenchmarkStage, Target
from videomme_pipeline.assets.stages.questions import Questions
from videomme_pipeline.assets.stages.refresh import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG,
    SEVERAL_PARENTS,
)
from videomme_pipeline.assets.stages.responses import Responses
from videomme_pipeline.assets.stages.scores import READER_VERSION_TAG, Scores
from videomme_pipeline.assets.stages.subtitles import Subtitles
from videomme_pipeline.assets.stages.videos import Videos
from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, VideoMMEError, listed
from videomme_pipeline.models.identity import read_identity, shown_differences
from videomme_pipeline.project.state.partitions import WHOLE, Partition, VideoPartition
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.statistics.compare import changed_settings
from videomme_pipeline.storage.tables import read_rows, stored_settings

_SHOWN_CHARACTERS = 60
_SHOWN_BEFORE = 20
"""Characters of a long text that are shown before the first difference."""
_SHOWN_VERSION = 8


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

    def __init__(self, states: Iterable[PartitionState], history: History) -> None:
        self._states = {(state.stage.asset_key, state.partition): state for state in states}
        self._stages = {state.stage.asset_key: state.stage for state in self._states.values()}
        self._changing: dict[dg.AssetKey, set[Partition]] = defaultdict(set)
        for state in self._states.values():
            if state.will_change:
                self._changing[state.stage.asset_key].add(state.partition)
        self._history = history
        self._tags: dict[dg.AssetKey, dict[Partition, Mapping[str, str]]] = {}
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
        if state.freshness is Freshness.MISSING:  # of a new project, these are all partitions
            return Cause.NEVER_BUILT
        return self.reasons(state)[0].cause

    def _find(self, state: PartitionState) -> Iterator[Reason]:
        failed = state.freshness is Freshness.FAILED
        if failed:
            yield Reason(Cause.FAILED, state.reason)
        roots = self._roots_upstream(state)
        if roots:
            yield Reason(Cause.UPSTREAM, _named(roots))
        recorded = self._recorded(state.stage).get(state.partition)
        if recorded is None:
            if not failed:
                yield Reason(Cause.NEVER_BUILT)
            return
        changes = list(self._changes(state, recorded, is_blocked=bool(roots)))
        yield from changes
        if not (changes or roots or failed):
            yield _only_remaining(state, recorded)

    def _changes(
        self, state: PartitionState, recorded: Mapping[str, str], *, is_blocked: bool
    ) -> Iterator[Reason]:
        """Yield the changes of a partition itself since it was built.

        With `is_blocked`, the caller already reports changes upstream.
        """
        stage = state.stage
        # The versions of readers follow after a space. They are a reason of their own.
        now = stage.code_version.partition(" ")[0]
        before = recorded.get(CODE_VERSION_TAG, now).partition(" ")[0]
        if before != now:
            yield Reason(Cause.CODE_VERSION, f"{before} → {now}")
        try:
            target = stage.target(state.partition)
        except VideoMMEError as error:
            if not is_blocked:
                yield Reason(Cause.FILE, str(error))
            return
        settings = list(_changed_settings(stage, target))
        yield from settings
        if isinstance(stage, Videos):
            yield from _changed_video(stage, target, recorded[DATA_VERSION_TAG])
        elif state.keeps_version:
            yield Reason(Cause.FILE, str(target.path))
        if isinstance(stage, Responses):
            yield from _changed_server(stage, target)
        if not settings:
            yield from _changed_reader(stage, target, recorded)
        if not is_blocked:
            yield from _changed_inputs(stage, target, recorded)

    def _changing_parents(self, state: PartitionState) -> Iterator[PartitionState]:
        """Yield the parents of a partition that will change."""
        for key in state.stage.parent_keys:
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
        if cause is Cause.UPSTREAM or (cause is Cause.NEVER_BUILT and self._roots_upstream(state)):
            return self._roots_upstream(state)
        return frozenset({_Root(state.stage.label, state.name, cause)})

    def _recorded(self, stage: AnyStage) -> dict[Partition, Mapping[str, str]]:
        if stage.asset_key not in self._tags:
            states = (s for s in self._states.values() if s.stage is stage)
            not_fresh = {s.partition for s in states if s.freshness is not Freshness.FRESH}
            self._tags[stage.asset_key] = dict(recorded_tags(self._history, stage, not_fresh))
        return self._tags[stage.asset_key]


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
        stage.key_of_partition(partition),
        state.name,
    )


def _changed_settings(stage: AnyStage, target: Target[Any]) -> Iterator[Reason]:
    """Yield the settings that differ from those in the stored file."""
    if not isinstance(stage, BenchmarkStage) or not stage.settings:
        return
    now, before = stage.settings_of(target.partition.variant), stored_settings(target.path)
    if not before:
        return
    # A file has no selection of videos if the evaluation selects all videos.
    stored = now.keys() & (before.keys() | Selection.model_fields)
    for setting in changed_settings(
        {name: before.get(name) for name in now if name in stored},
        {name: now[name] for name in now if name in stored},
    ):
        yield Reason(Cause.SETTING, f"{setting.key}: {_change(setting.a, setting.b)}")


def _changed_video(
    stage: Videos, target: Target[VideoPartition], recorded: str
) -> Iterator[Reason]:
    """Yield the changes of a video's files since the video was probed."""
    if recorded != target.data_version:
        yield Reason(Cause.NEW_BYTES, _versions(recorded, target.data_version))
    snapshot, video_id = stage.benchmark.snapshot, target.partition.video
    video = snapshot.videos.get(video_id)
    if video is None:
        yield Reason(Cause.FILE, str(target.path))
    elif video.subtitle_hash != snapshot.subtitle_hash(video_id):
        hashes = (video.subtitle_hash, snapshot.subtitle_hash(video_id))
        yield Reason(Cause.NEW_SUBTITLES, _versions(*(digest or "none" for digest in hashes)))


def _changed_server(stage: Responses, target: Target[Any]) -> Iterator[Reason]:
    """Yield the differences between the model's current server and the server that answered."""
    record = stage.project.server_record
    evaluation = stage.benchmark.evaluations[target.partition.variant]
    server = record.server_of(record.with_server(evaluation.model))
    if server is None:
        return
    with suppress(FileNotFoundError, DamagedFileError):
        for stored in sorted({row.server or "{}" for row in read_rows(target.path, Response)}):
            if different := read_identity(stored).differences(server.identity):
                yield Reason(Cause.SERVER, shown_differences(different))


def _changed_reader(
    stage: AnyStage, target: Target[Any], recorded: Mapping[str, str]
) -> Iterator[Reason]:
    """Yield the version of the answer reader, if it differs from the recorded one."""
    if isinstance(stage, Scores) and READER_VERSION_TAG in recorded:
        before, now = recorded[READER_VERSION_TAG], stage.reader_version(target.partition)
        if before != now:
            yield Reason(Cause.READER_VERSION, f"{before} → {now}")


def _only_remaining(state: PartitionState, recorded: Mapping[str, str]) -> Reason:
    """The reason of a partition whose code, settings and parents are the same as before.

    Then only the source of the questions, or the subtitle file of subtitle lines, can have changed.
    """
    stage = state.stage
    if isinstance(stage, Questions):
        return Reason(Cause.NEW_QUESTIONS, _changed_questions(stage, recorded))
    if isinstance(stage, Subtitles):
        return Reason(Cause.NEW_SUBTITLES)
    return Reason(Cause.SETTING, "the settings changed; the earlier values are not stored")


def _changed_questions(stage: Questions, recorded: Mapping[str, str]) -> str:
    """The questions that differ from the stored ones, or the versions if they must be fetched."""
    snapshot = stage.benchmark.snapshot
    questions_now = snapshot.source.known_questions()
    if questions_now is None:
        return _versions(recorded[DATA_VERSION_TAG], stage.target(WHOLE).data_version)
    before = {q.question_id: q for questions in snapshot.questions.values() for q in questions}
    now = {question.question_id: question for question in questions_now}
    parts = {
        "changed": [key for key in now if key in before and now[key] != before[key]],
        "added": [key for key in now if key not in before],
        "removed": [key for key in before if key not in now],
    }
    return "; ".join(f"{listed(ids)} {what}" for what, ids in parts.items() if ids)


def _changed_inputs(
    stage: AnyStage, target: Target[Any], recorded: Mapping[str, str]
) -> Iterator[Reason]:
    """Yield the parents whose data version differs from the one used for the partition."""
    for key, version in target.inputs.items():
        name = key.to_user_string()
        before = recorded.get(f"{INPUT_DATA_VERSION_TAG}/{name}")
        if before not in (None, SEVERAL_PARENTS, version):
            label = name.removeprefix(stage.project.runs.prefix)
            yield Reason(Cause.UPSTREAM, f"{label} changed, {_versions(str(before), version)}")


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
