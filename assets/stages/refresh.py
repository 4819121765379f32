"""Refresh of the stale partitions of a stage, and the events that report them to Dagster.

Assets and the `refresh_stale` job both call `refresh`, so they report the same events.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

import dagster as dg

from videomme_pipeline.assets.stages.base import AnyStage, Built, Failed, Target
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.project.state.versions import INCOMPLETE

DATA_VERSION_TAG = "dagster/data_version"
CODE_VERSION_TAG = "dagster/code_version"
INPUT_DATA_VERSION_TAG = "dagster/input_data_version"
INPUT_EVENT_POINTER_TAG = "dagster/input_event_pointer"
USER_PROVIDED_TAG = "dagster/data_version_is_user_provided"
SEVERAL_PARENTS = "several"
"""Reported as input version of an asset in which a partition has more than one parent."""
BUILD_SECONDS = "build_seconds"
"""Metadata key of the wall-clock seconds that a partition added to its run."""
FILE_BYTES = "file_bytes"
"""Metadata key of the size of the stored file."""
NOT_SELECTED = "not-selected"
"""The data version of a partition that is not built, because the evaluation does not select its
video. The UI can request such a partition, and a backfill counts a partition without an event as
failed."""


def materialization(
    stage: AnyStage, built: Built[Any], newest: int | None
) -> dg.AssetMaterialization:
    """The event that reports a built partition and the versions of its inputs to Dagster.

    `newest` is the id of the newest event when the build began. Dagster shows a partition as
    unsynced if a later event reports another data version of a parent.
    """
    target = built.target
    version = target.data_version + (INCOMPLETE if built.incomplete else "")
    tags = {
        DATA_VERSION_TAG: version,
        CODE_VERSION_TAG: stage.code_version,
        USER_PROVIDED_TAG: "true",
        **stage.tags(target.partition),
    }
    for parent in stage.parent_keys:
        key = parent.to_user_string()
        tags[f"{INPUT_DATA_VERSION_TAG}/{key}"] = target.inputs.get(parent, SEVERAL_PARENTS)
        tags[f"{INPUT_EVENT_POINTER_TAG}/{key}"] = "NULL" if newest is None else str(newest)
    return dg.AssetMaterialization(
        asset_key=stage.asset_key,
        partition=stage.key_of_partition(target.partition),
        tags=tags,
        metadata=dict(built.metadata),
    )


def _not_selected(stage: AnyStage, partition: Partition) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        asset_key=stage.asset_key,
        partition=stage.key_of_partition(partition),
        tags={DATA_VERSION_TAG: NOT_SELECTED, USER_PROVIDED_TAG: "true"},
        metadata={"selected": False},
    )


def _measured(built: Built[Any], seconds: float) -> Built[Any]:
    """`built` with its time and size in the metadata, for estimates of later runs."""
    path = built.target.path
    size = path.stat().st_size if path.exists() else 0
    measures = {BUILD_SECONDS: round(seconds, 4), FILE_BYTES: size}
    return replace(built, metadata={**built.metadata, **measures})


def refresh(
    stage: AnyStage,
    requested: Sequence[Partition],
    recorded: Mapping[Partition, str],
    newest: int | None,
    *,
    report_fresh: bool = False,
) -> Iterator[dg.AssetMaterialization]:
    """Build the stale partitions among `requested`, and yield an event once each is stored.

    `recorded` contains the data versions of Dagster's newest materializations. `newest` is the id
    of Dagster's newest event. A partition that is already stored is only reported, with the
    metadata of the stored file, unless the file is damaged. With `report_fresh`, fresh partitions
    are reported too, because a backfill counts a partition without an event as failed. Failed
    partitions get no event; `stage.failures` has the reasons.
    """
    began = monotonic()
    failures: dict[Partition, str] = {
        failed.partition: failed.reason for failed in stage.prepare(requested)
    }
    prepared = monotonic() - began
    stale: list[Target[Any]] = []
    stored: dict[Partition, Target[Any]] = {}
    for partition in requested:
        if partition in failures:
            continue
        if not stage.selects(partition):
            yield _not_selected(stage, partition)
            continue
        try:
            target = stage.target(partition)
        except VideoMMEError as error:
            failures[partition] = str(error)
            continue
        if stage.stored(target) != target.fingerprint:
            stale.append(target)
        elif report_fresh or recorded.get(partition) != target.data_version:
            stored[partition] = target
    described_stored = stage.describe(list(stored.values())) if stored else ()
    for number, described in enumerate(described_stored, start=1):
        count = f"{number:,} of {len(stored):,}"
        registered = f"{count} stored partitions of {stage.name} are registered."
        stage.show(f"{stage.name} already stored", number, len(stored), registered)
        if isinstance(described, Failed):
            stale.append(stored[described.partition])
            continue
        metadata = {**described.metadata, "already_stored": True}
        yield materialization(stage, replace(described, metadata=metadata), newest)
    began = monotonic() - prepared
    for result in stage.build(stale) if stale else ():
        if isinstance(result, Failed):
            failures[result.partition] = result.reason
            continue
        seconds = monotonic() - began
        began += seconds
        yield materialization(stage, _measured(result, seconds), newest)
    stage.failures.update(requested, failures)
    stage.invalidate()
