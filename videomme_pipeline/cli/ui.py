"""The command ui: the server of the project's code, Dagster's UI and its daemon.

`dagster dev` starts the same processes one after the other and stays beside them, so the UI would
answer twice as late and take 100 MB more.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.context import name_programs, open_project
from videomme_pipeline.cli.output import note
from videomme_pipeline.cli.stopping import interruptible_children, on_stop
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()

_WORKSPACE = "workspace.yaml"
_QUIET = ("--log-level", "warning")
"""The daemon would log a line every ten seconds."""
_END_SECONDS = 30.0
_POLL_SECONDS = 0.1
_LOOK_SECONDS = 10.0
_MISSED_LOOKS = 2
"""A code server has no process with the code while the UI reloads the project."""


@commands.command(epilog="Example: videomme ui --port 3000")
def ui(
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Start the Dagster UI with its schedules and sensors. Ctrl-C stops everything.

    The results page is served, too, for this machine only, at the next port if it is
    free. The asset report_page links to it.

    Exits with status 1 if one of its processes ends, because Dagster could still
    show the UI and run no schedule and no sensor.
    """
    from videomme_pipeline.project import project as projects

    try:
        project = open_project()
    except ConfigurationError:
        if not projects.is_project(projects.configuration_folder()):
            raise
        project = None  # the UI itself shows the error
    if not Path(_WORKSPACE).exists():
        raise ConfigurationError(f"{_WORKSPACE}: no such file; write it with `videomme init`")
    _require_free_port(host, port)
    note(f"Starting the Dagster UI at http://{host}:{port} …")
    # Links lead to this machine unless the public addresses are set.
    environment = {"VIDEOMME_UI": f"http://{host}:{port}"}
    # As in `dagster dev`, only the code server shows an error of the code.
    environment |= {"DAGSTER_IS_DEV_CLI": "1"}
    # Else each thread of the code server keeps the memory of its largest plan.
    environment |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    if project is not None:
        name_programs(project)
        environment[projects.PAGE_VARIABLE] = _serve_page(project.store, port + 1)
    environment |= os.environ | {projects.HOME_VARIABLE: str(projects.dagster_home())}
    processes = _Processes(environment)
    try:
        with on_stop(processes.end, seconds=_END_SECONDS):
            _run(processes, host, port)
        note("Error: a process of the UI has ended: no schedule or sensor runs; start the UI again")
        raise typer.Exit(1)
    finally:
        processes.end()


class _Processes:
    """The processes of the UI, each in a session of its own, and the folder of their sockets."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._running: list[subprocess.Popen[bytes]] = []
        self._is_ending = False
        self._folder = TemporaryDirectory(prefix="videomme-ui-")
        self.folder = Path(self._folder.name)

    def start(self, *arguments: str) -> int:
        """Start a Python module, and return the id of its process."""
        command = [sys.executable, "-m", *arguments]
        with interruptible_children():
            process = subprocess.Popen(command, env=self._environment, start_new_session=True)
        self._running.append(process)
        return process.pid

    def one_ended(self) -> bool:
        """True if a process has ended by itself."""
        return not self._is_ending and any(running.poll() is not None for running in self._running)

    def wait_for(self, condition: "Callable[[], bool]") -> None:
        """Wait for `condition`. Exits with status 1 if a process ends first, which has said why."""
        while not condition():
            if self.one_ended():
                raise typer.Exit(1)
            time.sleep(_POLL_SECONDS)

    def end(self) -> str:
        """End all processes with their children, and return what has ended."""
        self._is_ending, deadline = True, time.monotonic() + _END_SECONDS
        for number in (signal.SIGINT, signal.SIGKILL):
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            for process in self._running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(deadline - time.monotonic(), 0))
        self._folder.cleanup()
        return "The UI, its schedules and its sensors have ended."


def _run(processes: _Processes, host: str, port: int) -> None:
    """Start the processes of the UI, and return when one of them has ended."""
    from videomme_pipeline.configuration import read_yaml

    sockets, commands, locations = list[str](), list[list[str]](), list[object]()
    entries = read_yaml(Path(_WORKSPACE)).get("load_from")
    for entry in entries if entries and isinstance(entries, list) else [None]:
        match entry:
            case {"grpc_server": _}:
                locations.append(entry)
            case {
                "python_module": {
                    "module_name": module,
                    "working_directory": folder,
                    "location_name": name,
                }
            }:
                sockets.append(str(processes.folder / f"{len(sockets)}.socket"))
                locations.append({"grpc_server": {"socket": sockets[-1], "location_name": name}})
                code = ("--module-name", module, "--location-name", name)
                command = ("dagster", "code-server", "start", "--socket", sockets[-1], *_QUIET)
                commands.append([*command, *code, "--working-directory", folder])
            case _:
                raise ConfigurationError(
                    f"{_WORKSPACE}: an entry is neither `grpc_server` nor `python_module` with "
                    "`module_name`, `working_directory` and `location_name`; correct it, or start "
                    f"`dagster dev -w {_WORKSPACE}`"
                )
    workspace, prepared = processes.folder / _WORKSPACE, processes.folder / "prepared"
    workspace.write_text(json.dumps({"load_from": locations}), encoding="utf-8")
    options = ("--workspace", str(workspace))
    listens = ("--host", host, "--port", str(port), "--dagster-log-level", "warning")
    processes.start("videomme_pipeline.assets.ui", str(prepared), *sockets, *options, *listens)
    processes.wait_for(prepared.exists)  # only one process may create the tables of Dagster
    servers = [processes.start(*command) for command in commands]
    processes.wait_for(lambda: _answers(host, port))
    # A fourth process that starts on two cores would delay the answer of the UI.
    processes.start("dagster._daemon", "run", *options, *_QUIET)
    missed = 0
    while missed < _MISSED_LOOKS and not processes.one_ended():
        time.sleep(_LOOK_SECONDS)
        missed = 0 if all(map(_has_code, servers)) else missed + 1


def _has_code(server: int) -> bool:
    """True if the code server with a process id has its child with the code of the project.

    The child ends if it misses the heartbeats of its parent. Only a reload starts it again.
    """
    import psutil

    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(server).children()
        return any(child.cmdline()[3:5] == ["api", "grpc"] for child in children)
    return False


def _answers(host: str, port: int) -> bool:
    with suppress(OSError):
        socket.create_connection((host, port), timeout=1).close()
        return True
    return False


def _require_free_port(host: str, port: int) -> None:
    """Check that the UI can listen. Without its port, it would run a second daemon and no page."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise ConfigurationError(
            f"{host}:{port} cannot be used ({os.strerror(error.errno or 0)}); if this project's UI "
            f"runs there, open http://{host}:{port}, or choose another port with --port"
        ) from error


def _serve_page(store: "Store", port: int) -> str:
    """Serve the stored results page, on `port` if it is free, and return the page's URL."""
    import asyncio

    from videomme_pipeline.reports.server import PageServer

    try:
        server = PageServer(store, port)
    except ConfigurationError:
        server = PageServer(store, 0)
    server.show_stored(store.report())
    threading.Thread(target=asyncio.run, args=[server.serve()], daemon=True).start()
    return server.url
