"""Tasks on a Dask cluster of real processes: same results, limits and errors as on one machine."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
import yaml
from distributed import Security

from tests.support.builders import write_video
from tests.support.child_tasks import (
    HeldValue,
    double,
    log_and_wait,
    misbehave,
    wait_for_pids,
    write_pid,
)
from tests.support.dask_cluster import DaskCluster, dask_cluster, write_keys
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.cluster import dask as cluster_module
from videomme_pipeline.cluster.dask import DaskWorkers, connect
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.tasks import TaskLimits, run_tasks
from videomme_pipeline.project.project import open_project
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.project.upkeep.doctor import examine
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.integrity import Verdict
from videomme_pipeline.videos.packets import PacketIndex
from videomme_pipeline.videos.probe import ProbeJob, content_hash, hash_and_probe, probe_videos

pytestmark = pytest.mark.slow

MINUTE = TaskLimits(seconds=60, memory_bytes=1 << 30)


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    folder, keys = tmp_path_factory.mktemp("dask"), Security.temporary()
    with dask_cluster(folder, security=keys) as cluster:
        yield cluster


@contextmanager
def workers_of(cluster: DaskCluster, folder: Path) -> Iterator[DaskWorkers]:
    with connect(cluster.spec, folder, ignore) as workers:
        yield workers


def test_tasks_of_a_cluster_have_the_results_and_errors_of_local_tasks(
    shared_cluster: DaskCluster, tmp_path: Path
) -> None:
    tasks = ["a", "crash", "raise", "eat", "b"]
    with workers_of(shared_cluster, tmp_path) as workers:
        assert workers.nodes == 2
        results = {
            result.task: str(result.error or result.value)
            for result in run_tasks(misbehave, tasks, workers=workers, limits=MINUTE)
        }
        many = list(run_tasks(double, range(50), workers=workers, limits=MINUTE))
    assert (results["a"], results["b"]) == ("did a", "did b")
    assert "SIGSEGV" in results["crash"]
    assert results["raise"] == "ValueError: a reason"
    assert "out of memory" in results["eat"]
    assert {result.task: result.value for result in many} == {n: 2 * n for n in range(50)}
    assert all(worker.poll() is None for worker in shared_cluster.workers)


def test_a_client_without_the_keys_of_a_cluster_is_rejected(
    shared_cluster: DaskCluster, tmp_path: Path
) -> None:
    spec, tls = shared_cluster.spec, shared_cluster.tls
    assert tls is not None
    for keys, message in (
        (None, "needs keys; set `tls` in cluster.yaml"),
        (tls.model_copy(update={"key": tmp_path / "missing"}), "cannot be used"),
        (write_keys(Security.temporary(), tmp_path), "TLS certificate does not match"),
    ):
        with (
            pytest.raises(ClusterError, match=message),
            connect(spec.model_copy(update={"tls": keys}), tmp_path, ignore),
        ):
            pass


def test_closing_the_iterator_ends_the_children_of_workers(
    shared_cluster: DaskCluster, tmp_path: Path
) -> None:
    tasks = [tmp_path / "hang", tmp_path / "done", tmp_path / "hang_too"]
    with workers_of(shared_cluster, tmp_path) as workers:
        results = run_tasks(write_pid, tasks, workers=workers, limits=TaskLimits(seconds=600))
        assert next(results).task.name == "done"
        children = wait_for_pids([tmp_path / "hang", tmp_path / "hang_too"])
        results.close()
        assert not any(map(psutil.pid_exists, children))


def test_a_worker_that_differs_or_has_other_data_runs_nothing(
    shared_cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with workers_of(shared_cluster, tmp_path) as workers:
        assert set(workers.problems().values()) == {None}
        (tmp_path / "marker").write_text("another folder")
        (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
        assert isinstance(result.error, ClusterError)
        assert "that all workers share" in str(result.error)
    here = cluster_module.versions()
    monkeypatch.setattr(cluster_module, "versions", lambda: {**here, "av": "1.0"})
    with workers_of(shared_cluster, tmp_path) as workers:
        (result,) = run_tasks(double, [1], workers=workers, limits=MINUTE)
    assert f"av {here['av']}, not 1.0" in str(result.error)


def test_tasks_of_a_killed_worker_run_on_another_worker(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as cluster, workers_of(cluster, tmp_path) as workers:
        results = run_tasks(log_and_wait, _tasks(tmp_path, 8), workers=workers, limits=MINUTE)
        next(results)
        cluster.workers[0].send_signal(signal.SIGKILL)
        values = [result.result() for result in results]
    assert len(values) == 7
    # The task that the dead worker had begun ran twice, and one whose value was on its way.
    assert 8 <= len((tmp_path / "log").read_text().split()) <= 10


def test_tasks_are_submitted_again_after_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as cluster, workers_of(cluster, tmp_path) as workers:
        results = run_tasks(log_and_wait, _tasks(tmp_path, 8), workers=workers, limits=MINUTE)
        next(results)
        restart = threading.Thread(target=_restart, args=[cluster])
        restart.start()
        values = [result.result() for result in results]
        restart.join()
    assert len(values) == 7


def test_a_value_lost_with_its_worker_is_computed_again(tmp_path: Path) -> None:
    def restart() -> None:
        while not (tmp_path / "held").exists():
            time.sleep(0.05)
        _restart(cluster)
        (tmp_path / "go").touch()

    with dask_cluster(tmp_path) as cluster, workers_of(cluster, tmp_path) as workers:
        restarting = threading.Thread(target=restart)
        restarting.start()
        (result,) = run_tasks(HeldValue, [tmp_path], workers=workers, limits=MINUTE)
        restarting.join()
    assert result.result().folder == tmp_path


def test_videos_are_extracted_on_a_cluster_as_on_one_machine(
    shared_cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "assets"
    configuration.mkdir()
    (configuration / "benchmarks.yaml").write_text("smoke:\n  limit: 2\n")
    cluster_file = yaml.safe_dump(shared_cluster.spec.model_dump(mode="json", exclude_none=True))
    (configuration / "cluster.yaml").write_text(cluster_file)
    monkeypatch.chdir(tmp_path)  # the workers have another working directory
    project = open_project(configuration, "data")
    workers = [finding for finding in examine(project) if finding.check.startswith("worker")]
    assert [finding.verdict for finding in workers] == [Verdict.OK] * 2
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
        assert cluster.dashboard is None or "127.0.0.1" in cluster.dashboard
    (probed_here,) = probe_videos([probe_job])
    (result_here,) = extract([frame_job], store=here)
    assert probed.result() == ahead.result() == probed_here.result()
    assert result.frame_sets == result_here.frame_sets
    stored = result.frame_sets[0].fingerprint
    assert read_frames(project.store, video_hash, stored) == read_frames(here, video_hash, stored)


@pytest.mark.slow
def test_a_run_connects_to_its_cluster_once(
    shared_cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Path] = []

    @contextmanager
    def counted(*arguments: Any) -> Iterator[DaskWorkers]:
        connected.append(arguments[1])
        with connect(*arguments) as workers:
            yield workers

    monkeypatch.setattr(cluster_module, "connect", counted)
    folder = tmp_path / "configuration"
    (folder / "evaluations").mkdir(parents=True)
    (folder / "benchmarks.yaml").write_text("smoke: {limit: 2}\nsmoke_v2: {limit: 1}\n")
    evaluation = {"benchmark": "smoke", "model": "constant-A", "sampling": "uniform_n-4"}
    for name in ("smoke", "smoke_v2"):
        file = folder / "evaluations" / f"{name}.yaml"
        file.write_text(yaml.safe_dump(evaluation | {"benchmark": name}))
    cluster_file = yaml.safe_dump(shared_cluster.spec.model_dump(mode="json", exclude_none=True))
    (folder / "cluster.yaml").write_text(cluster_file)
    project = open_project(folder, str(tmp_path / "data"))
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        refreshed = refresh_project(project, instance, ["smoke", "smoke_v2"])
    assert refreshed.not_fresh == []
    assert len(connected) == 1
    assert not connected[0].exists()


def _restart(cluster: DaskCluster) -> None:
    cluster.restart_scheduler()
    for _ in range(2):
        cluster.start_worker()


def _tasks(folder: Path, count: int) -> list[tuple[Path, int]]:
    return [(folder / "log", number) for number in range(count)]
