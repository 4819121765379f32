"""The UI of a project beside an empty Dagster project: start, memory, idle CPU, pages.

    python -m perf.ui [--quick] [--json] [--folder FOLDER]

Starts `videomme ui` in FOLDER (default: the demo of this checkout, after `make demo`), and
`dagster dev` with a single asset in an empty folder. Both run at the same time. FOLDER can also be
a project that `perf.scale` has built (`900-videos`). A page is open when it shows its data and its
last request was answered. Each opens in a tab of its own, and all but the first find the UI's code
in the cache of the browser. Memory is the proportional set size of all processes, so that shared
pages count once. The idle time begins when both have answered for a minute.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import psutil
from playwright.sync_api import sync_playwright

from tests.support.browser import CHROMIUM_FLAGS, seconds_to_open
from tests.support.commands import environment_of
from tests.support.paths import ROOT
from tests.support.ports import free_port

EMPTY = (
    "import dagster as dg\n\n@dg.asset\ndef nothing(): ...\n\ndefs = dg.Definitions([nothing])\n"
)
PROGRAMS = Path(sys.executable).parent
PAGES = {
    "asset graph": ("asset-groups", "results"),
    "catalog": ("assets", "report_page"),
    "automation": ("automation", "upkeep_checks"),
}
"""Path of each page, and a text that it shows when it has its data."""
ASSETS = "{ assetNodes { assetKey { path } } }"
STARTS_WITHIN_SECONDS = 600
SETTLES_SECONDS = 60


@dataclass(slots=True)
class Cost:
    """Seconds until the first answer, megabytes and the share of a core of all processes."""

    starts_seconds: float
    memory_mb: float = 0.0
    core_percent: float = 0.0


@contextmanager
def started(
    command: list[str], folder: Path, port: int, **environment: str
) -> Iterator[tuple[psutil.Process, Cost]]:
    """A UI that answers at `port`, and the time until it did."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not answers(port):
            if process.poll() is not None or time.perf_counter() - began > STARTS_WITHIN_SECONDS:
                raise SystemExit(f"{' '.join(command)} did not start in {folder}")
            time.sleep(0.1)
        yield psutil.Process(process.pid), Cost(time.perf_counter() - began)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def answers(port: int) -> bool:
    try:
        return bool(httpx2.get(f"http://127.0.0.1:{port}/server_info", timeout=10).is_success)
    except httpx2.TransportError:
        return False


def of_all(process: psutil.Process) -> tuple[float, float]:
    """The megabytes and the CPU seconds of a process and its children."""
    family = [process, *process.children(recursive=True)]
    memory = sum(member.memory_full_info().pss for member in family) / 2**20
    return memory, sum(sum(member.cpu_times()[:2]) for member in family)


def pages(port: int) -> dict[str, float]:
    """The seconds that each page needs to open. Each asset has one."""
    address = f"http://127.0.0.1:{port}"
    assets = httpx2.post(f"{address}/graphql", json={"query": ASSETS}, timeout=300).json()
    keys = ["/".join(node["assetKey"]["path"]) for node in assets["data"]["assetNodes"]]
    seconds = {}
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        context = browser.new_context()
        of_assets = {key: (f"assets/{key}", "Code location") for key in keys}
        for name, (path, text) in (PAGES | of_assets).items():
            page = context.new_page()
            seconds[name] = seconds_to_open(page, f"{address}/{path}", text)
            page.close()
        browser.close()
    return seconds


def main() -> None:
    """Print the figures; `--json` prints one object as the last line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two seconds of idle time")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--folder", type=Path, default=ROOT, help="a project")
    options = parser.parse_args()
    folder, environment = options.folder.resolve(), dict[str, str]()
    if (folder / "configuration").exists():  # of `perf.scale`
        folder, environment = ROOT, dict(environment_of(folder))
    idle_seconds = 2 if options.quick else 120
    with TemporaryDirectory() as temporary:
        empty = Path(temporary)
        (empty / "definitions.py").write_text(EMPTY, encoding="utf-8")
        ports = free_port(), free_port()
        ours = [str(PROGRAMS / "videomme"), "ui"]
        theirs = [str(PROGRAMS / "dagster"), "dev", "-f", "definitions.py"]
        with (
            started(theirs, empty, ports[1], DAGSTER_HOME=str(empty)) as (dagster, dagster_cost),
            started(ours, folder, ports[0], **environment) as (project, project_cost),
        ):
            time.sleep(0 if options.quick else SETTLES_SECONDS)
            measured = ((project, project_cost), (dagster, dagster_cost))
            before = [of_all(process)[1] for process, _ in measured]
            time.sleep(idle_seconds)
            for (process, cost), cpu_before in zip(measured, before, strict=True):
                cost.memory_mb, cpu_seconds = of_all(process)
                cost.core_percent = 100 * (cpu_seconds - cpu_before) / idle_seconds
            opened = pages(ports[0])
    for name, cost in (("project", project_cost), ("empty", dagster_cost)):
        print(
            f"{name:>8}: answers after {cost.starts_seconds:.1f} s, {cost.memory_mb:.0f} MB, "
            f"{cost.core_percent:.1f}% of a core while idle"
        )
    for name, seconds in opened.items():
        print(f"{name:>28}: {seconds:.1f} s")
    if options.json:
        costs = {"project": asdict(project_cost), "empty": asdict(dagster_cost)}
        print(json.dumps({**costs, "pages": opened}))


if __name__ == "__main__":
    main()
