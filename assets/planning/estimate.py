"""What a run would do, and what it would take: from what the same work took before.

Every partition that is made notes how long that took and how large its file is (`stage.refresh`).
Nothing is guessed: where no comparable partition was ever made, the answer is not known.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from assets.planning.freshness import Freshness, PartitionState
from assets.stages.base import FILE_BYTES, MAKE_SECONDS, Stage
from videomme_pipeline.errors import VideoMMEError

_LOOKED_AT = 500
"""Materializations of each asset, the newest first, that unit costs come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """What one partition takes on average, over the `partitions` that were measured."""

    seconds: float
    bytes: float
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run would do for one asset.

    `partitions` would be made, `already_stored` only reported to Dagster (the same was made
    before); None where the partitions themselves are not known yet. `seconds` are those of the
    wall clock, `bytes` what is written; None where no comparable partition was measured.
    """

    asset: str
    partitions: int | None
    already_stored: int
    seconds: float | None
    bytes: float | None


def estimate(states: Iterable[PartitionState], instance: dg.DagsterInstance) -> list[Estimate]:
    """One estimate for every asset that has something to make, in the order of the plan."""
    behind: dict[Stage, list[PartitionState]] = defaultdict(list)
    for state in states:
        if state.freshness is not Freshness.FRESH:
            behind[state.stage].append(state)
    return [_estimate(stage, held, instance) for stage, held in behind.items()]


def unit_costs(instance: dg.DagsterInstance, stage: Stage) -> dict[str | None, UnitCost]:
    """What a partition of each variant took, as far as its newest materializations say."""
    found = instance.fetch_materializations(stage.asset_key, limit=_LOOKED_AT)
    measured: dict[str | None, list[tuple[float, float]]] = defaultdict(list)
    for record in found.records:
        event = record.asset_materialization
        if event is None or MAKE_SECONDS not in event.metadata:
            continue
        seconds, size = (event.metadata[name].value for name in (MAKE_SECONDS, FILE_BYTES))
        variant = stage.cell(event.partition).variant if event.partition else None
        measured[variant].append((float(str(seconds)), float(str(size))))
    return {variant: _mean(costs) for variant, costs in measured.items()}


def _estimate(
    stage: Stage, behind: Sequence[PartitionState], instance: dg.DagsterInstance
) -> Estimate:
    asset = stage.asset_key.to_user_string()
    if any(state.stands_for_all for state in behind):
        return Estimate(asset=asset, partitions=None, already_stored=0, seconds=None, bytes=None)
    to_make = [state for state in behind if not _is_stored(state)]
    wanted = Counter(state.cell.variant for state in to_make)
    costs = unit_costs(instance, stage) if wanted else {}
    units = {variant: _unit(stage, variant, costs) for variant in wanted}
    known = {variant: unit for variant, unit in units.items() if unit is not None}
    is_known = len(known) == len(units)
    return Estimate(
        asset=asset,
        partitions=len(to_make),
        already_stored=len(behind) - len(to_make),
        seconds=sum(wanted[v] * unit.seconds for v, unit in known.items()) if is_known else None,
        bytes=sum(wanted[v] * unit.bytes for v, unit in known.items()) if is_known else None,
    )


def _unit(
    stage: Stage, variant: str | None, costs: Mapping[str | None, UnitCost]
) -> UnitCost | None:
    """That of the same variant, else the mean over those that take about as much."""
    if variant in costs:
        return costs[variant]
    alike = [cost for other, cost in costs.items() if stage.takes_as_much(variant, other)]
    partitions = sum(cost.partitions for cost in alike)
    if not partitions:
        return None
    return UnitCost(
        seconds=sum(cost.seconds * cost.partitions for cost in alike) / partitions,
        bytes=sum(cost.bytes * cost.partitions for cost in alike) / partitions,
        partitions=partitions,
    )


def _is_stored(state: PartitionState) -> bool:
    """Whether a run would find what it wants in the store, made under another name or before."""
    if state.waits:
        return False
    try:
        target = state.stage.target(state.cell)
    except VideoMMEError:
        return False
    return state.stage.stored(target) == target.fingerprint


def _mean(costs: Sequence[tuple[float, float]]) -> UnitCost:
    seconds, sizes = zip(*costs, strict=True)
    return UnitCost(
        seconds=sum(seconds) / len(costs), bytes=sum(sizes) / len(costs), partitions=len(costs)
    )
