"""Experiment trackers: the metrics of a checkpoint at its training step.

Each tracker continues the run that its own environment variable names (`WANDB_RUN_ID` …), or else
the run with the name of the training run. Its other variables (project, server, key) apply, too.
Other packages add a function like those of this module to the entry points `TRACKERS`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from videomme_pipeline.extras import needs_extra
from videomme_pipeline.plugins import TRACKERS, find

_METRICS = ("score", "score_low", "score_high", "difference", "failed")
_PROJECT = "videomme"

Metrics = Mapping[str, float]
Texts = Mapping[str, str]


def log_checkpoint(
    tracker: str, run: str, step: int, points: Sequence[Mapping[str, Any]], link: str
) -> None:
    """Log a checkpoint: scores with intervals, and the outcome of the gate with a link.

    `points` are the rows of the view `accuracy_by_checkpoint`, one per template. Raises
    MissingExtraError if the tracker is not installed.
    """
    metrics = {
        f"{_PROJECT}/{point['template']}/{name}": float(point[name])
        for point in points
        for name in _METRICS
        if point[name] is not None
    }
    texts = {f"{_PROJECT}/{point['template']}/gate": str(point["outcome"]) for point in points}
    log = find(TRACKERS, tracker, callable, title=f"tracker {tracker}", expected="a function")
    with needs_extra("trackers", f"`tracker: {tracker}`"):
        log(run, step, metrics, texts | {f"{_PROJECT}/page": link})


def log_to_wandb(run: str, step: int, metrics: Metrics, texts: Texts) -> None:
    """The step of a run of wandb only grows, so the training step is a metric of its own."""
    import wandb  # noqa: PLC0415

    name = f"{_PROJECT}/step"
    with wandb.init(id=os.environ.get("WANDB_RUN_ID", run), resume="allow") as logged:
        logged.define_metric(name)
        logged.define_metric(f"{_PROJECT}/*", step_metric=name)
        logged.log({name: step, **metrics, **texts})


def log_to_trackio(run: str, step: int, metrics: Metrics, texts: Texts) -> None:
    import trackio  # noqa: PLC0415

    project, name = (os.environ.get(f"TRACKIO_{key}") for key in ("PROJECT", "RUN_NAME"))
    trackio.init(project=project or _PROJECT, name=name or run, resume="allow", embed=False)
    trackio.log({**metrics, **texts}, step=step)
    trackio.finish()


def log_to_mlflow(run: str, step: int, metrics: Metrics, texts: Texts) -> None:
    import mlflow  # noqa: PLC0415

    run_id = os.environ.get("MLFLOW_RUN_ID")
    if run_id is None:
        same = mlflow.search_runs(filter_string=f"run_name = '{run}'", output_format="list")
        run_id = same[0].info.run_id if same else None
    with mlflow.start_run(run_id=run_id, run_name=run):
        mlflow.log_metrics(dict(metrics), step=step)
        mlflow.set_tags({f"{name}.{step}": text for name, text in texts.items()})


def log_to_swanlab(run: str, step: int, metrics: Metrics, texts: Texts) -> None:
    import swanlab  # noqa: PLC0415

    run_id = os.environ.get("SWANLAB_RUN_ID", run)
    swanlab.init(project=os.environ.get("SWANLAB_PROJECT", _PROJECT), id=run_id, resume="allow")
    swanlab.log({**metrics, **{name: swanlab.Text(text) for name, text in texts.items()}}, step)
    swanlab.finish()
