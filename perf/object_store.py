"""An S3 server: frames that are read again, and planning.

    python -m perf.object_store [--json] [--quick] [--folder FOLDER]

Starts a server (SeaweedFS) on this machine. Planning uses the project of `perf.planning` in FOLDER,
which is built if it does not exist: its files are copied into the store, and each partition is
reported to an empty Dagster instance before it is planned.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from upath import UPath

from perf.planning import (
    DEFAULT_FOLDER,
    QUICK_VIDEOS,
    VIDEOS,
    Cost,
    assert_fresh,
    best,
    prepare,
    run_everything,
    storage,
    timed,
)
from tests.support.s3_server import s3_environment, s3_server
from videomme_pipeline.project.project import open_project
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import file_states
from videomme_pipeline.storage.tables import REQUESTS

READS = 10
URL = "s3://bucket/planning"


def _in_threads(work: Callable[..., None], *items: Sequence[Any]) -> None:
    with ThreadPoolExecutor(REQUESTS) as threads:
        list(threads.map(work, *items))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def frames_again() -> dict[str, float]:
    """Milliseconds to read 64 frames of 32 kB again, with and without a local copy."""
    path = Store.at("s3://bucket/again").frames("a", "a")
    table = pa.table({"picture": [os.urandom(32_000) for _ in range(64)]})
    path.fs.pipe_file(path.path, parquet.encode(table))
    parquet.read_copied_table(path)
    return {
        "without": _milliseconds(lambda: parquet.read_table(path)),
        "with": _milliseconds(lambda: parquet.read_copied_table(path)),
    }


def _milliseconds(work: Callable[[], object]) -> float:
    return 1000 * min(_seconds(work) for _ in range(READS))


def _copy(source: Store, target: Store) -> None:
    """Copy every file except local ones, as `rclone copy --exclude "local/**"` does."""
    names = [name for name in file_states(source.root) if not name.startswith("local/")]
    paths = [target.path(*name.split("/")) for name in names]
    _in_threads(_put, paths, [source.path(*name.split("/")) for name in names])


def _put(path: UPath, file: UPath) -> None:
    path.fs.pipe_file(path.path, file.read_bytes())


def planning(folder: Path, videos: int) -> dict[str, Any]:
    """The cost of a plan with all tables in the store."""
    prepare(folder, videos)
    costs: dict[str, Cost] = {}
    with timed(costs, "push"):
        _copy(Store.at(folder / "data"), Store.at(URL))
    with storage("sqlite") as instance:
        project = open_project(folder / "configuration", URL)
        with timed(costs, "report everything"):
            run_everything(project, instance)
        partitions = len(assert_fresh(project))
        best(costs, "plan, all fresh", lambda: assert_fresh(project))
        best(
            costs,
            "plan, process that just started",
            lambda: assert_fresh(open_project(folder / "configuration", URL)),
        )
    return {"partitions": partitions} | {name: asdict(cost) for name, cost in costs.items()}


def main() -> None:
    """Print the figures; `--json` prints one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_VIDEOS} videos, not {VIDEOS}, fewer files"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--folder", type=Path, help="where the project is built and kept")
    arguments = parser.parse_args()
    videos = QUICK_VIDEOS if arguments.quick else VIDEOS
    project = (arguments.folder or DEFAULT_FOLDER / f"planning-{videos}").resolve()
    with TemporaryDirectory() as name, s3_server(Path(name)) as server:
        folder = Path(name) / "local"
        os.environ.update(s3_environment(server.endpoint))
        os.environ["VIDEOMME_CACHE"] = f"{folder}/copies"
        rates: dict[str, Any] = {}
        rates["frames again, ms"] = frames_again()
        print(rates["frames again, ms"], flush=True)
        rates["planning"] = planning(project, videos)
        for key, value in rates["planning"].items():
            print(key, value)
    if arguments.json:
        print(json.dumps(rates))


if __name__ == "__main__":
    main()
