"""The content of `runs.yaml`: the split of work into runs and steps, and their executor."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from videomme_pipeline.fingerprint import Spec

RUNS_FILE = "runs.yaml"
IN_PROCESS = "dagster.in_process_executor"

SplitStage = Literal["videos", "frames", "subtitles", "prompts", "responses"]
"""A stage with partitions by video."""


class RunsSpec(Spec):
    """The content of `runs.yaml`. Without the file, each backfill is one run."""

    max_partitions_per_run: Mapping[SplitStage, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict
    )
    """The largest number of partitions, by stage, in one run of a backfill and in one step of the
    job `refresh_stale`."""
    executor: str = IN_PROCESS
    """The import path of the Dagster executor of all jobs that Dagster launches, such as
    `dagster.multiprocess_executor` or `dagster_k8s.k8s_job_executor`."""
    executor_config: dict[str, Any] = Field(default_factory=dict)
    """The configuration of the executor."""

    def most_partitions(self, stage: str) -> int | None:
        """The largest number of partitions of a stage in one run or step, or None."""
        return dict[str, int](self.max_partitions_per_run.items()).get(stage)
