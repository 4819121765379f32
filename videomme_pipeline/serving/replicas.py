"""The running servers of one model: equal replicas, each on its own GPUs and port."""

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from logging import getLogger
from pathlib import Path
from random import SystemRandom
from socket import create_server
from textwrap import shorten

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.served import get
from videomme_pipeline.processes.lifeline import ProcessGroup
from videomme_pipeline.serving.engines import LOOPBACK

MAX_RESTARTS = 5
"""Restarts of one replica. A server that dies more often is broken."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
"""Time before a restart. It doubles with each restart."""
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.5
_HEALTH_SECONDS = 2.0
_LOG_TAIL_BYTES = 4096
_ERROR = re.compile(r"^(?:\(.* pid=\d+\) )?[\w.]*(?:Error|Exception):", re.MULTILINE)
"""Start of the error that ended a Python program. vLLM writes the process before it."""
_ERROR_CHARACTERS = 500

_log = getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class Replica:
    """One server, which is started at once: its process group, its log, and its restarts."""

    title: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    log: Path
    restarts: int = 0
    _restart_at: float | None = None

    def __post_init__(self) -> None:
        self.log.unlink(missing_ok=True)
        self._group = self._start()

    @property
    def has_ended(self) -> bool:
        return self._group.exit_status is not None

    @property
    def is_given_up(self) -> bool:
        """True if the server has died too often to be started again."""
        return self.has_ended and self.restarts >= MAX_RESTARTS

    @property
    def is_healthy(self) -> bool:
        """True if it has loaded its weights and answers."""
        address = f"http://{LOOPBACK}:{self.port}/health"
        with suppress(ModelError):
            get(address, None, _HEALTH_SECONDS)
            return not self.has_ended
        return False

    @property
    def last_output(self) -> str:
        """The last line of its log that is not empty, or ""."""
        lines = (line.strip() for line in reversed(self._end_of_log().split("\n")))
        return next(filter(None, lines), "")

    @property
    def exit_report(self) -> str:
        """Exit status, last error or output line, and path of the log."""
        end = self._end_of_log()
        starts = [error.start() for error in _ERROR.finditer(end)]
        error = shorten(end[starts[-1] :], _ERROR_CHARACTERS) if starts else self.last_output
        return (
            f"{self.title} ended with status {self._group.exit_status}; its last output "
            f"was {error!r} (log: {self.log})"
        )

    def _end_of_log(self) -> str:
        with suppress(OSError), self.log.open("rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES, 0))
            # A progress bar writes all its states in one line.
            return log.read().decode(errors="replace").replace("\r", "\n")
        return ""

    def keep_running(self) -> None:
        """Start the replica again after a pause if its process has ended. Call this often."""
        if not self.has_ended or self.is_given_up:
            return
        now = time.monotonic()
        if self._restart_at is None:
            pause = min(FIRST_PAUSE_SECONDS * 2**self.restarts, MAX_PAUSE_SECONDS)
            self._restart_at = now + pause
            _log.warning("%s; starting it again in %g s", self.exit_report, pause)
        elif now >= self._restart_at:
            self._restart_at = None
            self.restarts += 1
            self.stop()
            self._group = self._start()

    def stop(self) -> None:
        self._group.stop(STOP_SECONDS)

    def _start(self) -> ProcessGroup:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            return ProcessGroup(self.command, self.environment, log)


class Replicas:
    """The servers of one model, as `RunningServers`. They still have to load the weights."""

    def __init__(self, replicas: Sequence[Replica], *, weights: str, served_name: str) -> None:
        self.weights, self.served_name = weights, served_name
        self._replicas = replicas
        self._is_closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep_running, name="servers", daemon=True)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"http://{LOOPBACK}:{item.port}/v1" for item in self._replicas)

    @property
    def failure(self) -> str | None:
        if all(replica.is_given_up for replica in self._replicas):
            return self._replicas[-1].exit_report
        return None

    def wait_until_healthy(
        self, limit_seconds: float, on_progress: Callable[[int, int, str], None]
    ) -> None:
        """Wait until all replicas answer, and restart them from then on if they die.

        `on_progress` is that of `ServeSpec.start`. If a replica ends or does not answer within
        `limit_seconds`, all are stopped and ModelError is raised.
        """
        deadline = time.monotonic() + limit_seconds
        with ExitStack() as on_error:
            on_error.callback(self.close)
            while loading := [item for item in self._replicas if not item.is_healthy]:
                if ended := next((item for item in loading if item.has_ended), None):
                    raise ModelError(f"{ended.exit_report}; correct `serve` in models.yaml")
                if time.monotonic() > deadline:
                    late = loading[0]
                    raise ModelError(
                        f"{late.title} does not answer after {limit_seconds:g} s (log: "
                        f"{late.log}); raise `serve: start_seconds`"
                    )
                count = len(self._replicas)
                on_progress(count - len(loading), count, loading[0].last_output)
                time.sleep(_POLL_SECONDS)
            on_error.pop_all()
        self._keeper.start()

    def close(self) -> None:
        self._is_closing.set()
        if self._keeper.is_alive():
            self._keeper.join()
        with ThreadPoolExecutor(len(self._replicas)) as threads:
            list(threads.map(Replica.stop, self._replicas))

    def _keep_running(self) -> None:
        while not self._is_closing.wait(_POLL_SECONDS):
            for replica in self._replicas:
                replica.keep_running()


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback that no process uses now.

    Servers bind them late, so they are below those that systems give to outgoing connections.
    """
    chosen = SystemRandom().sample(range(20_000, 32_768), 1_000)
    return list(islice(filter(_is_free, chosen), count))


def _is_free(port: int) -> bool:
    with suppress(OSError), create_server((LOOPBACK, port)):
        return True
    return False
