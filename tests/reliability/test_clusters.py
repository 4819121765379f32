"""Faults of a cluster: workers and databases that end, and two hosts at one folder.

The frames and tables equal those of one machine, work is done twice only where a worker died, and
no file is ever read in part.
"""

import json
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import NullPool, create_engine, text

from tests.support.builders import write_video
from tests.support.child_tasks import log_and_wait
from tests.support.commands import (
    CONCURRENCY,
    Command,
    ProcessResult,
    QuickCommand,
    run_quickly,
    write_served_project,
)
from tests.support.dagster_ui import wait_until
from tests.support.dask_workers import DaskProcesses, dask_workers
from tests.support.model_server import ModelServer
from tests.support.postgres_server import postgres_server
from tests.support.projects import needs_postgres
from tests.support.slurm import CAN_RUN, jobs, slurm
from videomme_pipeline.cluster.dask import DaskSpec
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.frames.extract import FrameJob, FrameResult, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import Workers, run_tasks
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE
from videomme_pipeline.videos.probe import content_hash

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

SAMPLING = parse_sampling("uniform_n-64")
VIDEOS = 16
REQUESTS = 15
"""Requests of both evaluations. Three of their 18 questions have the same prompts in both."""
MINUTE = TaskLimits(seconds=60)
OWN_NAME = (
    'test "$VIDEOMME_TEST_HOST" || VIDEOMME_TEST_HOST={number} exec unshare --uts sh -c '
    '\'hostname host{number}; exec "$0" "$@"\' "$0" "$@"'
)
"""Shell code that runs a command on a host with another name."""


@pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root")
def test_a_requeued_canceled_or_expired_job_costs_only_its_own_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, log = tmp_path / "shared", tmp_path / "log"
    shared.mkdir()
    arguments = {"cores": 1, "memory": "1GB", "walltime": "00:01:00", "interface": "lo"}
    spec = DaskSpec(cluster="dask_jobqueue.SLURMCluster", scale={"jobs": 2}, arguments=arguments)
    tasks = [(log, number) for number in range(110)]
    with slurm(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with spec.connect(shared, ignore) as workers:
            results = run_tasks(log_and_wait, tasks, workers=workers, limits=MINUTE)
            next(results)
            first = jobs()
            subprocess.run(["scontrol", "requeue", first[0]], check=True)
            for _ in range(20):
                next(results)
            subprocess.run(["scancel", jobs()[-1]], check=True)
            assert len([result.result() for result in results]) == len(tasks) - 21
        started = [int(line) for line in log.read_text().split()]
        wait_until(lambda: jobs() == [], seconds=30)
    assert set(started) == set(range(len(tasks)))
    # Two jobs are stopped by hand, and each job that is 60 s old by Slurm.
    assert len(started) - len(tasks) <= 6


def test_workers_that_die_or_hang_do_not_change_the_frames(tmp_path: Path) -> None:
    frame_jobs = [frame_job(tmp_path, number) for number in range(VIDEOS)]
    here, there = Store.at(tmp_path / "here"), Store.at(tmp_path / "there")
    expected = list(extract(frame_jobs, store=here))
    with (
        dask_workers(tmp_path / "runs") as cluster,
        cluster.run() as workers,
        reading_all_frames(there) as damaged,
    ):
        extracted = extract_while_workers_die(frame_jobs, there, workers, cluster)
    assert damaged == []
    assert [result.error for result in extracted] == [None] * VIDEOS
    assert sorted(result.job.video_id for result in extracted) == sorted(
        result.job.video_id for result in expected
    )
    for result in expected:
        (frames,) = result.frame_sets
        pictures = [
            read_frames(s, result.job.video_hash, frames.fingerprint) for s in (here, there)
        ]
        assert pictures[0] == pictures[1]


def frame_job(folder: Path, number: int) -> FrameJob:
    path = write_video(folder / f"{number}.mp4", frames=600 + number, width=320, height=240)
    return FrameJob(
        video_id=path.stem, path=path, video_hash=content_hash(path), samplings=(SAMPLING,)
    )


def extract_while_workers_die(
    frame_jobs: list[FrameJob], store: Store, workers: Workers, cluster: DaskProcesses
) -> list[FrameResult]:
    """Extract with a worker that is killed, and another one that is suspended for a while."""
    results: list[FrameResult] = []
    for result in extract(frame_jobs, store=store, workers=workers):
        results.append(result)
        if len(results) == 3:
            cluster.processes[0].kill()
            cluster.start()
        if len(results) == 7:
            cluster.processes[1].send_signal(signal.SIGSTOP)
        if len(results) == 12:
            cluster.processes[1].send_signal(signal.SIGCONT)
    return results


@contextmanager
def reading_all_frames(store: Store) -> Iterator[list[Exception]]:
    """Read every stored frame file again and again. Yields the errors."""
    errors: list[Exception] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.wait(0.2):
            for path in store.files("frames"):
                try:
                    read_frames(store, *path.stem.split("."))
                except Exception as error:  # noqa: BLE001 - any error is a failure of the test
                    errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield errors
    finally:
        is_over.set()
        reader.join()


@needs_postgres
def test_a_restart_of_postgres_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with postgres_server() as database, ModelServer(delay_seconds=0.5) as server:
        write_served_project(tmp_path, server)
        environment = {POSTGRES_VARIABLE: database.url}
        command = QuickCommand(tmp_path, "run", "served", **environment)
        assert command.wait_until(lambda: server.answered.total() >= 3)
        database.stop()
        time.sleep(2)
        database.start()
        interrupted = command.finish()
        resumed = run_quickly(tmp_path, "run", "served", **environment)
        assert resumed.status == 0, (interrupted, resumed)
        assert server.request_count == len(server.request_counts), interrupted
    if interrupted.status:
        assert "Traceback" not in interrupted.err


@needs_postgres
def test_a_database_that_stays_away_ends_a_run_with_one_sentence(tmp_path: Path) -> None:
    with postgres_server() as database, ModelServer(delay_seconds=0.5) as server:
        write_served_project(tmp_path, server)
        command = QuickCommand(tmp_path, "run", "served", **{POSTGRES_VARIABLE: database.url})
        assert command.wait_until(lambda: server.answered.total() >= 3)
        database.stop()
        ended = command.finish()
        database.start()
    assert ended.status == 1
    assert ended.err.count("PostgreSQL cannot be used") == 1
    *others, last = ended.err.strip().splitlines()
    assert last.startswith("Error: postgresql://127.0.0.1:"), ended.err
    # Dagster prints two lines of its own if it was storing a line of the log at that moment.
    of_dagster = ("Exception while writing logger call to event log", "(Background on this error")
    ours = [line for line in others if not line.startswith(of_dagster)]
    assert not [line for line in ours if "rror" in line or "xception" in line]


class Hosts:
    """Three hosts with own names, disks and Dagster homes, and one folder, database and model."""

    def __init__(self, root: Path, url: str, server: ModelServer, **limits: object) -> None:
        self.root, self.url = root, url
        write_served_project(root, server)
        file = root / "configuration" / "models.yaml"
        models = yaml.safe_load(file.read_text())
        models["served"]["limits"] |= limits
        if "max_cost_dollars" in limits:
            models["served"]["prices"] = {"input": 0, "output": 10_000 / 3}
        file.write_text(yaml.safe_dump(models))

    def start(self, number: int, *arguments: str) -> Command:
        shell = OWN_NAME.format(number=number)
        return Command(self.root, *arguments, shell=shell, **self.environment(number))

    def environment(self, number: int) -> dict[str, str]:
        return {
            "VIDEOMME_LOCAL_DISK": str(self.root / f"disk{number}"),
            "DAGSTER_HOME": str(self.root / f"home{number}"),
            POSTGRES_VARIABLE: self.url,
        }

    def extractions(self) -> Counter[str]:
        """The number of times that the frames of each partition were decoded."""
        engine = create_engine(self.url, poolclass=NullPool)
        query = (
            'select partition, event from event_logs where asset_key = \'["videomme", "frames"]\''
            " and dagster_event_type = 'ASSET_MATERIALIZATION'"
        )
        with engine.connect() as connection:
            rows = connection.execute(text(query)).all()
        return Counter(name for name, event in rows if _cpu_seconds(json.loads(event)) > 0)


def _cpu_seconds(event: dict[str, Any]) -> float:
    data = event["dagster_event"]["event_specific_data"]["materialization"]
    values = {entry["label"]: entry["entry_data"] for entry in data["metadata_entries"]}
    return float(values.get("decode_cpu_seconds", {}).get("value", 0))


def errors_of(ended: Sequence[ProcessResult]) -> str:
    return "\n".join(f"{number}: {run.err}" for number, run in enumerate(ended))


class TestHosts:
    """Several hosts at once. Another process can run the other tests of this file."""

    @needs_postgres
    @pytest.mark.parametrize("concurrent_runs", [1, 3])
    def test_three_hosts_that_run_the_same_evaluations_do_everything_once(
        self, tmp_path: Path, concurrent_runs: int
    ) -> None:
        with postgres_server() as database, ModelServer(delay_seconds=0.2) as server:
            hosts = Hosts(tmp_path, database.url, server, concurrent_runs=concurrent_runs)
            commands = [hosts.start(n, "run", "served", "served-subtitles") for n in range(3)]
            ended = [command.finish() for command in commands]
            assert [ended_run.status for ended_run in ended] == [0, 0, 0], errors_of(ended)
            assert (server.request_count, len(server.request_counts)) == (REQUESTS, REQUESTS)
            assert set(hosts.extractions().values()) == {1}
            assert len(hosts.extractions()) == 3
            built = [re.findall(r"Built .* (\d+) videomme/frames", run.err) for run in ended]
            assert sum(int(count) for counts in built for count in counts) == 3, errors_of(ended)
            assert "Everything is fresh." in hosts.start(3, "run").finish().err
            assert not list(tmp_path.rglob("journal.sqlite"))

    @needs_postgres
    def test_three_hosts_spend_one_cost_limit(self, tmp_path: Path) -> None:
        limits = {"max_cost_dollars": 0.055, "concurrent_runs": 3}
        with postgres_server() as database, ModelServer(delay_seconds=0.1) as server:
            hosts = Hosts(tmp_path, database.url, server, **limits)
            commands = [hosts.start(n, "run", "served") for n in range(3)]
            ended = [command.finish() for command in commands]
            assert server.request_count == 5, errors_of(ended)
            assert [run.status for run in ended] == [1, 1, 1], errors_of(ended)

    @needs_postgres
    def test_a_killed_host_and_cut_connections_cost_only_requests_in_flight(
        self, tmp_path: Path
    ) -> None:
        with postgres_server() as database, ModelServer(delay_seconds=0.5) as server:
            hosts = Hosts(tmp_path, database.url, server, concurrent_runs=3)
            commands = [hosts.start(n, "run", "served", "served-subtitles") for n in range(3)]
            assert commands[0].wait_until(lambda: server.answered.total() >= 4)
            commands[0].send(signal.SIGKILL)
            database.stop()
            time.sleep(3)
            database.start()
            ended = [command.finish() for command in commands]
            assert [ended_run.status for ended_run in ended[1:]] == [0, 0], errors_of(ended)
            assert len(server.request_counts) == REQUESTS
            assert server.request_count <= REQUESTS + CONCURRENCY

    @needs_postgres
    def test_two_hosts_with_their_own_disks_share_a_folder_and_a_database(
        self, tmp_path: Path
    ) -> None:
        """Each host has its own name and Dagster home. Data and PostgreSQL are shared."""
        with postgres_server() as database, ModelServer(delay_seconds=0.2) as server:
            write_served_project(tmp_path, server)
            names = ("served", "served-subtitles")
            hosts = [
                Command(
                    tmp_path,
                    "run",
                    name,
                    shell=OWN_NAME.format(number=number),
                    VIDEOMME_LOCAL_DISK=str(tmp_path / f"disk{number}"),
                    DAGSTER_HOME=str(tmp_path / f"home{number}"),
                    **{POSTGRES_VARIABLE: database.url},
                )
                for number, name in enumerate(names)
            ]
            ended = [host.finish() for host in hosts]
            assert [ended_run.status for ended_run in ended] == [0, 0], errors_of(ended)
            assert server.request_count == REQUESTS
            assert server.most_in_flight <= CONCURRENCY, "the hosts took turns at the endpoint"
            environment = {"DAGSTER_HOME": str(tmp_path / "home0"), POSTGRES_VARIABLE: database.url}
            assert "Everything is fresh." in run_quickly(tmp_path, "run", *names, **environment).err
