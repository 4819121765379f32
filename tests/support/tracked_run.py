"""Log two checkpoints with a real tracker, and print what its local files contain as JSON.

    python -m tests.support.tracked_run TRACKER FOLDER

This project and the tracker are installed in the environment.
"""

import json
import os
import sqlite3
import struct
import sys
from pathlib import Path
from typing import Any

from videomme_pipeline.project.trackers import log_checkpoint

SCORE = "videomme/short/score"
VALUES = ((100, 0.5, "passed"), (200, 0.375, "failed"))
"""Steps, scores and outcomes of the logged checkpoints."""


def main(tracker: str, folder: Path) -> None:
    os.chdir(folder)
    os.environ |= {
        "WANDB_MODE": "offline",
        "TRACKIO_DIR": str(folder),
        "MLFLOW_TRACKING_URI": f"file://{folder}/mlflow",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "SWANLAB_MODE": "offline",
        "SWANLAB_LOG_DIR": str(folder),
    }
    point = {"template": "short", "score_low": 0.25, "score_high": 0.75, "failed": 0}
    for step, score, outcome in VALUES:
        decided = {"score": score, "difference": None, "outcome": outcome}
        log_checkpoint(tracker, "tuned", step, [point | decided], "http://ui/tuned")
    print(json.dumps(_READ[tracker](folder)))  # noqa: T201


def _read_mlflow(_: Path) -> list[Any]:
    import mlflow  # noqa: PLC0415

    (run,) = mlflow.search_runs(output_format="list")
    logged = mlflow.MlflowClient().get_metric_history(run.info.run_id, SCORE)
    gates = [run.data.tags[f"videomme/short/gate.{entry.step}"] for entry in logged]
    return [[entry.step, entry.value, gate] for entry, gate in zip(logged, gates, strict=True)]


def _read_trackio(folder: Path) -> list[Any]:
    with sqlite3.connect(folder / "videomme.db") as connection:
        rows = connection.execute("select step, metrics from metrics order by step").fetchall()
    logged = [(step, json.loads(metrics)) for step, metrics in rows]
    return [[step, values[SCORE], values["videomme/short/gate"]] for step, values in logged]


def _read_wandb(folder: Path) -> list[Any]:
    """The values in the file of each call. wandb has no public reader of these files."""
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    return [value for value, file in zip(VALUES, files, strict=True) if _has(file, *value)]


def _read_swanlab(folder: Path) -> list[Any]:
    """As `_read_wandb`. Numbers are binary, and texts are files whose names have the step."""
    files = sorted(folder.glob("run-*"))
    return [
        [step, score, gate]
        for (step, score, gate), run in zip(VALUES, files, strict=True)
        if _has(run / "run-tuned.swanlab", SCORE, struct.pack("<d", score))
        and any(_has(text, gate) for text in run.glob(f"media/text/{step}-*.txt"))
    ]


def _has(file: Path, *values: object) -> bool:
    content = file.read_bytes()
    parts = (value if isinstance(value, bytes) else str(value).encode() for value in values)
    return all(part in content for part in parts)


_READ = {
    "mlflow": _read_mlflow,
    "trackio": _read_trackio,
    "wandb": _read_wandb,
    "swanlab": _read_swanlab,
}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
