"""The smoke benchmark on Dask on this machine: Slurm jobs or two workers, PostgreSQL and S3.

    python -m perf.cluster_demo [--quick] [--no-slurm] [--folder FOLDER]

Whatever is not installed is left out: without Slurm, which needs root here, a scheduler with two
workers is started, without PostgreSQL, runs and answers are in SQLite, and without SeaweedFS,
tables are files. Data and logs are written to FOLDER, by default a temporary folder. The commands
and the evaluations are those of `make demo-offline`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.support import s3_server
from tests.support.commands import VIDEOMME, environment_of
from tests.support.dask_workers import dask_workers
from tests.support.paths import ROOT
from tests.support.postgres_server import find_postgres, running_postgres
from tests.support.slurm import CAN_RUN, slurm
from videomme_pipeline.project.runs.settings import CLUSTER_FILE
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

COMMANDS = (
    ("doctor", "--deep"),
    ("run", "--benchmark", "smoke"),
    ("run", "--benchmark", "smoke"),
)
"""The second run finds everything fresh."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep data and logs in this folder")
    parser.add_argument("--quick", action="store_true", help="2 videos instead of 21")
    parser.add_argument("--no-slurm", action="store_true", help="do without Slurm")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        uses_slurm = CAN_RUN and not arguments.no_slurm
        sys.exit(
            demonstrate(folder.resolve(), stack, is_quick=arguments.quick, uses_slurm=uses_slurm)
        )


def demonstrate(folder: Path, stack: ExitStack, *, is_quick: bool, uses_slurm: bool) -> int:
    """Start the services, run the commands, and return the status of the first that fails."""
    shutil.copytree(ROOT / "assets" / "offline", folder / "configuration", dirs_exist_ok=True)
    if is_quick:
        (folder / "configuration" / "benchmarks.yaml").write_text("smoke: {limit: 2}\n")
    environment = dict(environment_of(folder))
    if find_postgres() is None:
        print("PostgreSQL: not installed, so runs and answers are in SQLite")
    else:
        environment[POSTGRES_VARIABLE] = stack.enter_context(running_postgres())
        print("PostgreSQL: started for runs and answers")
    if not s3_server.CAN_RUN:
        print(f"S3: {s3_server.WHY_NOT}, so tables are files")
    else:
        (objects := folder / "s3").mkdir(exist_ok=True)
        server = stack.enter_context(s3_server.s3_server(objects))
        environment |= s3_server.s3_environment(server.endpoint)
        environment["VIDEOMME_DATA"] = f"s3://{s3_server.BUCKET}/data"
        environment["HOME"] = str(folder)  # for the files that must be on a local disk
        print("S3: SeaweedFS started for all tables")
    os.environ.update(environment)  # the workers, which inherit it, use the same store
    cluster = start_cluster(folder, stack, uses_slurm=uses_slurm)
    (folder / "configuration" / CLUSTER_FILE).write_text(yaml.safe_dump(cluster))
    for command in COMMANDS:
        print(f"\n$ videomme {' '.join(command)}", flush=True)
        ended = subprocess.run([VIDEOMME, *command], cwd=ROOT, check=False)
        if ended.returncode and command[0] != "doctor":
            return ended.returncode
    return 0


def start_cluster(folder: Path, stack: ExitStack, *, uses_slurm: bool) -> dict[str, Any]:
    """The content of `cluster.yaml` for a started cluster. Sets the variables of its commands."""
    if uses_slurm:
        print("Slurm: started with one node; two jobs work on videos")
        (services := folder / "slurm").mkdir(exist_ok=True)
        os.environ.update(stack.enter_context(slurm(services)))
        return {
            "cluster": "dask_jobqueue.SLURMCluster",
            "scale": {"jobs": 2},
            "arguments": {"cores": 1, "memory": "4GB", "interface": "lo"},
            "folder": str(folder / "cluster"),
        }
    print("Slurm: left out, or not installed, or you are not root; Dask has two workers")
    cluster = stack.enter_context(dask_workers(folder / "dask"))
    return {"scheduler": cluster.address}


if __name__ == "__main__":
    main()
