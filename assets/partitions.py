"""The partitions of a benchmark's chain, and which parents each one has.

Videos are a dynamic dimension (they come with the annotations). Samplings, tracks and evaluations
are static (they come from the configuration files), since only static dimensions can be mapped
onto each other exactly. An evaluation that takes no frames, or no subtitles, has no parent there.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import dagster as dg

from videomme_pipeline.evaluation import Evaluation


class Dimension(StrEnum):
    """What a partition can be keyed by. In keys of two, Dagster sorts them by name."""

    VIDEO = "video"
    SAMPLING = "sampling"
    TRACK = "track"
    EVALUATION = "evaluation"


DIMENSIONS: Mapping[str, frozenset[Dimension]] = {
    "questions": frozenset(),
    "videos": frozenset({Dimension.VIDEO}),
    "frames": frozenset({Dimension.VIDEO, Dimension.SAMPLING}),
    "subtitles": frozenset({Dimension.VIDEO, Dimension.TRACK}),
    "prompts": frozenset({Dimension.VIDEO, Dimension.EVALUATION}),
    "responses": frozenset({Dimension.VIDEO, Dimension.EVALUATION}),
    "scores": frozenset({Dimension.EVALUATION}),
}
"""What the partitions of each stage of a chain are keyed by."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One partition: a video, a variant (a sampling, track or evaluation), both or neither."""

    video: str | None = None
    variant: str | None = None


def variant_of(evaluation: Evaluation, dimension: Dimension) -> str | None:
    """The variant of `dimension` that an evaluation uses; None where it uses none."""
    match dimension:
        case Dimension.SAMPLING:
            return evaluation.sampling_name if evaluation.sampling else None
        case Dimension.TRACK:
            return evaluation.track_name
        case Dimension.EVALUATION:
            return evaluation.name
        case Dimension.VIDEO:
            raise ValueError("an evaluation uses all videos of its benchmark")


@dataclass(frozen=True)
class Partitions:
    """The partition definitions of one benchmark."""

    benchmark: str
    samplings: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def videos_name(self) -> str:
        """The name under which Dagster keeps the video keys of this benchmark."""
        return f"{self.benchmark}_videos"

    def variants(self, dimension: Dimension) -> tuple[str, ...]:
        """Every variant of a static dimension, sorted."""
        if dimension is Dimension.SAMPLING:
            return tuple(sorted(self.samplings))
        used = (variant_of(evaluation, dimension) for evaluation in self.evaluations)
        return tuple(sorted({variant for variant in used if variant}))

    def definition(self, dimensions: frozenset[Dimension]) -> dg.PartitionsDefinition[str] | None:
        """The definition over `dimensions`; None for none."""
        parts: dict[str, dg.PartitionsDefinition[str]] = {
            dimension.value: self._single(dimension) for dimension in sorted(dimensions)
        }
        if len(parts) > 1:
            return dg.MultiPartitionsDefinition(parts)
        return next(iter(parts.values()), None)

    def parent(
        self, variant: str | None, dimension: Dimension | None, above: Dimension
    ) -> str | None:
        """The variant of `above` that a variant of `dimension` is made from; None without one."""
        if dimension is None or variant is None:
            return None
        return self._parents[dimension, above].get(variant)

    @cached_property
    def _parents(self) -> Mapping[tuple[Dimension, Dimension], Mapping[str, str | None]]:
        """The parent of every variant, by both dimensions."""
        variants = [dimension for dimension in Dimension if dimension is not Dimension.VIDEO]
        return {
            (below, above): {
                child: variant_of(evaluation, above)
                for evaluation in reversed(self.evaluations)
                if (child := variant_of(evaluation, below))
            }
            for below in variants
            for above in variants
        }

    def mapping(
        self, upstream: frozenset[Dimension], downstream: frozenset[Dimension]
    ) -> dg.PartitionMapping | None:
        """Which upstream partitions a downstream partition has as parents.

        None where Dagster's own default (identity, or all of them) is the right one.
        """
        if not upstream or not downstream or upstream == downstream:
            return None
        if upstream < downstream or downstream < upstream:
            shared = next(iter(upstream & downstream))
            return dg.MultiToSingleDimensionPartitionMapping(shared.value)
        (above,) = upstream - {Dimension.VIDEO}
        (below,) = downstream - {Dimension.VIDEO}
        return dg.MultiPartitionMapping(
            {
                "video": dg.DimensionPartitionMapping("video", dg.IdentityPartitionMapping()),
                above.value: dg.DimensionPartitionMapping(
                    below.value, dg.StaticPartitionMapping(self._children(above, below))
                ),
            },
        )

    def _single(self, dimension: Dimension) -> dg.PartitionsDefinition[str]:
        if dimension is Dimension.VIDEO:
            return dg.DynamicPartitionsDefinition(name=self.videos_name)
        return dg.StaticPartitionsDefinition(list(self.variants(dimension)))

    def _children(self, above: Dimension, below: Dimension) -> dict[str, set[str]]:
        children: dict[str, set[str]] = defaultdict(set)
        for evaluation in self.evaluations:
            parent, child = variant_of(evaluation, above), variant_of(evaluation, below)
            if parent and child:
                children[parent].add(child)
        return dict(children)


def partition_key(cell: Cell, variant_dimension: Dimension | None) -> str | None:
    """Dagster's spelling of a cell; None for an asset without partitions."""
    if cell.video is None or cell.variant is None or variant_dimension is None:
        return cell.video or cell.variant
    return dg.MultiPartitionKey({"video": cell.video, variant_dimension.value: cell.variant})


def cell_of(key: str, variant_dimension: Dimension | None, *, per_video: bool) -> Cell:
    """The cell that Dagster spells `key`: "uniform_n-16|001" is a sampling and a video."""
    if not per_video:
        return Cell(variant=key)
    if variant_dimension is None:
        return Cell(video=key)
    variant, _, video = key.partition("|")  # Dagster sorts by name, and "video" is the last
    return Cell(video=video, variant=variant)
