"""Dagster's partitions of a benchmark's stages, and the parents of each partition.

Videos are a dynamic dimension, because the annotations list them. Samplings, tracks and
evaluations are static dimensions, because the configuration files list them. Only static dimensions
can be mapped onto each other exactly. A partition of an evaluation that uses no frames or no
subtitles has no parent in that stage.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import dagster as dg

from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, variant_in


@dataclass(frozen=True)
class Partitions:
    """The partition definitions of one benchmark."""

    benchmark: str
    samplings: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    prefix: str = ""

    @classmethod
    def of(cls, benchmark: BenchmarkState, prefix: str = "") -> "Partitions":
        return cls(
            benchmark=benchmark.name,
            samplings=tuple(benchmark.samplings),
            evaluations=tuple(benchmark.evaluations.values()),
            prefix=prefix,
        )

    @property
    def videos_name(self) -> str:
        """Dagster's name of the dynamic partitions of this benchmark's videos."""
        return f"{self.prefix}{self.benchmark}_videos"

    def variants(self, dimension: Dimension) -> tuple[str, ...]:
        """Every variant of a static dimension, sorted."""
        if dimension is Dimension.SAMPLING:
            return tuple(sorted(self.samplings))
        used = (variant_in(evaluation, dimension) for evaluation in self.evaluations)
        return tuple(sorted({variant for variant in used if variant}))

    def definition(self, dimensions: frozenset[Dimension]) -> dg.PartitionsDefinition[str] | None:
        """The definition over `dimensions`, or None if there are none."""
        parts: dict[str, dg.PartitionsDefinition[str]] = {
            dimension.value: self._single(dimension) for dimension in sorted(dimensions)
        }
        if len(parts) > 1:
            return dg.MultiPartitionsDefinition(parts)
        return next(iter(parts.values()), None)

    def parent(
        self, variant: str | None, dimension: Dimension | None, upstream: Dimension
    ) -> str | None:
        """The variant of `upstream` that a variant of `dimension` is built from, or None."""
        if dimension is None or variant is None:
            return None
        return self._parents[dimension, upstream].get(variant)

    @cached_property
    def _parents(self) -> Mapping[tuple[Dimension, Dimension], Mapping[str, str | None]]:
        """The parent of every variant, by downstream and upstream dimension."""
        variants = [dimension for dimension in Dimension if dimension is not Dimension.VIDEO]
        return {
            (downstream, upstream): {
                child: variant_in(evaluation, upstream)
                for evaluation in reversed(self.evaluations)
                if (child := variant_in(evaluation, downstream))
            }
            for downstream in variants
            for upstream in variants
        }

    def mapping(
        self, upstream: frozenset[Dimension], downstream: frozenset[Dimension]
    ) -> dg.PartitionMapping | None:
        """The upstream partitions that a downstream partition is built from.

        None if Dagster's default (identity, or all partitions) is right.
        """
        if not upstream or not downstream or upstream == downstream:
            return None
        if upstream < downstream or downstream < upstream:
            shared = next(iter(upstream & downstream))
            return dg.MultiToSingleDimensionPartitionMapping(shared.value)
        (parents,) = upstream - {Dimension.VIDEO}
        (children,) = downstream - {Dimension.VIDEO}
        return dg.MultiPartitionMapping(
            {
                "video": dg.DimensionPartitionMapping("video", dg.IdentityPartitionMapping()),
                parents.value: dg.DimensionPartitionMapping(
                    children.value, dg.StaticPartitionMapping(self._children(parents, children))
                ),
            },
        )

    def _single(self, dimension: Dimension) -> dg.PartitionsDefinition[str]:
        if dimension is Dimension.VIDEO:
            return dg.DynamicPartitionsDefinition(name=self.videos_name)
        return dg.StaticPartitionsDefinition(list(self.variants(dimension)))

    def _children(self, upstream: Dimension, downstream: Dimension) -> dict[str, set[str]]:
        """The variants of `downstream` that are built from each variant of `upstream`."""
        children: dict[str, set[str]] = defaultdict(set)
        for evaluation in self.evaluations:
            parent, child = variant_in(evaluation, upstream), variant_in(evaluation, downstream)
            if parent and child:
                children[parent].add(child)
        return dict(children)
