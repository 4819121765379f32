"""A temporary PostgreSQL server on the loopback interface, for tests and measurements."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text

from tests.support.ports import free_port
from videomme_pipeline.responses.journal_postgres import SCHEMA

DEBIAN = Path("/usr/lib/postgresql")
USER = "postgres"


def find_postgres() -> Path | None:
    """Folder with `initdb` and `pg_ctl`, or None if no server is installed."""
    program = shutil.which("pg_ctl")
    if program:
        return Path(program).resolve().parent
    return max((path.parent for path in DEBIAN.glob("*/bin/pg_ctl")), default=None)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server with its data in `folder`."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """The URL of its database for Dagster."""
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        folder = self.folder
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        )
        _run([_program("pg_ctl"), *self._data, "-o", options, "-l", folder / "log", "-w", "start"])

    def stop(self) -> None:
        """Stop the server, and end all connections."""
        _run([_program("pg_ctl"), *self._data, "-m", "fast", "-w", "stop"])

    def create(self) -> None:
        authentication = ["-U", USER, "--auth", "trust", "--no-sync"]
        _run([_program("initdb"), *self._data, *authentication])

    @property
    def _data(self) -> list[str | Path]:
        return ["-D", self.folder / "data"]


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running server with an empty database, which is removed after the block."""
    folder = Path(tempfile.mkdtemp(prefix="videomme-postgres-"))
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, USER)
    server = PostgresServer(folder, free_port())
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of a running server with an empty database."""
    with postgres_server() as server:
        yield server.url


def drop_journal(url: str) -> None:
    """Remove the journal from the database."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"drop schema if exists {SCHEMA} cascade"))


def _program(name: str) -> Path:
    folder = find_postgres()
    assert folder is not None, "no PostgreSQL server is installed"
    return folder / name


def _run(command: Sequence[str | Path]) -> None:
    words = list(map(str, command))
    if os.geteuid() == 0:
        words = ["runuser", "-u", USER, "--", *words]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/")
