"""A temporary PostgreSQL server on the loopback interface, for tests and measurements."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DEBIAN = Path("/usr/lib/postgresql")
USER = "postgres"


def find_postgres() -> Path | None:
    """Folder with `initdb` and `pg_ctl`, or None if no server is installed."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).resolve().parent
    return max((path.parent for path in DEBIAN.glob("*/bin/pg_ctl")), default=None)


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server with an empty database and return its URL for Dagster."""
    binaries = find_postgres()
    assert binaries is not None, "no PostgreSQL server is installed"
    folder = Path(tempfile.mkdtemp(prefix="videomme-postgres-"))
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, USER)
    data, port = folder / "data", free_port()
    try:
        _run([binaries / "initdb", "-D", data, "-U", USER, "--auth", "trust", "--no-sync"])
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        log = folder / "log"
        _run([binaries / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start"])
        try:
            yield f"postgresql+psycopg2://{USER}@127.0.0.1:{port}/postgres"
        finally:
            _run([binaries / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop"])
    finally:
        shutil.rmtree(folder)


def _run(command: Sequence[str | Path]) -> None:
    words = list(map(str, command))
    if os.geteuid() == 0:
        words = ["runuser", "-u", USER, "--", *words]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
