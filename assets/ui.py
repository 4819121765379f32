"""The process of the Dagster UI. It first ends dead runs, because it has loaded Dagster anyway."""

import runpy
import sys
from datetime import UTC, datetime

from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import end_dead_runs
from videomme_pipeline.errors import VideoMMEError

if __name__ == "__main__":
    try:
        with open_instance() as instance:
            end_dead_runs(instance, datetime.now(UTC))
    except VideoMMEError as error:
        sys.exit(f"Error: {error}")
    runpy.run_module("dagster", run_name="__main__", alter_sys=True)
