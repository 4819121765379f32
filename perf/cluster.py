"""Cost of a Dask cluster: overhead per task, and frames from two workers against two children.

    python -m perf.cluster [--quick] [--json]

The scheduler and two workers of one thread are processes of this machine. They and the local pool
of two children take turns on the same tasks, after one turn that is not counted. The least time of
all turns is reported, because other work on the machine only adds time. The first part runs tasks
that do nothing. The second part extracts 64 frames from each of several copies of a clip.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.child_tasks import double
from tests.support.clips import QUICK, clip
from tests.support.dask_cluster import dask_cluster
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.project.progress import no_message
from videomme_pipeline.store import Store
from videomme_pipeline.workers.cluster import connect
from videomme_pipeline.workers.spec import ClusterSpec
from videomme_pipeline.workers.tasks import Limits, LocalWorkers, Workers, run_tasks

TASKS = 500
VIDEOS = 8
LIMITS = Limits(seconds=600)
SAMPLING = parse_sampling("uniform_n-64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn instead of five")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result = measure(turns=1 if arguments.quick else 5)
    for name, value in result.items():
        print(f"{name:32} {value:.4g}")
    if arguments.json:
        print(json.dumps(result))


def measure(turns: int) -> dict[str, float]:
    """Seconds of both ways, and what follows from them."""
    with tempfile.TemporaryDirectory() as name, dask_cluster(Path(name)) as cluster:
        shared = Path(name) / "shared"
        shared.mkdir()
        spec = ClusterSpec(address=cluster.address)
        with connect(spec, shared, no_message) as dask:
            ways: dict[str, Workers] = {"local": LocalWorkers(2), "dask": dask}
            tasks = least_seconds(ways, run_empty_tasks, turns)
            jobs = copies(Path(name))
            frames = least_seconds(ways, lambda workers: extract_all(jobs, workers), turns)
    return {
        "local_task_ms": 1000 * tasks["local"] / TASKS,
        "dask_task_ms": 1000 * tasks["dask"] / TASKS,
        "overhead_per_task_ms": 1000 * (tasks["dask"] - tasks["local"]) / TASKS,
        "local_frames_seconds": frames["local"],
        "dask_frames_seconds": frames["dask"],
        "efficiency": frames["local"] / frames["dask"],
    }


def least_seconds(
    ways: Mapping[str, Workers], work: Callable[[Workers], None], turns: int
) -> dict[str, float]:
    """The least wall-clock seconds of `work` in each way. The first turn is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns + 1):
        for name, workers in ways.items():
            started = time.perf_counter()
            work(workers)
            seconds[name].append(time.perf_counter() - started)
    return {name: min(values[1:]) for name, values in seconds.items()}


def run_empty_tasks(workers: Workers) -> None:
    assert sum(1 for _ in run_tasks(double, range(TASKS), workers=workers, limits=LIMITS)) == TASKS


def copies(folder: Path) -> list[FrameJob]:
    """Several videos of the same content, of which each counts as another one."""
    original = clip(QUICK[0].name)
    paths = [folder / f"{number}.mp4" for number in range(VIDEOS)]
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
