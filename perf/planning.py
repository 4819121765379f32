"""Cost of planning and of reporting to Dagster: 900 videos, 2 samplings, 9,000 partitions.

    python -m perf.planning [--quick] [--json] [--storage sqlite|postgres] [--folder FOLDER]

The first run builds everything in FOLDER, which takes some minutes: 900 tiny videos, their frames
under 2 samplings (1,800 partitions) and three evaluations with constant answers. Each run then
starts with an empty Dagster instance. Every partition has to be planned, looked up in the store and
reported, but none has to be built, so only orchestration is measured. For comparison, the script
also measures Dagster runs of one partition each, and the creation of a run of a range. PostgreSQL
is a temporary server on the loopback interface. Wall time includes its work, CPU time does not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import dagster as dg
import psutil
import yaml
from filelock import FileLock

from tests.support.builders import write_video
from tests.support.postgres_server import running_postgres
from tests.support.published_data import parquet_bytes, v1_rows, youtube_ids
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.stages.plan import Freshness, PartitionState, plan_project
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

VIDEOS = 900
QUICK_VIDEOS = 12
SAMPLINGS = ("uniform_n-4", "uniform_n-8", "uniform_n-10")
EVALUATIONS = {
    "one": {"model": "constant-A", "sampling": SAMPLINGS[0]},
    "two": {"model": "constant-B", "sampling": SAMPLINGS[1]},
    "subtitles": {"model": "constant-A", "sampling": SAMPLINGS[0], "subtitles": "window-500"},
}
SINGLE_RUNS = 5
DEFAULT_FOLDER = Path(gettempdir()) / "videomme-perf"
PLANNED_EVENTS = "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"
"""With this variable, Dagster plans a range in one event, and never shows its keys as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of wall time and of CPU time of this process (or of one that it started)."""

    wall: float
    cpu: float


@contextmanager
def timed(costs: dict[str, Cost], name: str) -> Iterator[None]:
    """Store the cost of the block under `name`."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    costs[name] = Cost(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)


def best(costs: dict[str, Cost], name: str, work: Callable[[], object], times: int = 3) -> None:
    """Store the lowest cost of several calls of `work`: the cost when it is warm."""
    for number in range(times):
        with timed(costs, f"{name} {number}"):
            work()
    repeated = [costs.pop(f"{name} {number}") for number in range(times)]
    costs[name] = min(repeated, key=lambda cost: cost.wall)


def prepare(folder: Path, videos: int) -> None:
    """Write the project and build all of it, if no other process has."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if (folder / "prepared").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write_project(folder, videos, EVALUATIONS)
        with dg.DagsterInstance.ephemeral() as instance:
            project = opened(folder)
            run_everything(project, instance)
            assert_fresh(project)
        (folder / "prepared").touch()


def write_project(folder: Path, videos: int, evaluations: Mapping[str, Mapping[str, str]]) -> None:
    """Write tiny videos with subtitles, and the configuration of `evaluations`."""
    copy = folder / "copy"
    annotations = copy / "videomme" / "test-00000-of-00001.parquet"
    annotations.parent.mkdir(parents=True)
    annotations.write_bytes(parquet_bytes(v1_rows()))
    template = write_video(folder / "template.mp4", frames=12, width=64, height=48).read_bytes()
    (copy / "data").mkdir()
    (copy / "subtitle").mkdir()
    for number, youtube_id in enumerate(youtube_ids(VIDEOS)[:videos]):
        _write_copy(copy / "data" / f"{youtube_id}.mp4", template, number)
        subtitle = f"1\n00:00:00,000 --> 00:00:01,000\nline {number}\n"
        (copy / "subtitle" / f"{youtube_id}.srt").write_text(subtitle)
    configuration = folder / "configuration"
    (configuration / "evaluations").mkdir(parents=True)
    for name, evaluation in evaluations.items():
        path = configuration / "evaluations" / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"benchmark": "videomme", **evaluation}))
    benchmark = {
        "accept_license": True,
        "source": "folder",
        "folder": str(copy),
        "videos": [f"{number + 1:03d}" for number in range(videos)],
    }
    (configuration / "benchmarks.yaml").write_text(yaml.safe_dump({"videomme": benchmark}))


def opened(folder: Path) -> Project:
    return open_project(folder / "configuration", str(folder / "data"))


def measure(folder: Path, videos: int, instance: dg.DagsterInstance) -> dict[str, Any]:
    """All figures for one storage."""
    costs: dict[str, Cost] = {}
    project = opened(folder)
    with timed(costs, "report everything"):
        reported = run_everything(project, instance)
    states = assert_fresh(project)
    best(costs, "plan, all fresh", lambda: plan_project(project))
    best(costs, "plan, process that just started", lambda: plan_project(opened(folder)))

    number = videos // 2
    changed = folder / "copy" / "data" / f"{youtube_ids(VIDEOS)[:videos][number]}.mp4"
    before = changed.read_bytes()
    _write_copy(changed, before, videos + number)
    try:
        best(costs, "plan, one video changed", lambda: plan_project(project))
        stale = [s for s in plan_project(project) if s.freshness is not Freshness.FRESH]
        by_stage = Counter(state.stage.name for state in stale)
        assert {s.partition.video for s in stale} == {f"{number + 1:03d}", None}
    finally:
        changed.write_bytes(before)
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    with timed(costs, f"{SINGLE_RUNS} runs of one partition, in one process"):
        for single in range(1, SINGLE_RUNS + 1):
            job.execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(["videomme", "frames"])],
                partition_key=dg.MultiPartitionKey(
                    {"video": f"{single:03d}", "sampling": SAMPLINGS[0]}
                ),
            )
    costs["one run of one partition, a process of its own"] = _single_process(folder)
    for value, name in {"": "an event per key", "true": "one event"}.items():
        os.environ[PLANNED_EVENTS] = value
        with timed(costs, f"a run of {videos} frames is created, {name}"):
            instance.create_run_for_job(
                job,
                asset_selection=frozenset({dg.AssetKey(["videomme", "frames"])}),
                tags={
                    "dagster/asset_partition_range_start": f"{SAMPLINGS[0]}|001",
                    "dagster/asset_partition_range_end": f"{SAMPLINGS[0]}|{videos:03d}",
                },
            )
    del os.environ[PLANNED_EVENTS]
    return {
        "partitions": len(states),
        "reported": reported,
        "cpu_milliseconds_per_reported_partition": 1000 * costs["report everything"].cpu / reported,
        "stale_after_one_video": dict(by_stage),
        "costs": {name: asdict(cost) for name, cost in costs.items()},
    }


def run_everything(project: Project, instance: dg.DagsterInstance) -> int:
    """Run `refresh_stale` over all partitions, as the UI does. Return the number it reported."""
    job = build_definitions(project).resolve_job_def(REFRESH_JOB)
    project.built.clear()
    project.registered.clear()
    job.execute_in_process(instance=instance, run_config={"evaluations": []})
    return project.built.total() + project.registered.total()


def assert_fresh(project: Project) -> list[PartitionState]:
    states = plan_project(project)
    stale = [(s.name, s.reason) for s in states if s.freshness is not Freshness.FRESH]
    assert not stale, stale[:3]
    return states


def _write_copy(path: Path, video: bytes, number: int) -> None:
    """Write the same pictures with other bytes: a `free` box at the end contains `number`."""
    path.write_bytes(video + (16).to_bytes(4) + b"free" + number.to_bytes(8))


def _single_process(folder: Path) -> Cost:
    """Cost of `dagster asset materialize` for one partition, in a process of its own."""
    command = [
        *(str(Path(sys.executable).with_name("dagster")), "asset", "materialize"),
        *("--select", "key:videomme/frames", "--partition", f"{SAMPLINGS[0]}|001"),
        *("-m", "videomme_pipeline.assets.definitions"),
    ]
    environment = os.environ | {
        "VIDEOMME_CONFIGURATION": str(folder / "configuration"),
        "VIDEOMME_DATA": str(folder / "data"),
    }
    started, before = time.perf_counter(), psutil.Process().cpu_times()
    subprocess.run(command, check=True, env=environment, capture_output=True)
    after = psutil.Process().cpu_times()
    cpu = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return Cost(wall=time.perf_counter() - started, cpu=cpu)


@contextmanager
def storage(kind: str) -> Iterator[dg.DagsterInstance]:
    """Dagster instance without events."""
    with TemporaryDirectory() as home:
        os.environ["DAGSTER_HOME"] = home
        if kind == "sqlite":
            with open_instance() as instance:
                yield instance
        else:
            with running_postgres() as url:
                os.environ[POSTGRES_VARIABLE] = url
                with open_instance() as instance:
                    yield instance


def main() -> None:
    """Print the figures; `--json` prints one object as the last line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_VIDEOS} videos, not {VIDEOS}")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--storage", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--folder", type=Path, help="where the project is built and kept")
    arguments = parser.parse_args()
    videos = QUICK_VIDEOS if arguments.quick else VIDEOS
    folder = (arguments.folder or DEFAULT_FOLDER / f"planning-{videos}").resolve()
    prepare(folder, videos)
    with storage(arguments.storage) as instance:
        result = measure(folder, videos, instance)
    print(f"{arguments.storage}: {result['partitions']:,} partitions")
    print(f"reported: {result['reported']:,}")
    print(f"stale after one video changed: {result['stale_after_one_video']}")
    for name, cost in result["costs"].items():
        print(f"{name:50} {cost['wall']:8.2f} s wall {cost['cpu']:8.2f} s CPU")
    print(f"CPU per reported partition: {result['cpu_milliseconds_per_reported_partition']:.2f} ms")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
