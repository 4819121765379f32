"""`videomme` commands in processes of their own, which tests stop and kill."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import dagster as dg
import psutil
import yaml

from tests.support.model_server import ModelServer
from tests.support.paths import ROOT
from tests.support.projects import SERVED, Copy, write_project_in

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.preloaded"])

VIDEOMME = str(Path(sys.executable).with_name("videomme"))
CONCURRENCY = 2
"""Requests in flight of a project that `write_served_project` wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """Exit status, output and seconds of a command, and the processes that outlived it."""

    status: int
    out: str
    err: str
    seconds: float
    survivors: tuple[str, ...] = ()


class Command:
    """A running `videomme` command of the project in `root`, in its own process group.

    `shell` contains shell commands that change its surroundings, such as `umask 077`.
    """

    def __init__(
        self, root: Path, *arguments: str, shell: str = "true", **environment: str
    ) -> None:
        self._open_outputs()
        self._process: subprocess.Popen[bytes] | _Fork = subprocess.Popen(
            ["sh", "-c", f'{shell} && exec "$0" "$@"', VIDEOMME, *arguments],
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
            cwd=root,
            env=os.environ | environment_of(root) | environment,
        )

    def _open_outputs(self) -> None:
        self._out, self._err = (tempfile.NamedTemporaryFile() for _ in range(2))  # noqa: SIM115

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait until `condition` is true. Return False if the command ended before."""
        while self.is_running:
            if condition():
                return True
            time.sleep(0.005)
        return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command and, as a terminal does for Ctrl-C, to its children."""
        if number is signal.SIGINT:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def finish(self, stdin: str = "") -> ProcessResult:
        """Send `stdin` and wait until the command has ended."""
        began = time.monotonic()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(stdin.encode())
        status = self._process.wait(timeout=300)
        seconds = time.monotonic() - began
        survivors = members_of(self._process.pid)
        out, err = (_content(file) for file in (self._out, self._err))
        return ProcessResult(
            status=status,
            out=out,
            err=err,
            seconds=seconds,
            survivors=survivors,
        )


class QuickCommand(Command):
    """A `Command` that a process forks which has imported everything.

    It starts within milliseconds, so that many can be run and killed. It has no standard input.
    """

    def __init__(self, root: Path, *arguments: str, **environment: str) -> None:
        self._open_outputs()
        variables = os.environ | environment_of(root) | environment
        self._process = _Fork(root, arguments, variables, (self._out.name, self._err.name))


class _Fork:
    """The part of `subprocess.Popen` that `Command` uses, for a forked process."""

    stdin = None

    def __init__(
        self,
        root: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        outputs: Sequence[str],
    ) -> None:
        words = (root, arguments, environment, outputs)
        self._process = _FORKS.Process(target=_run_forked, args=words)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("videomme", timeout)
        return status


def _run_forked(
    root: Path, arguments: Sequence[str], environment: Mapping[str, str], outputs: Sequence[str]
) -> None:
    """Be the `videomme` command with these arguments."""
    from videomme_pipeline.cli.app import main  # noqa: PLC0415 - it is preloaded

    os.setsid()
    os.chdir(root)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate([os.devnull, *outputs]):
        os.dup2(os.open(path, os.O_RDWR), number)
    sys.argv = [VIDEOMME, *arguments]
    main()


def _content(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode()


def run(
    root: Path, *arguments: str, shell: str = "true", stdin: str = "", **environment: str
) -> ProcessResult:
    """Run a command to its end."""
    return Command(root, *arguments, shell=shell, **environment).finish(stdin)


def run_quickly(root: Path, *arguments: str, **environment: str) -> ProcessResult:
    """Run a `QuickCommand` to its end."""
    return QuickCommand(root, *arguments, **environment).finish()


def environment_of(root: Path) -> Mapping[str, str]:
    """The variables that make commands use the project in `root`."""
    return {
        "VIDEOMME_CONFIGURATION": str(root / "configuration"),
        "VIDEOMME_DATA": str(root / "data"),
        "DAGSTER_HOME": str(root / "home"),
        "PYTHONPATH": str(ROOT),
    }


def members_of(group: int) -> tuple[str, ...]:
    """The commands of all living processes of a process group.

    A process without a command was killed, and has given back its memory.
    """
    commands = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            is_member = os.getpgid(process.pid) == group
        except ProcessLookupError:
            continue
        if is_member and process.info["cmdline"]:
            commands.append(" ".join(process.info["cmdline"]))
    return tuple(commands)


def write_served_project(root: Path, server: ModelServer) -> None:
    """Write a project of two evaluations of nine questions each. Two requests are in flight."""
    folder = root / "configuration"
    folder.mkdir(parents=True, exist_ok=True)
    models = {"served": {"base_url": server.base_url, "limits": {"concurrency": CONCURRENCY}}}
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    evaluations = {
        "served": SERVED,
        "served-subtitles": {**SERVED, "subtitles": "window-500"},
    }
    write_project_in(root, Copy(root / "copy"))(evaluations)


def runs_of(root: Path) -> dict[str, dg.DagsterRunStatus]:
    """The status of every Dagster run of a project, by run id, oldest first."""
    with dg.DagsterInstance.local_temp(str(root / "home")) as instance:
        return {run.run_id: run.status for run in reversed(instance.get_runs())}
