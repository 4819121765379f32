"""The limits of the design: the figures of docs/scaling.md, computed from measured unit costs.

    python -m perf.cluster_model [--quick] [--json] [--page] [--folder FOLDER]

Measures what one partition costs a plan, the registration with Dagster and its event log (SQLite),
in the project of `perf.planning`. Memory is that of Python objects. Prints the table with these
costs. The page has the table with the costs in this file, which `--page` prints without measuring.
"""

import argparse
import json
import os
import shutil
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path

EVALUATIONS_AND_VIDEOS = ((100, 1_000), (1, 100_000), (1_000, 1_000), (1, 1_000_000))
MAX_KEYS = 100_000
"""The largest number of partitions of an asset that Dagster recommends."""
SHARDS = 256
VIDEO_STAGES = 3
"""Videos, frames (of one sampling) and subtitles have a partition per video."""
EVALUATION_STAGES = 2
"""Prompts and responses have a partition per video and evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    """CPU seconds and kB for one partition.

    `missing` partitions are planned when only questions are stored, `stored` ones when all is.
    """

    missing_seconds: float
    missing_kilobytes: float
    stored_seconds: float
    stored_kilobytes: float
    report_seconds: float
    event_kilobytes: float


RECORDED = UnitCosts(
    missing_seconds=94e-6,
    missing_kilobytes=1.4,
    stored_seconds=75e-6,
    stored_kilobytes=2.8,
    report_seconds=1.55e-3,
    event_kilobytes=3.2,
)
"""Measured with 9,006 partitions on two cores that other work used too, so times are high."""


def measure(folder: Path | None, *, is_quick: bool) -> UnitCosts:
    """The costs in a project of 900 videos, or 12, which is built if it does not exist."""
    from perf import planning  # noqa: PLC0415 - the page needs no Dagster

    videos = planning.QUICK_VIDEOS if is_quick else planning.VIDEOS
    folder = (folder or planning.DEFAULT_FOLDER / f"planning-{videos}").resolve()
    planning.prepare(folder, videos)
    everything, questions = folder / "data", folder / "questions-only"
    source = everything / "videomme" / "questions"
    shutil.copytree(source, questions / "videomme" / "questions", dirs_exist_ok=True)
    missing, stored = planned(folder, questions), planned(folder, everything)
    with planning.storage("sqlite") as instance:
        began = time.process_time()
        reported = planning.run_everything(planning.opened(folder), instance)
        report_seconds = (time.process_time() - began) / reported
        files = Path(os.environ["DAGSTER_HOME"]).rglob("*.db*")
        log_bytes = sum(path.stat().st_size for path in files)
    return UnitCosts(
        missing_seconds=missing[0],
        missing_kilobytes=missing[1],
        stored_seconds=stored[0],
        stored_kilobytes=stored[1],
        report_seconds=report_seconds,
        event_kilobytes=log_bytes / reported / 1000,
    )


def planned(folder: Path, data: Path) -> tuple[float, float]:
    """The least CPU seconds and the peak kB of a plan in a newly opened project, per partition."""
    from videomme_pipeline.project.project import open_project  # noqa: PLC0415
    from videomme_pipeline.stages.plan import plan_project  # noqa: PLC0415

    seconds = []
    for _ in range(3):
        began = time.process_time()
        partitions = len(plan_project(open_project(folder / "configuration", str(data))))
        seconds.append(time.process_time() - began)
    tracemalloc.start()
    plan_project(open_project(folder / "configuration", str(data)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return min(seconds) / partitions, peak_bytes / partitions / 1000


def figures(costs: UnitCosts, evaluations: int, keys: int) -> dict[str, str]:
    """The cells of one column: so many evaluations, each with so many keys."""
    partitions = keys * (VIDEO_STAGES + EVALUATION_STAGES * evaluations)
    minutes, gigabytes = partitions / 60, partitions / 1e6
    return {
        "keys of the largest asset": f"{keys * evaluations:,}",
        "plan, nothing built": f"{shown(minutes * costs.missing_seconds)} min, "
        f"{shown(gigabytes * costs.missing_kilobytes)} GB",
        "plan, everything built": f"{shown(minutes * costs.stored_seconds)} min, "
        f"{shown(gigabytes * costs.stored_kilobytes)} GB",
        "registration with Dagster": f"{shown(minutes * costs.report_seconds)} min",
        "event log": f"{shown(gigabytes * costs.event_kilobytes)} GB",
    }


def shown(value: float) -> str:
    return f"{value:,.1f}" if value >= 0.1 else "< 0.1"


def page(costs: UnitCosts) -> str:
    """The table of the page. Beyond the limit, the second figure is that of shards as keys."""
    columns = []
    for evaluations, videos in EVALUATIONS_AND_VIDEOS:
        column = figures(costs, evaluations, videos)
        if evaluations * videos > MAX_KEYS:
            sharded = figures(costs, evaluations, SHARDS)
            column = {name: f"{text} → {sharded[name]}" for name, text in column.items()}
        columns.append(column)
    heads = [f"{e:,} × {v:,}" for e, v in EVALUATIONS_AND_VIDEOS]
    cells = [["evaluations × videos", *heads]]
    cells += [[name, *(column[name] for column in columns)] for name in columns[0]]
    head, *rows = (f"| {' | '.join(line)} |" for line in cells)
    return "\n".join([head, f"|---{'|---:' * len(heads)}|", *rows])


def main() -> None:
    """Print the table; `--json` prints the costs as one object, as the last line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only 12 videos, not 900")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--page", action="store_true", help="print the table of docs/scaling.md")
    parser.add_argument("--folder", type=Path, help="where the project is built and kept")
    arguments = parser.parse_args()
    costs = RECORDED if arguments.page else measure(arguments.folder, is_quick=arguments.quick)
    print(page(costs))
    if arguments.json:
        print(json.dumps(asdict(costs)))


if __name__ == "__main__":
    main()
