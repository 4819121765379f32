"""Real workers of Dask: same results, limits and errors of tasks as on one machine."""

import os
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
import dask
import psutil
import pytest
import yaml
from distributed import Client, Security

from tests.support import s3_server
from tests.support.builders import write_video
from tests.support.child_tasks import (
    double,
    environment_of_a_child,
    keep_process_alive,
    kill_worker,
    log_and_wait,
    misbehave,
    wait_for_pids,
    write_pid,
)
from tests.support.dagster_ui import wait_until
from tests.support.dask_workers import DaskProcesses, dask_workers
from tests.support.paths import ROOT
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.cluster import dask as dask_module
from videomme_pipeline.cluster.dask import DaskSpec, prepare_worker, run_on_worker
from videomme_pipeline.errors import ClusterError, Status
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.identity import versions
from videomme_pipeline.processes.tasks import Workers, run_tasks
from videomme_pipeline.project.doctor import examine
from videomme_pipeline.project.project import open_project
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.packets import PacketIndex
from videomme_pipeline.videos.probe import ProbeJob, content_hash, hash_and_probe, probe_videos

MINUTE = TaskLimits(seconds=60, memory_bytes=1 << 30)


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with dask_workers(tmp_path_factory.mktemp("cluster") / "runs") as workers:
        yield workers


@pytest.mark.slow
@pytest.mark.cluster
def test_tasks_of_a_cluster_have_the_results_and_errors_of_local_tasks(
    two_workers: DaskProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = ["a", "crash", "raise", "eat", "b"]
    with two_workers.run() as workers:
        results = {
            result.task: str(result.error or result.value)
            for result in run_tasks(misbehave, tasks, workers=workers, limits=MINUTE)
        }
        many = list(run_tasks(double, range(50), workers=workers, limits=MINUTE))
        assert set(workers.problems().values()) == {None}
        assert workers.description == "2 workers"
    assert (results["a"], results["b"]) == ("did a", "did b")
    assert "SIGSEGV" in results["crash"]
    assert results["raise"] == "ValueError: a reason"
    assert "out of memory" in results["eat"]
    assert {result.task: result.value for result in many} == {n: 2 * n for n in range(50)}
    assert all(process.poll() is None for process in two_workers.processes)


@pytest.mark.slow
@pytest.mark.cluster
def test_closing_the_iterator_ends_the_children_of_workers(
    two_workers: DaskProcesses, tmp_path: Path
) -> None:
    tasks = [tmp_path / "hang", tmp_path / "done", tmp_path / "hang_too"]
    with two_workers.run() as workers:
        wait_until(lambda: len(workers.problems()) == 2)  # else only two tasks are submitted
        results = run_tasks(write_pid, tasks, workers=workers, limits=TaskLimits(seconds=600))
        assert next(results).task.name == "done"
        children = wait_for_pids([tmp_path / "hang", tmp_path / "hang_too"])
        results.close()
        wait_until(lambda: not any(map(psutil.pid_exists, children)), seconds=20)
        (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
        assert result.result() == 2


@pytest.mark.slow
@pytest.mark.cluster
def test_tasks_end_with_their_run(two_workers: DaskProcesses, tmp_path: Path) -> None:
    with two_workers.run() as workers:
        results = run_tasks(
            write_pid, [tmp_path / "hang", tmp_path / "done"], workers=workers, limits=MINUTE
        )
        assert next(results).task.name == "done"
        children = wait_for_pids([tmp_path / "hang"])
    wait_until(lambda: not any(map(psutil.pid_exists, children)), seconds=20)
    results.close()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_that_differs_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = versions()
    different = {**here, "av": "1.0"}
    with pytest.raises(ClusterError, match="not 1"):
        run_on_worker(double, 1, MINUTE, different)
    monkeypatch.setattr(dask_module, "versions", lambda: different)
    with dask_workers(tmp_path, 1) as cluster, cluster.run() as workers:
        wait_until(lambda: bool(workers.problems()))
        (problem,) = workers.problems().values()
        assert f"av {here['av']}, not 1.0; install the versions" in str(problem)
        with pytest.raises(ClusterError, match=re.escape(f"av {here['av']}, not 1.0")):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_without_this_project_is_named(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "videomme_pipeline"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('no such package')")
    with dask_workers(tmp_path, 0) as cluster, cluster.run() as workers:
        cluster.start(PYTHONPATH=str(hidden.parent))
        with pytest.raises(ClusterError, match=r"worker tcp.*no such package"):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_says_that_it_has_no_worker_and_ends_after_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    with (
        dask_workers(tmp_path, 0) as cluster,
        cluster.spec.connect(tmp_path, messages.append) as workers,
    ):
        monkeypatch.setattr(
            workers, "spec", cluster.spec.model_copy(update={"max_wait_minutes": 0.1})
        )
        with pytest.raises(ClusterError, match=r"no worker for \d+ s .* raise `max_w"):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))
    assert messages == [f"cluster: {cluster.address} has no worker yet"]


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_that_ends_or_was_never_there_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with dask_workers(tmp_path, 1) as cluster, cluster.run() as workers:
        results = run_tasks(log_and_wait, _tasks(tmp_path, 20), workers=workers, limits=MINUTE)
        next(results)
        cluster.scheduler.kill()
        with pytest.raises(ClusterError, match="scheduler has ended or cannot be reached"):
            list(results)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterError, match=r"tcp://127.* cannot be used .* start it"),
    ):
        cluster.run().__enter__()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.cluster
def test_only_owners_of_a_certificate_reach_workers_with_tls(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours, theirs = (new_certificate(tmp_path / name) for name in ("ours", "theirs"))
    with dask_workers(tmp_path / "cluster", 1, ours) as cluster:
        with cluster.run() as workers:
            (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
        assert result.result() == 2
        cluster.tls = theirs
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
            pytest.raises(ClusterError, match="cannot be used"),
        ):
            cluster.run().__enter__()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_tasks_of_a_worker_that_ends_run_on_another_one(
    tmp_path: Path, number: signal.Signals
) -> None:
    with dask_workers(tmp_path / "runs") as cluster, cluster.run() as workers:
        wait_until(lambda: len(workers.problems()) == 2)
        results = run_tasks(log_and_wait, _tasks(tmp_path, 12), workers=workers, limits=MINUTE)
        next(results)
        cluster.processes[0].send_signal(number)
        values = [result.result() for result in results]
    assert len(values) == 11
    # Only the worker's task ran twice, and one before it whose result was not yet fetched.
    assert 12 <= len((tmp_path / "log").read_text().split()) <= 14


@pytest.mark.slow
@pytest.mark.cluster
def test_a_task_that_kills_its_workers_fails_after_four_of_them(tmp_path: Path) -> None:
    with dask_workers(tmp_path, 5) as cluster, cluster.run() as workers:
        wait_until(lambda: len(workers.problems()) == 5)
        (result,) = run_tasks(kill_worker, [1], workers=workers, limits=MINUTE)
    assert "on 4 different workers, but all those workers died" in str(result.error)


@pytest.mark.slow
@pytest.mark.cluster
def test_each_result_arrives_once_while_workers_die_hang_and_wake_up(tmp_path: Path) -> None:
    chance = random.Random(7)
    is_over = threading.Event()

    def disturb(cluster: DaskProcesses) -> None:
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

    with dask_workers(tmp_path / "runs", 3) as cluster, cluster.run() as workers:
        disturbing = threading.Thread(target=disturb, args=[cluster])
        disturbing.start()
        results = list(
            run_tasks(log_and_wait, _tasks(tmp_path, 40), workers=workers, limits=MINUTE)
        )
        is_over.set()
        disturbing.join()
    assert sorted(result.task[1] for result in results) == list(range(40))
    assert [result.error for result in results] == [None] * 40


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_go_on_after_a_run_was_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.support.child_tasks import write_pid\n"
        "from videomme_pipeline.cluster.dask import DaskSpec\n"
        "from videomme_pipeline.processes.tasks import TaskLimits, run_tasks\n"
        "with DaskSpec(scheduler=sys.argv[1]).connect(Path(), print) as workers:\n"
        "    tasks = [Path(sys.argv[2])]\n"
        "    list(run_tasks(write_pid, tasks, workers=workers, limits=TaskLimits(seconds=600)))\n"
    )
    with dask_workers(tmp_path / "runs", 1) as cluster:
        hanging = tmp_path / "hang"
        command = [sys.executable, "-c", program, cluster.address, str(hanging)]
        run = subprocess.Popen(command, cwd=ROOT)
        (child,) = wait_for_pids([hanging])
        run.kill()
        run.wait()
        with cluster.run() as workers:
            (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
        assert result.result() == 2
        assert not psutil.pid_exists(child)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_that_cannot_close_ends_after_a_minute(tmp_path: Path) -> None:
    with dask_workers(tmp_path, 1) as cluster, Client(cluster.address) as client:
        client.wait_for_workers(1)
        client.run(prepare_worker, versions(), os.getpid())
        client.run(keep_process_alive)
        cluster.scheduler.kill()
        (worker,) = cluster.processes
        wait_until(lambda: worker.poll() is not None)
    assert worker.returncode == 1


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_get_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with dask_workers(tmp_path / "runs", 1) as cluster, cluster.run() as workers:
        (result,) = run_tasks(environment_of_a_child, [0], workers=workers, limits=MINUTE)
    assert "canary" not in result.result().values()


@pytest.mark.slow
@pytest.mark.cluster
def test_videos_are_extracted_on_a_cluster_as_on_one_machine(
    two_workers: DaskProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.skipif(not s3_server.CAN_RUN, reason=s3_server.WHY_NOT)
def test_doctor_reads_an_object_store_with_the_credentials_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    def message_of(secret: str) -> str:
        use(**s3_server.s3_environment(server.endpoint, secret))
        with dask_workers(tmp_path / "runs", 1) as cluster:
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


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_connects_to_its_cluster_once(
    two_workers: DaskProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Path] = []
    connect = DaskSpec.connect

    @contextmanager
    def counted(spec: DaskSpec, folder: Path, *arguments: Any) -> Iterator[Workers]:
        connected.append(folder)
        with connect(spec, folder, *arguments) as workers:
            yield workers

    monkeypatch.setattr(DaskSpec, "connect", counted)
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


def new_certificate(folder: Path) -> dict[str, str]:
    """The files of a new certificate, as arguments of `distributed.Security`."""
    contents = Security.temporary().get_tls_config_for_role("client")
    files = {"ca_file": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
    for name in files:
        (folder / name).write_text(contents[name])
    return {option: str(folder / name) for name, option in files.items()}


def _write_cluster(configuration: Path, workers: DaskProcesses) -> None:
    content = workers.spec.model_dump(mode="json", exclude_none=True)
    (configuration / "cluster.yaml").write_text(yaml.safe_dump(content))


def _tasks(folder: Path, count: int) -> list[tuple[Path, int]]:
    return [(folder / "log", number) for number in range(count)]
