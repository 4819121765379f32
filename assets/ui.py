"""The process of the Dagster UI. It first ends dead runs, which needs this project's code."""

import os
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
    # A new program does not keep the 25 MB of this project's code.
    os.execv(sys.executable, [sys.executable, "-m", "dagster", *sys.argv[1:]])
