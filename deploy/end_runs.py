"""End the runs that the code location of compose.yaml executed before its container restarted.

Their processes ended with the container, but the next one cannot see that, so the runs would count
as running, and against the limit of concurrent runs. compose.yaml gives the service its own host
name, and starts this script before anything that executes runs.
"""

import dagster as dg

from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import RunProcess

if __name__ == "__main__":
    here = RunProcess.here(run_id="")
    with open_instance() as instance:
        running = instance.get_runs(
            dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
        )
        for run in running:
            process = RunProcess.of(run)
            if process and process.host == here.host:
                instance.report_run_failed(
                    run, "The container restarted. Everything the run had stored is kept."
                )
