"""Cost of Dask: overhead per task, and frames from its workers against local children.

    python -m perf.cluster [--quick] [--json] [--workers 2] [--clip NAME]

A scheduler and workers of one task at a time are processes of this machine. They and a local pool
of as many children take turns on the same tasks, after one turn that is not counted. The least time
of all turns is reported, because other work on the machine only adds time. The first part runs
tasks that do nothing. The second part extracts 64 frames from each of several copies of a clip. Its
CPU time is that of all processes of the way, and depends less on other work than wall time does.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tests.support.child_tasks import double
from tests.support.clips import CLIPS, QUICK, clip
from tests.support.dask_workers import dask_workers
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import LocalWorkers, Workers, run_tasks
from videomme_pipeline.storage.layout import Store

TASKS = 500
VIDEOS = 8
QUICK_TASKS = 50
QUICK_VIDEOS = 2
LIMITS = TaskLimits(seconds=600)
SAMPLING = parse_sampling("uniform_n-64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one turn, few tasks, the smallest clip"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    names = [clip.name for clip in CLIPS]
    parser.add_argument("--clip", choices=names, default="60s_720p30", help="which clip to copy")
    parser.add_argument("--workers", type=int, default=2, help="number of workers and of children")
    arguments = parser.parse_args()
    if arguments.quick:
        result = measure(QUICK[0].name, arguments.workers, 1, QUICK_TASKS, QUICK_VIDEOS)
    else:
        result = measure(arguments.clip, arguments.workers, 5, TASKS, VIDEOS)
    for name, value in result.items():
        print(f"{name:32} {value:.4g}")
    if arguments.json:
        print(json.dumps(result))


@dataclass(frozen=True, slots=True)
class Way:
    """Workers, and their processes on this machine, which use CPU time beside this one."""

    workers: Workers
    processes: Sequence[psutil.Process] = ()

    def cpu_seconds(self) -> float:
        """CPU seconds of this process, of the workers, of their children, and of ended children."""
        children = [child for process in self.processes for child in process.children()]
        processes = [psutil.Process(), *self.processes, *children]
        return sum(sum(process.cpu_times()[:4]) for process in processes)


@dataclass(frozen=True, slots=True)
class Least:
    """The least wall-clock seconds and CPU seconds of all turns."""

    seconds: float
    cpu_seconds: float


def measure(
    clip_name: str, workers: int, turns: int, task_count: int, videos: int
) -> dict[str, float]:
    """Seconds of both ways, and what follows from them."""
    with (
        tempfile.TemporaryDirectory() as name,
        dask_workers(Path(name) / "dask", workers) as started,
        started.run() as cluster,
    ):
        processes = [
            psutil.Process(process.pid) for process in (*started.processes, started.scheduler)
        ]
        ways = {
            "local": Way(LocalWorkers(workers)),
            "cluster": Way(cluster, processes),
        }
        tasks = least(ways, partial(run_empty_tasks, task_count), turns)
        jobs = copies(Path(name), clip_name, videos)
        frames = least(ways, lambda workers: extract_all(jobs, workers), turns)
    local, on_cluster = (1000 * tasks[way].seconds / task_count for way in ("local", "cluster"))
    return {
        "local_task_ms": local,
        "cluster_task_ms": on_cluster,
        "overhead_per_task_ms": on_cluster - local,
        "local_frames_seconds": frames["local"].seconds,
        "cluster_frames_seconds": frames["cluster"].seconds,
        "efficiency": frames["local"].seconds / frames["cluster"].seconds,
        "local_frames_cpu_seconds": frames["local"].cpu_seconds,
        "cluster_frames_cpu_seconds": frames["cluster"].cpu_seconds,
        "cpu_efficiency": frames["local"].cpu_seconds / frames["cluster"].cpu_seconds,
    }


def least(ways: Mapping[str, Way], work: Callable[[Workers], None], turns: int) -> dict[str, Least]:
    """The least seconds of `work` in each way. The first turn is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns + 1):
        for name, way in ways.items():
            started, used = time.perf_counter(), way.cpu_seconds()
            work(way.workers)
            seconds[name].append(time.perf_counter() - started)
            cpu_seconds[name].append(way.cpu_seconds() - used)
    return {name: Least(min(seconds[name][1:]), min(cpu_seconds[name][1:])) for name in ways}


def run_empty_tasks(count: int, workers: Workers) -> None:
    assert sum(1 for _ in run_tasks(double, range(count), workers=workers, limits=LIMITS)) == count


def copies(folder: Path, clip_name: str, count: int) -> list[FrameJob]:
    """Several videos of the same content, of which each counts as another one."""
    original = clip(clip_name)
    paths = [folder / f"{number}.mp4" for number in range(count)]
    for path in paths:
        shutil.copy(original, path)
    return [
        FrameJob(video_id=path.stem, path=path, video_hash=path.stem, samplings=(SAMPLING,))
        for path in paths
    ]


def extract_all(jobs: list[FrameJob], workers: Workers) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = extract(jobs, store=Store.at(folder), workers=workers)
        assert all(result.error is None for result in results)


if __name__ == "__main__":
    main()
