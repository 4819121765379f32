"""Checkpoints on real runs: what is recorded, evaluated, compared and repeated."""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.projects import WriteProject
from videomme_pipeline.assets.checkpoints import (
    checkpoint_sensor,
    evaluate_checkpoint,
    run_checkpoint,
    watch_once,
)
from videomme_pipeline.project.checkpoints import record_finished
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.checkpoint import Checkpoint, read_checkpoints

VIDEOS = [f"{number:03d}" for number in range(1, 43)]
MARKER = "trainer_state.json"

WriteTraining = Callable[..., Project]


@pytest.fixture
def training(root: Path) -> Path:
    """The folder in which a training run writes its checkpoints."""
    folder = root / "training"
    folder.mkdir()
    return folder


def write(training: Path, step: int, wrong_every: int | None = None) -> Path:
    """Write a finished checkpoint that answers every n-th question wrong."""
    folder = training / f"checkpoint-{step}"
    folder.mkdir(exist_ok=True)
    (folder / "weights.safetensors").write_text(f"{step} {wrong_every}")
    (folder / "wrong_every").write_text("" if wrong_every is None else str(wrong_every))
    (folder / MARKER).write_text("{}")
    return folder


@pytest.fixture
def write_training(root: Path, training: Path, write_project: WriteProject) -> WriteTraining:
    """Return a function that opens a project with the training run `tiny`."""

    def write_training(**run: Any) -> Project:
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        serve = {
            "engine": "vllm",
            "weights": str(training),
            "gpus_per_replica": 0,
            "command": [sys.executable, "-m", "tests.support.checkpoint_engine"],
        }
        models = {"served": {"serve": serve, "limits": {"concurrency": 4}}}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        entry = {"pattern": str(training / "checkpoint-*"), "template": "blind", **run}
        (folder / "checkpoints.yaml").write_text(yaml.safe_dump({"tiny": entry}))
        return write_project({"blind": {"benchmark": "videomme", "model": "served"}}, videos=VIDEOS)

    return write_training


def outcomes(project: Project) -> list[tuple[int, str, str | None]]:
    return [(row.step, row.outcome.value, row.verdict) for row in read_checkpoints(project.store)]


def test_checkpoints_are_evaluated_in_order_and_a_drop_fails_the_gate(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training()
    write(training, 100)
    write(training, 200, wrong_every=2)
    seen = record_finished(project, {})
    _, rows = watch_once(project, instance, seen)
    print(rows)
    assert outcomes(project) == [(100, "passed", None), (200, "failed", "worse")]
