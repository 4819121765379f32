"""PgBouncer is refused, and an absent server is one sentence."""

import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from urllib.parse import urlsplit

import pytest

from tests.support.ports import free_port, wait_until_open
from tests.support.postgres_server import USER, running_postgres
from tests.support.projects import needs_postgres
from videomme_pipeline.errors import ConfigurationError, StorageError
from videomme_pipeline.storage.postgres import location, turn

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def pgbouncer(server: str, *lines: str) -> Iterator[str]:
    """The URL of a pool in transaction mode before `server`."""
    assert PROGRAM is not None
    port = free_port()
    options = (
        "[databases]",
        f"postgres = host=127.0.0.1 port={urlsplit(server).port} user={USER}",
        "[pgbouncer]",
        f"listen_port = {port}",
        "listen_addr = 127.0.0.1",
        "auth_type = any",
        "pool_mode = transaction",
        "unix_socket_dir =",
        *lines,
    )
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the other user reads the file
        file = Path(folder) / "pgbouncer.ini"
        file.write_text("\n".join(options))
        process = subprocess.Popen([PROGRAM, str(file)], user=USER, stderr=subprocess.DEVNULL)
        try:
            wait_until_open(port)
            yield f"postgresql+psycopg2://{USER}@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()
            process.wait()


@pytest.mark.slow
@needs_postgres
@pytest.mark.skipif(PROGRAM is None, reason="needs pgbouncer")
@pytest.mark.parametrize("lines", [(), ("ignore_startup_parameters = options",)])
def test_a_connection_pool_is_refused(lines: tuple[str, ...]) -> None:
    with running_postgres() as server:
        with turn(server):
            pass
        with (
            pgbouncer(server, *lines) as url,
            pytest.raises(ConfigurationError, match=r"this is a connection pool \(PgBouncer"),
            turn(url),
        ):
            pass


@pytest.mark.slow
@needs_postgres
def test_one_process_at_a_time_has_its_turn() -> None:
    has_turn = Event()

    def take_turn(url: str) -> None:
        with turn(url):
            has_turn.set()

    with running_postgres() as server, ThreadPoolExecutor(1) as thread:
        with turn(server):
            waiting = thread.submit(take_turn, server)
            assert not has_turn.wait(1)
        waiting.result(timeout=30)
        assert has_turn.is_set()


def test_a_server_that_is_away_is_one_sentence_without_the_password() -> None:
    url = f"postgresql+psycopg2://me:secret@127.0.0.1:{free_port()}/runs"
    with pytest.raises(StorageError) as raised, turn(url):
        pass
    message = str(raised.value)
    assert message.startswith(f"{location(url)}: PostgreSQL cannot be used (")
    assert message.endswith("Everything that is already stored is kept.")
    assert "secret" not in message
    assert "\n" not in message
