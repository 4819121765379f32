"""Memory and time of every command at full scale: 900 videos, 3 samplings, 6 evaluations.

    python -m perf.scale [--quick] [--json] [--folder FOLDER]

Builds two projects of tiny videos with the real commands: a third of the benchmark and all of it.
Every command and the Dagster UI run in processes of their own. Memory is the peak of the largest
process. A page of the UI is open when it shows its data in Chromium and its last request was
answered. Its CPU time is that of the server. The last columns extrapolate
linearly from the two sizes to ten times the benchmark. The evaluations are baselines, so the models
need neither time nor memory. A project in FOLDER is used again; then nothing is built.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx2
import psutil
from playwright.sync_api import sync_playwright

from perf.memory import peak_rss_mb
from perf.planning import (
    DEFAULT_FOLDER,
    QUICK_VIDEOS,
    SAMPLINGS,
    VIDEOS,
    Cost,
    best,
    opened,
    timed,
    write_project,
)
from tests.support.browser import CHROMIUM_FLAGS, seconds_to_open
from tests.support.ports import free_port
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.stages.plan import plan_project

EVALUATIONS: Mapping[str, Mapping[str, str]] = {
    "one": {"model": "constant-A", "sampling": SAMPLINGS[0]},
    "one-subtitles": {"model": "constant-A", "sampling": SAMPLINGS[0], "subtitles": "window-500"},
    "two": {"model": "random", "sampling": SAMPLINGS[1]},
    "two-subtitles": {"model": "random", "sampling": SAMPLINGS[1], "subtitles": "full"},
    "three": {"model": "longest-option", "sampling": SAMPLINGS[2]},
    "blind": {"model": "constant-B"},
}
COMMANDS: Mapping[str, Sequence[str]] = {
    "build everything": (
        *("dagster", "job", "execute"),
        *("-m", "videomme_pipeline.assets.definitions", "-j", "refresh_stale"),
    ),
    "run, all fresh": ("videomme", "run"),
    "status": ("videomme", "status"),
    "report": ("videomme", "report"),
    "sql": ("videomme", "sql", "select * from leaderboard"),
    "compare": ("videomme", "compare", "one", "two"),
    "export": ("videomme", "export", "two"),
}
GROWTH = 10
POLL_SECONDS = 0.05
UI_STARTS_WITHIN_SECONDS = 600
REQUESTS = 3
QUERIES: Mapping[str, str] = {
    "UI: partitions of the frames": """{
        assetNodeOrError(assetKey: {path: ["videomme", "frames"]}) { ... on AssetNode {
            partitionStats { numMaterialized numPartitions }
            assetPartitionStatuses { ... on MultiPartitionStatuses { ranges {
                primaryDimStartKey primaryDimEndKey } } } } } }""",
    "UI: states of all assets": """{
        assetNodes { id staleStatus partitionStats { numMaterialized numFailed } } }""",
}
PAGE_ARRIVES_WITHIN_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Seconds of wall time, CPU seconds of all processes, and the peak memory of the largest."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass(slots=True)
class WatchedProcess:
    """CPU time and peak memory of a process and its children, as far as they were seen."""

    process: psutil.Process
    started: float = field(default_factory=time.perf_counter)
    peak_mb: float = 0.0
    _cpu: dict[int, float] = field(default_factory=dict)

    def look(self) -> None:
        """Take one sample."""
        try:
            processes = [self.process, *self.process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            try:
                times, memory = process.cpu_times(), process.memory_info()
            except psutil.NoSuchProcess:
                continue
            self._cpu[process.pid] = times.user + times.system
            self.peak_mb = max(self.peak_mb, memory.rss / 2**20)

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def measured(self) -> Measurement:
        wall = time.perf_counter() - self.started
        return Measurement(wall_seconds=wall, cpu_seconds=self.cpu_seconds, peak_mb=self.peak_mb)


def measure(folder: Path, videos: int) -> dict[str, Measurement]:
    """All figures of one project, which is written if it does not exist."""
    if not (folder / "configuration" / "benchmarks.yaml").exists():
        folder.mkdir(parents=True)
        write_project(folder, videos, EVALUATIONS)
    measured: dict[str, Measurement] = {}
    for name, words in COMMANDS.items():
        with started(folder, words) as watched:
            while watched.process.is_running() and watched.process.status() != "zombie":
                watched.look()
                time.sleep(POLL_SECONDS)
            measured[name] = watched.measured()
        print(f"{videos:,} videos, {name}: {_cells(measured[name])}", flush=True)
    return measured | plans(folder) | ui(folder)


@contextmanager
def started(folder: Path, words: Sequence[str]) -> Iterator[WatchedProcess]:
    """A running command of this environment. An error is raised if it fails in the block."""
    (folder / "home").mkdir(exist_ok=True)
    log = folder / f"{'-'.join(words[:2])}.txt"
    program = Path(sys.executable).with_name(words[0])
    environment = os.environ | {
        "VIDEOMME_CONFIGURATION": str(folder / "configuration"),
        "VIDEOMME_DATA": str(folder / "data"),
        "DAGSTER_HOME": str(folder / "home"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *words[1:]], env=environment, stdout=output, stderr=output
        )
        try:
            yield WatchedProcess(psutil.Process(process.pid))
        finally:
            process.terminate()
            ended = process.wait(timeout=120)
    if ended > 0:
        raise SystemExit(f"{' '.join(words)}: exit code {ended}, see {log}")


def plans(folder: Path) -> dict[str, Measurement]:
    """The plan of all partitions in this process, first with empty caches and then warm."""
    costs: dict[str, Cost] = {}
    project = opened(folder)
    with timed(costs, "plan, first time"):
        states = plan_project(project)
    best(costs, "plan, warm", lambda: plan_project(project))
    print(f"{len(states):,} partitions")
    return {
        name: Measurement(wall_seconds=cost.wall, cpu_seconds=cost.cpu, peak_mb=peak_rss_mb())
        for name, cost in costs.items()
    }


def ui(folder: Path) -> dict[str, Measurement]:
    """The start of the Dagster UI, and its answers to the queries of the heaviest pages."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    words = ("dagster-webserver", "-w", "workspace.yaml", "-p", str(port), "-h", "127.0.0.1")
    measured = {}
    with started(folder, words) as watched:
        while not _answers(address):
            watched.look()
            if watched.measured().wall_seconds > UI_STARTS_WITHIN_SECONDS:
                raise SystemExit(f"the UI did not start; see {folder}")
        measured["UI: start"] = watched.measured()
        for name, query in QUERIES.items():
            began, cpu = time.perf_counter(), watched.cpu_seconds
            for _ in range(REQUESTS):
                reply = httpx2.post(f"{address}/graphql", json={"query": query}, timeout=300)
                assert "errors" not in reply.json(), reply.text[:500]
            watched.look()
            measured[name] = Measurement(
                wall_seconds=(time.perf_counter() - began) / REQUESTS,
                cpu_seconds=(watched.cpu_seconds - cpu) / REQUESTS,
                peak_mb=watched.peak_mb,
            )
        measured |= pages(address, *_building_run(folder), watched)
    return measured


def _building_run(folder: Path) -> tuple[str, int]:
    """The id of the first run, which built everything, and its number of steps."""
    os.environ["DAGSTER_HOME"] = str(folder / "home")
    with open_instance() as instance:
        run_id = instance.get_runs()[-1].run_id
        return run_id, len(instance.get_run_step_stats(run_id))


def pages(address: str, run_id: str, steps: int, watched: WatchedProcess) -> dict[str, Measurement]:
    """The opening of the pages of the UI, about the run that built everything."""
    frames = f"{address}/assets/videomme/frames?view="
    contents = {
        "asset graph": (f"{address}/locations/videomme/asset-groups/videomme/lineage", "scores"),
        "partitions of the frames": (f"{frames}partitions", SAMPLINGS[-1]),
        "checks of the frames": (f"{frames}checks&checkDetail=complete", "Succeeded"),
        "runs": (f"{address}/runs", run_id.partition("-")[0]),
        "one run": (f"{address}/runs/{run_id}", "Success"),
        "one run, all events": (f"{address}/runs/{run_id}", f"Succeeded ({steps})"),
    }
    measured = {}
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        for name, (page_address, text) in contents.items():
            page = browser.new_context().new_page()
            page.set_default_timeout(1000 * PAGE_ARRIVES_WITHIN_SECONDS)
            cpu = watched.cpu_seconds
            wall = seconds_to_open(page, page_address, text)
            watched.look()
            measured[f"UI page: {name}"] = Measurement(
                wall_seconds=wall,
                cpu_seconds=watched.cpu_seconds - cpu,
                peak_mb=watched.peak_mb,
            )
            page.context.close()
        browser.close()
    return measured


def _answers(address: str) -> bool:
    try:
        return bool(httpx2.get(f"{address}/server_info", timeout=10).is_success)
    except httpx2.TransportError:
        time.sleep(POLL_SECONDS)
        return False


def grown(small: Measurement, large: Measurement, step: float) -> Measurement:
    """The line through two sizes, `step` times their difference beyond the large one."""
    return Measurement(
        **{
            name: value + step * max(value - asdict(small)[name], 0)
            for name, value in asdict(large).items()
        }
    )


def _cells(measured: Measurement) -> str:
    """Wall time, CPU time and memory, in the columns of the table."""
    return f"{measured.wall_seconds:>9.2f}{measured.cpu_seconds:>9.2f}{measured.peak_mb:>7.0f}"


def main() -> None:
    """Print the figures; `--json` prints one object as the last line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_VIDEOS} videos")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER / "scale")
    arguments = parser.parse_args()
    videos = QUICK_VIDEOS if arguments.quick else VIDEOS
    folder = arguments.folder.resolve()
    sizes = [videos] if arguments.quick else [videos // 3, videos]
    columns = [measure(folder / f"{size}-videos", size) for size in sizes]
    if not arguments.quick:
        step = (GROWTH * videos - videos) / (videos - videos // 3)
        small, large = columns
        columns.append({name: grown(small[name], large[name], step) for name in large})
        sizes.append(GROWTH * videos)
    table = {name: [column[name] for column in columns] for name in columns[0]}
    heads = "".join(f"{size:>10,} videos, s, MB " for size in sizes)
    print(f"{'':34}{heads}")
    for name, cells in table.items():
        print(f"{name:34}{''.join(map(_cells, cells))}")
    if arguments.json:
        print(json.dumps({name: [asdict(cell) for cell in cells] for name, cells in table.items()}))


if __name__ == "__main__":
    main()
