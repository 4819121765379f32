"""Locks: at most `slots` runs use a resource, and a killed run releases its lock."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from shutil import which

import pytest
from sqlalchemy import NullPool, create_engine, text

from tests.support.paths import ROOT
from tests.support.postgres_server import postgres_server
from tests.support.projects import needs_postgres
from videomme_pipeline.cluster.postgres_locks import PostgresLocks
from videomme_pipeline.errors import ModelError, StorageError
from videomme_pipeline.project.runs import locks
from videomme_pipeline.project.runs.locks import FileLocks, Locks, Resource, endpoint, this_machine

TIMEOUT_SECONDS = 60.0

TAKES_FOREVER = """
import sys, time
from pathlib import Path
from videomme_pipeline.cluster.postgres_locks import PostgresLocks
from videomme_pipeline.project.runs.locks import FileLocks, this_machine
shared = sys.argv[1]
kind, shared = (PostgresLocks, shared) if "://" in shared else (FileLocks, Path(shared))
locks = kind(shared, run="run 3f2a", on_wait=print)
with locks.using(this_machine()):
    print("working", flush=True)
    time.sleep(3600)
"""

CUTS_THE_LINK = """
import subprocess, time
from tests.support.postgres_server import running_postgres
from videomme_pipeline.cluster.postgres_locks import PostgresLocks
from videomme_pipeline.project.runs.locks import this_machine

def set_link(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

set_link("up")
with running_postgres() as url:
    with PostgresLocks(url, run="run 3f2a", on_wait=print).using(this_machine()):
        set_link("down")
        began = time.monotonic()
    print(time.monotonic() - began)
    set_link("up")
"""


@pytest.fixture(
    params=["files", pytest.param("postgres", marks=[pytest.mark.slow, needs_postgres])]
)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The folder of lock files, or the URL of a database."""
    if request.param == "files":
        return tmp_path
    return str(request.getfixturevalue("postgres_url"))


def locks_of(
    shared: Path | str, run: str, on_wait: Callable[[str], None] = lambda _: None
) -> Locks:
    if isinstance(shared, Path):
        return FileLocks(shared, run=run, on_wait=on_wait)
    return PostgresLocks(shared, run=run, on_wait=on_wait)


def eventually(condition: Callable[[], object]) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


def backend_of(run: str, url: str) -> int:
    """The id of the database server's process for the session of a run."""
    find = text("select pid from pg_stat_activity where application_name = :run")
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return int(connection.execute(find, {"run": run}).scalar_one())


@pytest.mark.parametrize("slots", [1, 2])
def test_at_most_slots_runs_use_a_resource_at_the_same_time(shared: Path | str, slots: int) -> None:
    resource = Resource(title="an endpoint", file_stem="endpoint", slots=slots)
    lock, working, most = threading.Lock(), 0, 0

    def work(number: int) -> None:
        nonlocal working, most
        with locks_of(shared, f"run {number}").using(resource):
            with lock:
                working += 1
                most = max(most, working)
            time.sleep(0.01)
            with lock:
                working -= 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert most == slots
    assert locks_of(shared, "later").users(resource) == ()


def test_a_waiting_run_names_the_run_that_uses_the_resource_again_and_again(
    shared: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(locks, "REMINDER_SECONDS", 0.02)
    messages: list[str] = []
    first = locks_of(shared, "run 3f2a")
    second = locks_of(shared, "run 77b1", messages.append)
    with ThreadPoolExecutor(1) as threads:
        with first.using(this_machine()):
            assert second.users(this_machine()) == ("run 3f2a",)
            waiting = threads.submit(lambda: second.using(this_machine()).__enter__())
            eventually(lambda: len(messages) > 2)
            assert messages[0] == "Waiting for run 3f2a, which is using this machine"
            assert messages[1] == "Waiting for 0 s for run 3f2a, which is using this machine"
            assert not waiting.done()
        waiting.result(TIMEOUT_SECONDS)
    assert messages[-1].startswith("Using this machine after ")


def test_a_killed_run_releases_its_lock(shared: Path | str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", TAKES_FOREVER, str(shared)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "working\n"
    messages: list[str] = []

    def wait() -> None:
        with locks_of(shared, "run 77b1", messages.append).using(this_machine()):
            pass

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wait)
        eventually(lambda: messages)
        assert "run 3f2a" in messages[0]
        holder.kill()
        holder.wait()
        waiting.result(TIMEOUT_SECONDS)


def test_a_failed_block_releases_its_lock(shared: Path | str) -> None:
    locks = locks_of(shared, "run 3f2a")
    with pytest.raises(RuntimeError, match="on purpose"), locks.using(this_machine()):
        raise RuntimeError("on purpose")
    assert locks.users(this_machine()) == ()


@pytest.mark.slow
@needs_postgres
def test_a_lock_is_released_after_its_block_even_if_the_server_is_slow(postgres_url: str) -> None:
    locks = locks_of(postgres_url, "run 3f2a")
    with locks.using(this_machine()):
        session = backend_of("run 3f2a", postgres_url)
        os.kill(session, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, [session, signal.SIGCONT]).start()
    assert locks.users(this_machine()) == ()


@pytest.mark.slow
@needs_postgres
def test_a_run_notices_that_the_session_of_its_lock_was_ended(postgres_url: str) -> None:
    locks = locks_of(postgres_url, "run 3f2a")
    with locks.using(this_machine()):
        locks.check()
        os.kill(backend_of("run 3f2a", postgres_url), signal.SIGTERM)
        eventually(lambda: locks_of(postgres_url, "a test").users(this_machine()) == ())
        with (
            locks_of(postgres_url, "run 77aa").using(this_machine()),
            pytest.raises(ModelError, match="run 77aa, which is using this machine now"),
        ):
            locks.check()
    locks.check()


@pytest.mark.slow
@needs_postgres
def test_a_lost_lock_is_taken_again_if_it_is_free() -> None:
    with postgres_server() as server:
        locks = locks_of(server.url, "run 3f2a")
        with locks.using(this_machine()):
            server.stop()
            threading.Timer(2, server.start).start()
            locks.check()
            assert locks.users(this_machine()) == ("run 3f2a",)
        assert locks.users(this_machine()) == ()


@pytest.mark.slow
@needs_postgres
def test_a_block_ends_if_the_server_cannot_be_reached_any_more() -> None:
    own_network = ["unshare", "--net"]
    probe = [*own_network, "ip", "link", "set", "lo", "up"]
    if not which("unshare") or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip("this needs unshare, ip and the right to create a network namespace")
    ended = subprocess.run(
        [*own_network, sys.executable, "-c", CUTS_THE_LINK],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert 50 < float(ended.stdout) < 120


def test_endpoints_differ_by_host_port_and_path() -> None:
    urls = ["http://localhost:8000/v1", "http://localhost:8001/v1", "http://localhost:8000/v2"]
    assert len({endpoint(url).file_stem for url in urls}) == len(urls)
    assert endpoint(urls[0]).title == urls[0]


def test_every_endpoint_has_a_lock_of_its_own(tmp_path: Path) -> None:
    urls = [f"http://host/{path}" for path in ("a-b", "a/b", "a_b", "ä", "ö", "x" * 300)]
    urls.append(urls[-1] + "y")
    with ExitStack() as stack:
        for url in urls:
            locks = FileLocks(tmp_path, run=url, on_wait=pytest.fail)
            stack.enter_context(locks.using(endpoint(url)))
        assert [locks.users(endpoint(url)) for url in urls] == [(url,) for url in urls]


def test_a_folder_of_locks_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("not a folder")
    locks = FileLocks(tmp_path / "locks", run="run 3f2a", on_wait=pytest.fail)
    with pytest.raises(StorageError, match="cannot write"), locks.using(this_machine()):
        pytest.fail("it has no lock")
