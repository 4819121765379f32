"""Types that Dagster returns but does not export."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,
)

Job = dg.JobDefinition | UnresolvedAssetJobDefinition
"""An ordinary job, or the return type of `dg.define_asset_job`."""
