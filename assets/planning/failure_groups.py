"""Failed partitions, grouped so that each cause is shown once."""

from collections.abc import Iterable
from dataclasses import dataclass

from assets.planning.freshness import Freshness, PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """The partitions of one asset that failed for the same reason."""

    asset: str
    partitions: tuple[str, ...]
    reason: str

    @property
    def title(self) -> str:
        """The only partition, or the number of partitions and their asset."""
        if len(self.partitions) == 1:
            return self.partitions[0]
        return f"{len(self.partitions):,} partitions of {self.asset}"


def failure_groups(states: Iterable[PartitionState]) -> list[FailureGroup]:
    """The failures where they began, in the order of `states`, which must be upstream first.

    A partition that waits for a parent is left out if another failure in the same benchmark began
    without waiting.
    """
    failed = [state for state in states if state.freshness is Freshness.FAILED]
    began = {state.stage.group for state in failed if not state.waits_for_parent}
    partitions: dict[tuple[str, str], list[str]] = {}
    for state in failed:
        if not state.waits_for_parent or state.stage.group not in began:
            asset = state.stage.asset_key.to_user_string()
            partitions.setdefault((asset, state.reason), []).append(state.name)
    return [
        FailureGroup(asset=asset, partitions=tuple(names), reason=reason)
        for (asset, reason), names in partitions.items()
    ]
