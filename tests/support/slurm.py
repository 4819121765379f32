"""A Slurm cluster of one node on this machine, as processes of this one. Needs root."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from videomme_pipeline.serving.replicas import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
CAN_RUN = os.geteuid() == 0 and all(
    shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in PROGRAMS
)

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES State=UP MaxTime=INFINITE
PartitionName=urgent Nodes={host} State=UP MaxTime=INFINITE PriorityTier=2
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """A running cluster. Yields the environment variables of its commands."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    file = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    port, node_port = free_ports(2)
    file.write_text(_CONFIGURATION.format(host=host, folder=folder, port=port, node_port=node_port))
    environment = {"SLURM_CONF": str(file), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    with ExitStack() as stack:
        stack.enter_context(_munge(folder))
        for daemon in ("slurmctld", "slurmd"):
            stack.enter_context(_running([daemon, "-D"], folder / f"{daemon}.out", environment))
        _wait_until_idle(environment)
        stack.callback(_end_jobs, environment)
        yield environment


def jobs(*, ended: bool = False) -> list[str]:
    """The jobs that wait or run, and those that have ended, if asked for."""
    states = "all" if ended else "running,pending"
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--states={states}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@contextmanager
def _munge(folder: Path) -> Iterator[None]:
    """The service that authenticates users, for this cluster only. It runs as root with --force."""
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    files = {"key-file": "key", "pid-file": "pid", "seed-file": "seed", "socket": "socket"}
    options = [f"--{option}={folder}/munge.{suffix}" for option, suffix in files.items()]
    command = ["munged", "--foreground", "--force", *options]
    with _running(command, folder / "munged.out", {}):
        end = time.monotonic() + 30
        while not (folder / "munge.socket").is_socket() and time.monotonic() < end:
            time.sleep(0.1)
        yield


@contextmanager
def _running(command: list[str], output: Path, environment: dict[str, str]) -> Iterator[None]:
    variables = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin"} | environment
    with output.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=variables)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_jobs(environment: dict[str, str]) -> None:
    """End all jobs. Their processes would outlive the cluster."""
    for partition in ("test", "urgent"):
        command = ["scancel", f"--partition={partition}"]
        subprocess.run(command, check=True, env=os.environ | environment)
    _wait_until_idle(environment)


def _wait_until_idle(environment: dict[str, str]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        command = ["sinfo", "--noheader", "--format=%T"]
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | environment
        )
        if process.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    raise TimeoutError(f"the Slurm node is not idle: {process.stdout} {process.stderr}")
