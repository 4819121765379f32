"""Hours, storage, requests and events of large evaluations, computed from unit costs.

    python -m perf.cluster_model [--json]

One evaluation with 64 frames and subtitles. Each core works on one video at a time. One process
plans, reports to Dagster and sends requests, so these do not become faster with more cores. The
time of the model itself is not included: it depends on its GPUs.
"""

import argparse
import json
from dataclasses import asdict, dataclass

VIDEOS = (900, 100_000)
WORKERS = (1, 16, 256)
MAX_PARTITIONS_PER_ASSET = 100_000
"""The largest number that Dagster recommends."""

# Estimated. All others are measured; docs/performance.md has the sources.
VIDEO_CORE_SECONDS = 6.4
"""Hashing, probing and extraction of 64 frames of one video of Video-MME."""
FRAME_MEGABYTES = 0.04

TASK_SECONDS = 0.0044
"""The submitting process, per task."""
TASKS_PER_VIDEO = 3
REQUESTS_PER_SECOND = 200.0
"""One process sends so many requests of 64 frames."""
REPORT_SECONDS = 0.0032
"""Reporting a partition to Dagster in PostgreSQL."""
PLAN_SECONDS = 45e-6
"""Planning a partition in a warm process."""

FRAMES = 64
QUESTIONS_PER_VIDEO = 3
PARTITIONED_STAGES = 5
"""Videos, frames, subtitles, prompts and responses: one partition per video each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Hours of each part, and totals. The parts are done one after the other."""

    videos: int
    workers: int
    extract_hours: float
    report_hours: float
    request_hours: float
    plan_seconds: float
    storage_gigabytes: float
    requests: int
    events: int
    bottleneck: str

    @property
    def hours(self) -> float:
        return self.extract_hours + self.report_hours + self.request_hours


def predict(videos: int, workers: int) -> Prediction:
    """The prediction for one evaluation of so many videos on so many cores."""
    partitions, requests = videos * PARTITIONED_STAGES, videos * QUESTIONS_PER_VIDEO
    by_cores = videos * VIDEO_CORE_SECONDS / workers
    by_tasks = videos * TASKS_PER_VIDEO * TASK_SECONDS if workers > 1 else 0.0
    seconds = {
        "cores that extract frames": by_cores,
        "the process that submits tasks": by_tasks,
        "events of Dagster": partitions * REPORT_SECONDS,
        "the process that sends requests": requests / REQUESTS_PER_SECOND,
    }
    return Prediction(
        videos=videos,
        workers=workers,
        extract_hours=max(by_cores, by_tasks) / 3600,
        report_hours=seconds["events of Dagster"] / 3600,
        request_hours=seconds["the process that sends requests"] / 3600,
        plan_seconds=partitions * PLAN_SECONDS,
        storage_gigabytes=videos * FRAMES * FRAME_MEGABYTES / 1000,
        requests=requests,
        events=partitions,
        bottleneck=max(seconds, key=lambda part: seconds[part]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    predictions = [predict(videos, workers) for videos in VIDEOS for workers in WORKERS]
    for predicted in predictions:
        print(
            f"{predicted.videos:,} videos on {predicted.workers} cores: {predicted.hours:.2f} hours"
        )
        for name, value in asdict(predicted).items():
            shown = f"{value:,.2f}" if isinstance(value, float) else value
            print(f"    {name:20} {shown}")
    if arguments.json:
        print(json.dumps([asdict(predicted) for predicted in predictions]))


if __name__ == "__main__":
    main()
