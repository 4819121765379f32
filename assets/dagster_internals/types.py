"""Types that Dagster returns but does not export."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,
)

Job = dg.JobDefinition | UnresolvedAssetJobDefinition
"""What `dg.define_asset_job` returns, or an ordinary job."""
