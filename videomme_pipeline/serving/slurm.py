"""A replica in a Slurm job, and the process on this machine that is its `Replica`.

    python -m videomme_pipeline.serving.slurm relay SETTINGS
    python -m videomme_pipeline.serving.slurm serve ADDRESS PROGRAM …

`relay` submits the job, which is `serve`, and connects a port of this machine to the engine. So the
URL stays the same when a later job runs on another node. The relay ends with its job, and cancels
the job when it is ended. Both use the file ADDRESS: the relay creates it when the job runs, and
touches it as long as the engine is needed. The job writes the host and port of the engine into it.
"""

import asyncio
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from pydantic import Field

from videomme_pipeline.cluster import slurm as jobs
from videomme_pipeline.cluster.queue import BEAT_SECONDS, Heartbeat, put
from videomme_pipeline.processes.lifeline import ProcessGroup
from videomme_pipeline.serving.engines import LOOPBACK
from videomme_pipeline.serving.replicas import LOST, STOP_SECONDS, Launch, free_ports

ENGINE_PORT = "{port}"
"""Replaced in the command of the engine by a free port of the node."""
ALL_ADDRESSES = "0.0.0.0"
SILENT_RELAY_SECONDS = 180.0
"""A relay that did not touch the file for so long was killed, or its machine was."""
LOOK_SECONDS = 5.0
_ENDED_BY_SLURM = {"BOOT_FAIL", "CANCELLED", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT"}
_CHUNK_BYTES = 2**18
_FILE = "`serve: slurm` in models.yaml"


class ServerJob(jobs.JobSpec):
    """`slurm` in `serve`: the job of each replica, which gets `gpus_per_replica` GPUs.

    A job that waits in the queue for `max_wait_minutes` is canceled.
    """

    max_wait_minutes: int = Field(default=1440, ge=1)

    def check(self, gpus: int) -> str:
        """Slurm's answer if it would start a job. Nothing is started.

        Raises:
            ClusterError: if there is no Slurm here, or it rejects the job.
        """
        return jobs.check_script(self._script("videomme", Path(os.devnull), gpus, []), _FILE)

    def launch(self, launch: Launch, gpus: int) -> Launch:
        """The replica `launch` as a job. Its command has `ENGINE_PORT` instead of a port."""
        self.check(gpus)
        name = f"videomme-{uuid4().hex[:8]}"
        address = _address(launch.log, name)
        settings = {
            "name": name,
            "script": self._script(name, launch.log, gpus, [str(address), *launch.command]),
            "port": launch.port,
            "log": str(launch.log),
            "max_wait_minutes": self.max_wait_minutes,
        }
        command = [sys.executable, "-m", __name__, "relay", json.dumps(settings)]
        return replace(launch, command=command, started=address)

    def _script(self, name: str, log: Path, gpus: int, arguments: Sequence[str]) -> str:
        options = {"gres": f"gpu:{gpus}" if gpus else None, "open-mode": "append"}
        return self.script([__name__, "serve", *arguments], name, log, **options)


async def relay(*, name: str, script: str, port: int, log: str, max_wait_minutes: int) -> int:
    """Run the job until it ends, and return the exit status. The log ends with the reason."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGIO):  # SIGIO: the parent has ended
        asyncio.get_running_loop().add_signal_handler(number, sys.exit, LOST)
    address, waiting_since = _address(Path(log), name), time.monotonic()
    node = shown = ""
    is_relaying = False
    state, reason = "PENDING", "None"
    jobs.cancel(name)  # a relay that was killed left its job
    address.unlink(missing_ok=True)
    try:
        # A job that Slurm ends is not requeued, because restarts are limited.
        submitted = jobs.submit(script, _FILE, "--parsable", "--no-requeue")
        job = submitted.stdout.strip().partition(";")[0]
        while state in jobs.WAITING | jobs.WORKING:
            if state in jobs.WORKING:
                with suppress(OSError):  # the file system is away
                    address.touch()
                    node = address.read_text()
                if node and not is_relaying:
                    is_relaying = True
                    host, _, node_port = node.rpartition(":")
                    await _forward(port, host, int(node_port))
            elif not node and time.monotonic() - waiting_since > 60 * max_wait_minutes:
                reason += f"; no start within {max_wait_minutes} minutes"
                break
            elif shown != reason:
                shown = reason
                _log(f"Slurm job {job}: {jobs.shown_state(state, reason)}")
            await asyncio.sleep(LOOK_SECONDS)
            listed = await asyncio.to_thread(jobs.states, name)
            if listed is not None:  # the controller answers
                state, reason = listed.get(job, ("ENDED", "None"))
        _log(f"Slurm job {job}: {jobs.shown_state(state, reason)}{jobs.shown_end(Path(log))}")
        return LOST if state in _ENDED_BY_SLURM else 1
    finally:
        jobs.cancel(name)
        address.unlink(missing_ok=True)


async def _forward(port: int, host: str, node_port: int) -> None:
    """Accept connections to a port of this machine, and connect them to the engine."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_engine, to_engine = await asyncio.open_connection(
                host, node_port, limit=_CHUNK_BYTES
            )
            await asyncio.gather(copy(reader, to_engine), copy(from_engine, writer))
        except OSError:
            writer.close()  # the client tries again

    await asyncio.start_server(connected, LOOPBACK, port, limit=_CHUNK_BYTES)


def serve(address: Path, command: Sequence[str]) -> int:
    """Run an engine in a job until it ends or its relay does, and return the exit status."""
    (port,) = free_ports(1)
    _log(f"Slurm job {os.environ.get('SLURM_JOB_ID')} runs on {platform.node()}")
    put(address, f"{platform.node()}:{port}".encode())
    program = [argument.replace(ENGINE_PORT, str(port)) for argument in command]
    engine, pulse = ProcessGroup(program, os.environ, sys.stdout.buffer), Heartbeat(address)
    while engine.exit_status is None:
        time.sleep(BEAT_SECONDS)
        if not pulse.look().content or pulse.silent_seconds > SILENT_RELAY_SECONDS:
            engine.stop(STOP_SECONDS)
    return engine.exit_status


def _address(log: Path, name: str) -> Path:
    return log.with_name(f"{name}.address")


def _log(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the output is the log of the replica


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        sys.exit(asyncio.run(relay(**json.loads(sys.argv[2]))))
    sys.exit(serve(Path(sys.argv[2]), sys.argv[3:]))
