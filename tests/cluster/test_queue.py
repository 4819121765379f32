"""Tasks in a folder, and real workers: same results, limits and errors as on one machine."""

import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
import yaml

from tests.support import s3_server
from tests.support.builders import write_video
from tests.support.child_tasks import (
    double,
    environment_of_a_child,
    log_and_wait,
    misbehave,
    wait_for_pids,
    write_pid,
)
from tests.support.dagster_ui import wait_until
from tests.support.folder_workers import FolderWorkers, folder_workers, start_worker
from tests.support.paths import ROOT
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.cluster import queue, worker
from videomme_pipeline.cluster import workers as cluster_module
from videomme_pipeline.cluster.worker import Worker
from videomme_pipeline.cluster.workers import FolderSpec
from videomme_pipeline.errors import ClusterError, Status
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.tasks import TaskLimits, Workers, run_tasks
from videomme_pipeline.project.project import open_project
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.project.upkeep.doctor import examine
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.packets import PacketIndex
from videomme_pipeline.videos.probe import ProbeJob, content_hash, hash_and_probe, probe_videos

MINUTE = TaskLimits(seconds=60, memory_bytes=1 << 30)
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderWorkers]:
    with folder_workers(tmp_path_factory.mktemp("cluster") / "runs") as workers:
        yield workers


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """The folder of a run with 50 tasks."""
    (folder := tmp_path / "runs" / "run").mkdir(parents=True)
    queue.create_run(folder)
    for number in range(50):
        call = pickle.dumps((double, number))
        queue.put(folder / queue.TASKS / f"{number:08}", pickle.dumps((MINUTE, call)))
    return folder


def test_each_task_is_claimed_by_one_of_many_racing_workers(run_folder: Path) -> None:
    claims: list[str] = []
    start = threading.Barrier(8)

    def claim_all(name: str) -> None:
        racing = Worker(run_folder, 1, name)
        start.wait()
        while claim := racing.claim():
            claims.append(claim[0])

    threads = [threading.Thread(target=claim_all, args=[f"w{n}"]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == [f"{number:08}" for number in range(50)]


def test_a_rename_that_nfs_reports_as_failed_is_a_claim(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def repeated(self: Path, target: Path) -> Path:
        rename(self, target)
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "rename", repeated)
    claim = Worker(run_folder, 1).claim()
    assert claim is not None
    assert claim[0] == "00000000"


def test_an_outcome_that_cannot_be_stored_puts_the_task_back(run_folder: Path) -> None:
    claim = (unlucky := Worker(run_folder, 1)).claim()
    assert claim is not None
    (run_folder / queue.OUTCOMES).rmdir()
    (run_folder / queue.OUTCOMES).touch()
    unlucky.store(claim[0], (b"", None))
    assert claim[0] in queue.names_in(run_folder / queue.TASKS)
    assert queue.names_in(run_folder / queue.CLAIMED) == []


def test_a_run_whose_machine_died_is_left_and_its_tasks_are_put_back(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "SILENT_RUN_SECONDS", 2 * queue.BEAT_SECONDS)
    assert not Worker(run_folder, 1).work()
    tasks = len(queue.names_in(run_folder / queue.TASKS))
    assert 0 < tasks + len(queue.names_in(run_folder / queue.OUTCOMES)) == 50
    assert queue.names_in(run_folder / queue.WORKERS) == []


def test_a_worker_works_for_no_other_user(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_folder.stat().st_mode & 0o077 == 0
    assert worker._runs_in(run_folder.parent) == [run_folder]
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    assert worker._runs_in(run_folder.parent) == []


def test_an_idle_worker_ends(run_folder: Path) -> None:
    for number in range(48):
        (run_folder / queue.TASKS / f"{number:08}").unlink()
    assert Worker(run_folder, 2).work(idle_seconds=0.1)
    outcomes = [path.read_bytes() for path in sorted((run_folder / queue.OUTCOMES).iterdir())]
    assert [pickle.loads(pickle.loads(outcome)[0]) for outcome in outcomes] == [96, 98]
    assert queue.names_in(run_folder / queue.WORKERS) == []


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    started = start_worker(tmp_path / "other")
    assert started.wait(timeout=60) == 1
    assert "where all workers can read it" in (tmp_path / "workers.log").read_text()


@slow
def test_tasks_of_a_cluster_have_the_results_and_errors_of_local_tasks(
    two_workers: FolderWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = ["a", "crash", "raise", "eat", "b"]
    with two_workers.run() as workers:
        results = {
            result.task: str(result.error or result.value)
            for result in run_tasks(misbehave, tasks, workers=workers, limits=MINUTE)
        }
        many = list(run_tasks(double, range(50), workers=workers, limits=MINUTE))
        assert set(workers.problems().values()) == {None}
        assert (workers.nodes, workers.description) == (2, "2 workers")
    assert (results["a"], results["b"]) == ("did a", "did b")
    assert "SIGSEGV" in results["crash"]
    assert results["raise"] == "ValueError: a reason"
    assert "out of memory" in results["eat"]
    assert {result.task: result.value for result in many} == {n: 2 * n for n in range(50)}
    assert all(process.poll() is None for process in two_workers.processes)


@slow
def test_closing_the_iterator_ends_the_children_of_workers(
    two_workers: FolderWorkers, tmp_path: Path
) -> None:
    tasks = [tmp_path / "hang", tmp_path / "done", tmp_path / "hang_too"]
    with two_workers.run() as workers:
        wait_until(lambda: workers.nodes == 2)  # before, only two tasks are submitted
        results = run_tasks(write_pid, tasks, workers=workers, limits=TaskLimits(seconds=600))
        assert next(results).task.name == "done"
        children = wait_for_pids([tmp_path / "hang", tmp_path / "hang_too"])
        results.close()
        wait_until(lambda: not any(map(psutil.pid_exists, children)), seconds=20)
        (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
        assert result.result() == 2


@slow
def test_tasks_end_with_their_run(two_workers: FolderWorkers, tmp_path: Path) -> None:
    with two_workers.run() as workers:
        results = run_tasks(
            write_pid, [tmp_path / "hang", tmp_path / "done"], workers=workers, limits=MINUTE
        )
        assert next(results).task.name == "done"
        children = wait_for_pids([tmp_path / "hang"])
    wait_until(lambda: not any(map(psutil.pid_exists, children)), seconds=20)
    results.close()
    assert list(two_workers.folder.iterdir()) == []


@slow
def test_a_worker_that_differs_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = queue.versions()
    monkeypatch.setattr(queue, "versions", lambda: {**here, "av": "1.0"})
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 1)
    messages: list[str] = []
    queue_folder = tmp_path / "runs"
    with folder_workers(queue_folder, 1) as cluster, cluster.run(messages.append) as workers:
        with pytest.raises(ClusterError, match=re.escape(f"av {here['av']}, not 1.0")):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))
        assert f"av {here['av']}, not 1.0" in str(workers.problems())
        (run,) = queue_folder.iterdir()
        assert start_worker(run).wait(timeout=60) == 1
    assert any(f"av {here['av']}, not 1.0" in message for message in messages)
    assert "install the versions" in (tmp_path / "workers.log").read_text()


@slow
def test_a_run_says_that_it_has_no_worker_and_ends_after_a_limit(tmp_path: Path) -> None:
    messages: list[str] = []
    queue_folder, spec = tmp_path / "runs", FolderSpec()
    (queue_folder / "run").mkdir(parents=True)
    soon = spec.model_copy(update={"max_wait_minutes": 0.1})
    with (
        pytest.raises(ClusterError, match=r"no worker for 0 minutes; raise `max_wait_minutes`"),
        soon.connect(queue_folder / "run", messages.append) as workers,
    ):
        list(run_tasks(double, [1], workers=workers, limits=MINUTE))
    (message,) = messages
    assert f"videomme_pipeline.cluster.worker --watch {queue_folder}" in message


@slow
def test_a_run_whose_folder_disappears_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "AWAY_SECONDS", 1)
    with FolderSpec().connect(tmp_path, ignore) as workers:
        results = run_tasks(double, [1], workers=workers, limits=MINUTE)
        threading.Timer(2, tmp_path.rename, [tmp_path.with_name("away")]).start()
        with pytest.raises(ClusterError, match="cannot be used for 1 s"):
            next(results)


@pytest.fixture
def _short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SILENT_WORKER_SECONDS", 3 * queue.BEAT_SECONDS)


@slow
@pytest.mark.usefixtures("_short_silence")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_tasks_of_a_worker_that_ends_or_hangs_run_on_another_one(
    tmp_path: Path, number: signal.Signals
) -> None:
    with folder_workers(tmp_path / "runs") as cluster, cluster.run() as workers:
        results = run_tasks(log_and_wait, _tasks(tmp_path, 12), workers=workers, limits=MINUTE)
        next(results)
        cluster.processes[0].send_signal(number)
        values = [result.result() for result in results]
    assert len(values) == 11
    # Only the task that the worker had begun ran twice.
    assert 12 <= len((tmp_path / "log").read_text().split()) <= 13


@slow
@pytest.mark.usefixtures("_short_silence")
def test_each_result_arrives_once_while_workers_die_hang_and_wake_up(tmp_path: Path) -> None:
    chance = random.Random(7)
    is_over = threading.Event()

    def disturb(cluster: FolderWorkers) -> None:
        while not is_over.wait(chance.uniform(0.5, 2)):
            alive = [process for process in cluster.processes if process.poll() is None]
            process = chance.choice(alive)
            match chance.randrange(3):
                case 0:
                    process.kill()
                    cluster.start()
                case 1:
                    process.terminate()
                    cluster.start()
                case _:
                    process.send_signal(signal.SIGSTOP)
                    is_over.wait(chance.uniform(1, 10))
                    process.send_signal(signal.SIGCONT)

    with folder_workers(tmp_path / "runs", 3) as cluster, cluster.run() as workers:
        disturbing = threading.Thread(target=disturb, args=[cluster])
        disturbing.start()
        results = list(
            run_tasks(log_and_wait, _tasks(tmp_path, 40), workers=workers, limits=MINUTE)
        )
        is_over.set()
        disturbing.join()
    assert sorted(result.task[1] for result in results) == list(range(40))
    assert [result.error for result in results] == [None] * 40


@slow
def test_workers_go_on_after_a_run_was_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.support.child_tasks import write_pid\n"
        "from tests.support.folder_workers import FolderWorkers\n"
        "from videomme_pipeline.processes.tasks import TaskLimits, run_tasks\n"
        "with FolderWorkers(Path(sys.argv[1])).run() as workers:\n"
        "    tasks = [Path(sys.argv[2])]\n"
        "    list(run_tasks(write_pid, tasks, workers=workers, limits=TaskLimits(seconds=600)))\n"
    )
    with folder_workers(tmp_path / "runs", 1) as cluster:
        hanging = tmp_path / "hang"
        command = [sys.executable, "-c", program, str(cluster.folder), str(hanging)]
        run = subprocess.Popen(command, cwd=ROOT)
        (child,) = wait_for_pids([hanging])
        run.kill()
        run.wait()
        with cluster.run() as workers:  # it removes the folder of the killed run
            (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
        assert result.result() == 2
        assert not psutil.pid_exists(child)


@slow
def test_workers_get_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with folder_workers(tmp_path / "runs", 1) as cluster, cluster.run() as workers:
        (result,) = run_tasks(environment_of_a_child, [0], workers=workers, limits=MINUTE)
    assert "canary" not in result.result().values()


@slow
def test_videos_are_extracted_on_a_cluster_as_on_one_machine(
    two_workers: FolderWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "assets"
    configuration.mkdir()
    (configuration / "benchmarks.yaml").write_text("smoke:\n  limit: 2\n")
    _write_cluster(configuration, two_workers)
    monkeypatch.chdir(tmp_path)  # the workers have another working directory
    project = open_project(configuration, "data")
    findings = [f for f in examine(project, is_deep=True) if f.check.startswith(("cl", "worker"))]
    assert [finding.status for finding in findings] == [Status.OK] * 3, findings
    assert findings[0].summary == f"a worker reads {project.store.root}"
    assert list((tmp_path / "data").rglob("mark")) == []
    path = write_video(tmp_path / "a.mp4")
    sampling = parse_sampling("uniform_n-8")
    video_hash = content_hash(path)
    frame_job = FrameJob(video_id="a", path=path, video_hash=video_hash, samplings=(sampling,))
    probe_job = ProbeJob(benchmark="smoke", video_id="a", path=path, content_hash=video_hash)
    here, missing = Store.at(tmp_path / "here"), tmp_path / "missing.mp4"
    with project.workers() as cluster:
        hashes = HashCache(tmp_path / "hashes.sqlite")
        unknown = [replace(probe_job, path=file, content_hash="") for file in (path, missing)]
        (ahead,) = hash_and_probe(unknown, cluster, hashes, project.store.packets)
        assert hashes.get(path, FileState.of(path.stat())) == video_hash
        assert ahead.task.content_hash == video_hash
        assert PacketIndex.load(project.store.packets(video_hash)) is not None
        (probed,) = probe_videos([probe_job], workers=cluster)
        (result,) = extract([frame_job], store=project.store, workers=cluster)
    (probed_here,) = probe_videos([probe_job])
    (result_here,) = extract([frame_job], store=here)
    assert probed.result() == ahead.result() == probed_here.result()
    assert result.frame_sets == result_here.frame_sets
    stored = result.frame_sets[0].fingerprint
    assert read_frames(project.store, video_hash, stored) == read_frames(here, video_hash, stored)


@slow
@pytest.mark.skipif(not s3_server.CAN_RUN, reason=s3_server.WHY_NOT)
def test_doctor_reads_an_object_store_with_the_credentials_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    def message_of(secret: str) -> str:
        use(**s3_server.s3_environment(server.endpoint, secret))
        with folder_workers(tmp_path / "runs", 1) as cluster:
            use(**s3_server.s3_environment(server.endpoint))
            _write_cluster(tmp_path / "assets", cluster)
            project = open_project(tmp_path / "assets", f"s3://{s3_server.BUCKET}/data")
            findings = examine(project, is_deep=True)
            return next(finding.summary for finding in findings if finding.check == "cluster")

    for name in ("assets", "objects"):
        (tmp_path / name).mkdir()
    (tmp_path / "assets" / "benchmarks.yaml").write_text("smoke:\n  limit: 1\n")
    use(HOME=str(tmp_path / "home"))
    with s3_server.s3_server(tmp_path / "objects") as server:
        assert message_of(s3_server.SECRET).startswith("a worker reads s3://")
        assert message_of("another secret").startswith("a worker does not read s3://")


@slow
def test_a_run_connects_to_its_cluster_once(
    two_workers: FolderWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Path] = []
    connect = FolderSpec.connect

    @contextmanager
    def counted(spec: FolderSpec, folder: Path, *arguments: Any) -> Iterator[Workers]:
        connected.append(folder)
        with connect(spec, folder, *arguments) as workers:
            yield workers

    monkeypatch.setattr(FolderSpec, "connect", counted)
    folder = tmp_path / "configuration"
    (folder / "evaluations").mkdir(parents=True)
    (folder / "benchmarks.yaml").write_text("smoke: {limit: 2}\nsmoke_v2: {limit: 1}\n")
    evaluation = {"benchmark": "smoke", "model": "constant-A", "sampling": "uniform_n-4"}
    for name in ("smoke", "smoke_v2"):
        file = folder / "evaluations" / f"{name}.yaml"
        file.write_text(yaml.safe_dump(evaluation | {"benchmark": name}))
    _write_cluster(folder, two_workers)
    project = open_project(folder, str(tmp_path / "data"))
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        refreshed = refresh_project(project, instance, ["smoke", "smoke_v2"])
    assert refreshed.not_fresh == []
    assert len(connected) == 1
    assert not connected[0].exists()


def _write_cluster(configuration: Path, workers: FolderWorkers) -> None:
    content = workers.spec.model_dump(mode="json", exclude_none=True)
    (configuration / "cluster.yaml").write_text(yaml.safe_dump(content))


def _tasks(folder: Path, count: int) -> list[tuple[Path, int]]:
    return [(folder / "log", number) for number in range(count)]
