"""Why a partition is not fresh: what changed, from what to what, and where that began.

`freshness` decides by data versions alone, which is fast and says nothing. Here the events and the
files of partitions that are behind are read, so this is for people who ask, never for a run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

import dagster as dg

from assets.errors import NotReadyError
from assets.partitions import Cell, Dimension
from assets.planning.freshness import Freshness, PartitionState, parents
from assets.stages.base import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG,
    SEVERAL_PARENTS,
    BenchmarkStage,
    Stage,
    Target,
)
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.scoring.statistics.compare import changed_settings
from videomme_pipeline.store import stored_recipe

_EVENTS_AT_A_TIME = 500
_SHOWN_CHARACTERS = 60
_SHOWN_VERSION = 8


class Cause(StrEnum):
    """What can be behind it, the most telling first."""

    FAILED = "failed"
    NEVER_MADE = "never made"
    NEW_BYTES = "new video bytes"
    SETTING = "changed setting"
    CODE_VERSION = "code version"
    FILE = "file gone or outdated"
    UPSTREAM = "upstream"


_ORDER = {cause: place for place, cause in enumerate(Cause)}


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause and what is known of it: a setting with its values, an error, where it began."""

    cause: Cause
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.cause}: {self.detail}" if self.detail else self.cause.value


@dataclass(frozen=True, slots=True)
class _Root:
    """A partition at which a change began."""

    asset: str
    partition: str
    cause: Cause


class Explanation:
    """The reasons of all partitions of one plan, found when they are asked for."""

    def __init__(self, states: Iterable[PartitionState], instance: dg.DagsterInstance) -> None:
        self._states = {(state.stage.asset_key, state.cell): state for state in states}
        self._stages = {state.stage.asset_key: state.stage for state in self._states.values()}
        self._changing: dict[dg.AssetKey, set[Cell]] = defaultdict(set)
        for state in self._states.values():
            if state.will_change:
                self._changing[state.stage.asset_key].add(state.cell)
        self._instance = instance
        self._tags: dict[dg.AssetKey, dict[Cell, Mapping[str, str]]] = {}
        self._reasons: dict[PartitionState, tuple[Reason, ...]] = {}
        self._roots: dict[PartitionState, frozenset[_Root]] = {}

    def reasons(self, state: PartitionState) -> tuple[Reason, ...]:
        """Why a partition is not fresh, the most telling first; none for a fresh one."""
        if state.freshness is Freshness.FRESH:
            return ()
        if state not in self._reasons:
            found = sorted(self._find(state), key=lambda reason: _ORDER[reason.cause])
            self._reasons[state] = tuple(found)
        return self._reasons[state]

    def causes(self) -> dict[str, Counter[Cause]]:
        """How many partitions of each asset are behind, by their most telling cause."""
        counted: dict[str, Counter[Cause]] = defaultdict(Counter)
        for state in self._states.values():
            for reason in self.reasons(state)[:1]:
                counted[state.stage.asset_key.to_user_string()][reason.cause] += 1
        return dict(counted)

    def _find(self, state: PartitionState) -> Iterator[Reason]:
        failed = state.freshness is Freshness.FAILED
        if failed:
            yield Reason(Cause.FAILED, state.reason)
        roots = self._roots_above(state)
        if roots:
            yield Reason(Cause.UPSTREAM, _named(roots))
        recorded = self._recorded(state.stage).get(state.cell)
        if recorded is None:
            if not failed:
                yield Reason(Cause.NEVER_MADE)
            return
        own = list(self._own(state, recorded, is_blocked=bool(roots)))
        yield from own
        if not (own or roots or failed):
            yield Reason(Cause.SETTING, "what it was made of is not stored; now it is another")

    def _own(
        self, state: PartitionState, recorded: Mapping[str, str], *, is_blocked: bool
    ) -> Iterator[Reason]:
        """What changed of a partition since it was made, beside what comes from above."""
        stage = state.stage
        code_version = recorded.get(CODE_VERSION_TAG, stage.code_version)
        if code_version != stage.code_version:
            yield Reason(Cause.CODE_VERSION, f"{code_version} → {stage.code_version}")
        try:
            target = stage.target(state.cell)
        except NotReadyError as error:
            if not is_blocked:
                yield Reason(Cause.FILE, str(error))
            return
        yield from _settings(stage, target)
        version = recorded[DATA_VERSION_TAG]
        if stage.dimensions == {Dimension.VIDEO} and version != target.data_version:
            yield Reason(Cause.NEW_BYTES, _versions(version, target.data_version))
        if state.keeps_version:
            yield Reason(Cause.FILE, str(target.path))
        if not is_blocked:
            yield from _inputs(target, recorded)

    def _behind(self, state: PartitionState) -> Iterator[PartitionState]:
        """The parents of a partition that will change."""
        for key in state.stage.parent_keys:
            changing = self._changing.get(key)
            if not changing:
                continue
            whole = self._states.get((key, Cell()))
            if whole is not None and whole.stands_for_all:
                yield whole
                continue
            for cell in parents(state.stage, state.cell, self._stages[key]):
                if cell in changing:
                    yield self._states[key, cell]

    def _roots_above(self, state: PartitionState) -> frozenset[_Root]:
        if state not in self._roots:
            found = (self._began_at(parent) for parent in self._behind(state))
            self._roots[state] = frozenset(root for roots in found for root in roots)
        return self._roots[state]

    def _began_at(self, state: PartitionState) -> frozenset[_Root]:
        """A partition that has a cause of its own, else what is above it."""
        cause = self.reasons(state)[0].cause
        if cause is Cause.UPSTREAM or (cause is Cause.NEVER_MADE and self._roots_above(state)):
            return self._roots_above(state)
        return frozenset({_Root(state.stage.asset_key.to_user_string(), state.name, cause)})

    def _recorded(self, stage: Stage) -> dict[Cell, Mapping[str, str]]:
        if stage.asset_key not in self._tags:
            states = (s for s in self._states.values() if s.stage is stage)
            behind = {s.cell for s in states if s.freshness is not Freshness.FRESH}
            self._tags[stage.asset_key] = recorded_tags(self._instance, stage, behind)
        return self._tags[stage.asset_key]


def recorded_tags(
    instance: dg.DagsterInstance, stage: Stage, cells: AbstractSet[Cell]
) -> dict[Cell, Mapping[str, str]]:
    """The tags of the newest materialization of each of these partitions of a stage."""
    if not stage.dimensions:
        event = instance.get_latest_materialization_event(stage.asset_key)
        newest = event.asset_materialization if event else None
        return {Cell(): newest.tags} if newest and newest.tags else {}
    by_partition = instance.event_log_storage.get_latest_storage_id_by_partition(
        stage.asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    ids = sorted(number for key, number in by_partition.items() if stage.cell(key) in cells)
    tags: dict[Cell, Mapping[str, str]] = {}
    for start in range(0, len(ids), _EVENTS_AT_A_TIME):
        batch = ids[start : start + _EVENTS_AT_A_TIME]
        found = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=stage.asset_key, storage_ids=batch), limit=len(batch)
        )
        for record in found.records:
            made = record.asset_materialization
            if made is not None and made.partition is not None and made.tags:
                tags[stage.cell(made.partition)] = made.tags
    return tags


def matching(states: Sequence[PartitionState], words: str) -> list[PartitionState]:
    """The partitions that `words` name: a whole partition ("smoke/frames uniform_n-8|001"), an
    asset, a stage, a key, a video, a sampling, a track or an evaluation.

    Raises:
        ConfigurationError: when they name none.
    """
    found = [state for state in states if words in _names(state)]
    if not found:
        known = {name for state in states for name in _names(state)}
        raise ConfigurationError(
            f"no partition, video, sampling, track, evaluation or asset `{words}`: "
            f"{nearest(words, sorted(known)) if known else 'nothing is set up'}"
        )
    return found


def _names(state: PartitionState) -> tuple[str, ...]:
    stage, cell = state.stage, state.cell
    names = (state.name, stage.asset_key.to_user_string(), stage.name, stage.partition_key(cell))
    return tuple(str(name) for name in (*names, cell.video, cell.variant) if name)


def _settings(stage: Stage, target: Target) -> Iterator[Reason]:
    """The settings that are not those which stand in the stored file."""
    if not isinstance(stage, BenchmarkStage) or not stage.settings:
        return
    now, before = stage.recipe(target.cell), stored_recipe(target.path)
    held = {name: before[name] for name in now if name in before}
    if not held:
        return
    for setting in changed_settings(held, {name: now[name] for name in held}):
        yield Reason(Cause.SETTING, f"{setting.key}: {_short(setting.a)} → {_short(setting.b)}")


def _inputs(target: Target, recorded: Mapping[str, str]) -> Iterator[Reason]:
    """Parents that are fresh and have other data than the partition was made of."""
    for key, version in target.inputs.items():
        name = key.to_user_string()
        before = recorded.get(f"{INPUT_DATA_VERSION_TAG}/{name}")
        if before not in (None, SEVERAL_PARENTS, version):
            yield Reason(Cause.UPSTREAM, f"{name} is another, {_versions(str(before), version)}")


def _named(roots: Iterable[_Root]) -> str:
    """Single roots by name, several of one kind by their number."""
    kinds: dict[tuple[str, Cause], list[str]] = defaultdict(list)
    for root in roots:
        kinds[root.asset, root.cause].append(root.partition)
    return "; ".join(
        f"{names[0] if len(names) == 1 else f'{len(names)} of {asset}'} ({cause})"
        for (asset, cause), names in sorted(kinds.items())
    )


def _versions(before: str, now: str) -> str:
    return f"{before[:_SHOWN_VERSION]} → {now[:_SHOWN_VERSION]}"


def _short(value: str | None) -> str:
    text = "none" if value is None else " ".join(value.split())
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
