"""A real S3 server that fails in every way: the next run gives the tables of an undisturbed one."""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.commands import Command, ProcessResult, QuickCommand, run_quickly
from tests.support.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.support.projects import EVALUATIONS, Copy, write_project_in
from tests.support.s3_server import CAN_RUN, WHY_NOT, S3Server, s3_environment, s3_server
from videomme_pipeline.errors import StorageError
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import LOCAL, Store
from videomme_pipeline.storage.objects import list_objects, object_state, open_folder, put, put_file
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.tables import verify

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN_RUN, reason=WHY_NOT)]

CHANGING = {"answered_at", "latency_seconds"}
"""Columns that depend on when a question was asked."""

Tables = Mapping[str, list[Mapping[str, Any]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(server: S3Server) -> Iterator[FaultyProxy]:
    with faulty_proxy(server.endpoint) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _reachable(proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    proxy.fail(Fault.REJECT, 0)
    proxy.delay_seconds = 0
    for name, value in s3_environment(proxy.endpoint).items():
        monkeypatch.setenv(name, value)


@dataclass(frozen=True)
class Team:
    """A project of which one folder has the data on disk, and others have it in buckets."""

    folder: Path
    on_disk: Tables

    def machine(self, name: str, folder: str | None = None) -> "Machine":
        """Another machine with the same configuration, and its data in the bucket.

        Its videos are in `folder`; by default those on disk.
        """
        root, copy = self.folder / name, Copy(self.folder / "copy")
        write_project_in(root, copy)(folder=folder or str(copy.folder))
        (root / "home").mkdir()
        return Machine(root, f"s3://bucket/{name}")


@dataclass(frozen=True)
class Machine:
    """A folder with everything that a machine stores locally, and the URL of its data."""

    root: Path
    url: str

    @property
    def store(self) -> Store:
        return Store.at(self.url)

    @property
    def copies(self) -> list[Path]:
        return list((self.root / ".cache" / "videomme" / "copies").iterdir())

    def start(self, *arguments: str, **environment: str) -> Command:
        own = {"VIDEOMME_DATA": self.url, "HOME": str(self.root)}
        return QuickCommand(self.root, *arguments, **own | environment)

    def run(self, **environment: str) -> ProcessResult:
        return self.start("run", **environment).finish()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    folder = tmp_path_factory.mktemp("team")
    root = folder / "disk"
    write_project_in(root, Copy(folder / "copy"))(EVALUATIONS)
    (root / "home").mkdir()
    finished = run_quickly(root, "run")
    assert finished.status == 0, finished.err
    return Team(folder, tables_of(Store.at(root / "data")))


def tables_of(store: Store) -> Tables:
    """The rows of all tables by path, without the columns that may change."""
    return {
        str(path.relative_to(store.root)): _rows(parquet.read_table(path))
        for path in store.tables()
        if not {"attempts", "decode_times"}.intersection(path.parts)
    }


def _rows(table: pa.Table) -> list[Mapping[str, Any]]:
    kept = [name for name in table.column_names if name not in CHANGING]
    return [*table.select(kept).to_pylist()]


def assert_same(team: Team, machine: Machine) -> None:
    """Run to the end, and compare the tables with those on disk. Then everything is fresh."""
    finished = machine.run()
    assert finished.status == 0, finished.err
    assert "leaked" not in finished.err
    assert verify(machine.store.tables())[1] == []
    assert tables_of(machine.store) == team.on_disk
    assert "Everything is fresh" in machine.run().err


def assert_one_sentence(finished: ProcessResult) -> None:
    assert finished.status == 1
    assert "Traceback" not in finished.err
    assert "check the address, the credentials, the network and the space" in finished.err


def test_the_tables_in_a_bucket_equal_the_tables_on_disk(team: Team) -> None:
    machine = team.machine("undisturbed")
    assert_same(team, machine)
    sql = machine.start("sql", "select evaluation, questions from overall").finish()
    assert "blind\t9" in sql.out, sql.err
    assert not list(machine.root.joinpath("data").rglob("*.parquet"))


class TestDisturbedRuns:
    """These take minutes, so another process can run the other tests of this file."""

    def test_a_run_survives_rejected_slow_and_broken_requests(
        self, team: Team, proxy: FaultyProxy
    ) -> None:
        machine = team.machine("disturbed")
        proxy.delay_seconds = 0.02
        command, faults = machine.start("run"), proxy.faults
        while command.is_running:
            for fault in Fault:
                proxy.fail(fault, 2)
                enough = proxy.requests + 10
                command.wait_until(lambda: proxy.requests >= enough)  # noqa: B023
        finished = command.finish()
        assert finished.status == 0, finished.err
        assert proxy.faults - faults > 20
        proxy.fail(Fault.REJECT, 0)
        assert_same(team, machine)

    @pytest.mark.parametrize("kind", ["frames", "videomme/scores"])
    def test_a_killed_run_is_resumed(self, team: Team, kind: str) -> None:
        machine = team.machine(f"killed-{kind.replace('/', '-')}")
        command = machine.start("run")
        if command.wait_until(lambda: bool(list_objects(machine.store.path(kind)))):
            command.send(signal.SIGKILL)
        command.finish()
        assert verify(machine.store.tables())[1] == []
        assert_same(team, machine)

    def test_a_server_that_is_killed_during_a_run_loses_nothing(
        self, team: Team, server: S3Server
    ) -> None:
        machine = team.machine("server")
        command = machine.start("run")
        assert command.wait_until(lambda: bool(list_objects(machine.store.path("frames"))))
        server.stop()
        try:
            stopped = command.finish()
            down = machine.start("status").finish()
        finally:
            server.start()
        assert stopped.status == 1, stopped.err
        assert_one_sentence(down)
        assert_same(team, machine)


def test_videos_can_be_in_a_bucket(team: Team) -> None:
    copy, bucket = Copy(team.folder / "copy"), open_folder("s3://bucket/Video-MME", "folder")
    for file in filter(Path.is_file, copy.folder.rglob("*")):
        put_file(bucket / str(file.relative_to(copy.folder)), file)
    machine = team.machine("videos", folder=str(bucket))
    limit = {"VIDEOMME_CACHE_GIGABYTES": "0.0002"}
    finished = machine.run(**limit)
    assert finished.status == 0, finished.err
    tables = {name: _without_paths(rows) for name, rows in tables_of(machine.store).items()}
    assert tables == {name: _without_paths(rows) for name, rows in team.on_disk.items()}
    assert "Everything is fresh" in machine.run(**limit).err
    assert sum(file.stat().st_size for file in machine.copies) <= 250_000
    doctor = machine.start("doctor").finish()
    assert f"3 of 3 under {bucket}" in doctor.out, doctor.err

    bucket.joinpath("data", copy.video("002").name).write_bytes(copy.video("003").read_bytes())
    plan = machine.start("run", "--dry-run").finish()
    assert "videomme/videos\t1" in plan.out, plan.err
    assert "frames" not in plan.out, "those of 003 have the same content, and are stored"


def _without_paths(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    paths = {"path", "subtitle_path"}
    return [{name: value for name, value in row.items() if name not in paths} for row in rows]


def test_a_wrong_secret_is_one_sentence(team: Team) -> None:
    wrong = team.machine("wrong").start("status", AWS_SECRET_ACCESS_KEY="wrong").finish()
    assert_one_sentence(wrong)
    assert "signature" in wrong.err


def test_a_full_store_keeps_what_it_has(server: S3Server) -> None:
    stored, more = (Store.at("s3://bucket/full").path(name) for name in ("a.parquet", "b.parquet"))
    data = parquet.encode(pa.table({"a": [1]}))
    publish(stored, data)
    server.restart(is_full=True)
    try:
        with pytest.raises(StorageError, match=r"b\.parquet: cannot write .* the space of the"):
            publish(more, data)
        assert parquet.read_table(stored)["a"].to_pylist() == [1]
        assert not more.exists()
    finally:
        server.restart()
    publish(more, data)


@pytest.mark.parametrize(
    ("fault", "megabytes"),
    [(Fault.CUT, 1), (Fault.CUT_ANSWER, 1), (Fault.REJECT, 1), (Fault.CUT, 120)],
    ids=["cut", "cut-answer", "reject", "cut-parts"],
)
def test_an_object_appears_whole_or_not_at_all(
    proxy: FaultyProxy, fault: Fault, megabytes: int
) -> None:
    """120 MB are written as a multipart upload."""
    path = Store.at("s3://bucket/parts").path(f"{fault.name}-{megabytes}.parquet")
    data = parquet.encode(pa.table({"a": [os.urandom(1_000_000) for _ in range(megabytes)]}))
    proxy.fail(fault, 10_000, b"PUT ")
    with pytest.raises(StorageError, match="cannot write"):
        publish(path, data)
    proxy.fail(fault, 0)
    if path.exists():  # the answer to the last request was lost
        parquet.read_table(path)
    proxy.fail(fault, 2, b"PUT ")
    publish(path, data)
    proxy.fail(fault, 2, b"GET ")
    assert parquet.read_copied_table(path).num_rows == megabytes


def test_a_listing_has_the_files_of_other_processes(server: S3Server) -> None:
    import s3fs  # noqa: PLC0415 - an extra

    store = Store.at("s3://bucket/shared")
    assert store.files("packets") == []
    other = s3fs.S3FileSystem(skip_instance_cache=True)
    for name in ("a", "b"):
        other.pipe_file(f"bucket/shared/packets/{name}.parquet", b"PAR1")
        assert store.files("packets")[-1].stem == name
        assert store.files("packets")[-1].exists()


def test_a_listing_has_the_times_of_the_objects(server: S3Server) -> None:
    folder = open_folder("s3://bucket/times", "VIDEOMME_DATA")
    put(folder / "a", b"a")
    (listed,), state = list_objects(folder).values(), object_state(folder / "a")
    assert listed == state
    assert listed.modified == pytest.approx(state.modified, abs=1)
    assert listed.modified == pytest.approx(time.time(), abs=60)


def test_of_two_writers_of_a_new_object_one_succeeds(server: S3Server) -> None:
    path = Store.at("s3://bucket/race").path("a.parquet")

    def write(number: int) -> bytes:
        publish(path, bytes([number]), only_new=True)
        return path.read_bytes()

    with ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(write, range(8)))
    assert seen == {path.read_bytes()}


def test_a_folder_that_was_copied_into_a_bucket_is_fresh_in_any_order(team: Team) -> None:
    disk, machine = team.folder / "disk" / "data", team.machine("copied")
    files = [path for path in disk.rglob("*") if path.is_file()]
    names = [path.relative_to(disk) for path in files if LOCAL not in path.parts]
    random.Random(5).shuffle(names)
    target = open_folder(machine.url, "folder")
    for name in names[: len(names) // 2]:
        put_file(target / str(name), disk / name)
    interrupted = machine.start("status").finish()
    assert interrupted.status == 0, interrupted.err
    for name in names[len(names) // 2 :]:
        put_file(target / str(name), disk / name)
    assert tables_of(machine.store) == team.on_disk
    finished = machine.run()
    assert finished.status == 0, finished.err
    (built,) = (line for line in finished.err.splitlines() if line.startswith("Built "))
    assert "videomme/" not in built, "only local files are built"
    assert tables_of(machine.store) == team.on_disk
