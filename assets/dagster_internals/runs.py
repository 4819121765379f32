"""Runs in this process that the UI shows like those that it launches itself.

The public `execute_in_process` records no code location, and the UI leaves such runs out of pages.
"""

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

REPOSITORY = "__repository__"
"""Dagster's name of the repository of a code location with definitions."""
Job = dg.JobDefinition | UnresolvedAssetJobDefinition
"""An ordinary job, or the return type of `dg.define_asset_job`, which Dagster does not export."""


def origin_of(job: dg.JobDefinition, location: str) -> RemoteJobOrigin:
    """The origin that the UI expects on a run of `job` in a code location."""
    code_location = RegisteredCodeLocationOrigin(location)
    return RemoteRepositoryOrigin(code_location, REPOSITORY).get_job_origin(job.name)


def execute(job: dg.JobDefinition, run: dg.DagsterRun, instance: dg.DagsterInstance) -> None:
    """Work on a run of `job` in this process. Raises its errors, or the cause of a `dg.Failure`."""
    try:
        execute_run(InMemoryJob(job), run, instance, raise_on_error=True)
    except dg.Failure as failure:
        if failure.__cause__ is not None:
            raise failure.__cause__ from None
