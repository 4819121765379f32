"""Partitions of a benchmark's stages. Each one has a video, a variant, both or neither.

A variant is a sampling (frames), a track (subtitles) or an evaluation (prompts, responses,
scores). Each combination has its own class, so a stage never handles a missing part. Those with
a video are many, so they are tuples.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from videomme_pipeline.evaluation.evaluation import Evaluation


class Dimension(StrEnum):
    """One part of a partition key."""

    VIDEO = "video"
    SAMPLING = "sampling"
    TRACK = "track"
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True, order=True)
class Whole:
    """The only partition of an asset without partitions."""

    video: ClassVar[None] = None
    variant: ClassVar[None] = None


class VideoPartition(NamedTuple):
    """One video."""

    video: str
    variant: None = None


@dataclass(frozen=True, slots=True, order=True)
class VariantPartition:
    """One variant, over all videos."""

    variant: str
    video: ClassVar[None] = None


class VideoVariant(NamedTuple):
    """One variant of one video."""

    video: str
    variant: str


Partition = Whole | VideoPartition | VariantPartition | VideoVariant

WHOLE = Whole()


def partition_of(*, video: str | None = None, variant: str | None = None) -> Partition:
    if video is None:
        return WHOLE if variant is None else VariantPartition(variant)
    return VideoPartition(video) if variant is None else VideoVariant(video, variant)


def variant_in(evaluation: Evaluation, dimension: Dimension) -> str | None:
    """The variant of `dimension` that an evaluation uses; None without frames or subtitles."""
    match dimension:
        case Dimension.SAMPLING:
            return evaluation.sampling_name if evaluation.sampling else None
        case Dimension.TRACK:
            return evaluation.track_name
        case Dimension.EVALUATION:
            return evaluation.name
        case Dimension.VIDEO:
            raise ValueError("an evaluation uses all videos of its benchmark")
