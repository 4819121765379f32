"""Checkpoints on real runs: what is recorded, evaluated, compared and repeated."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.cli import use, videomme
from tests.support.dagster_ui import running_ui
from tests.support.projects import WriteProject
from videomme_pipeline.assets import checkpoints
from videomme_pipeline.assets.checkpoints import (
    MAX_FAILURES,
    checkpoint_sensor,
    run_checkpoint,
    watch_once,
)
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.processes import PARTITION_TAG
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.project.checkpoints import CHECKPOINT_JOB, record_finished
from videomme_pipeline.project.nightly.alerts import URLS_VARIABLE
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.verdicts import Checkpoint, CheckpointOutcome, read_checkpoints
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.warehouse.database import connect, query

VIDEOS = [f"{number:03d}" for number in range(1, 13)]
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
        evaluations = {"blind": "served", "guess": "constant-A"}
        return write_project(
            {
                name: {"benchmark": "videomme", "model": model}
                for name, model in evaluations.items()
            },
            videos=VIDEOS,
        )

    return write_training


class Ticks:
    """Evaluations of the sensor, with what the daemon would store and start."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self._project, self._instance = project, instance
        self._cursor: str | None = None

    def tick(self) -> list[str | None]:
        """The partitions of the requested runs."""
        definitions = build_definitions(self._project)
        context = dg.build_sensor_context(
            instance=self._instance,
            cursor=self._cursor,
            repository_def=definitions.get_repository_def(),
        )
        evaluated = checkpoint_sensor(self._project).evaluate_tick(context)
        self._cursor = evaluated.cursor
        requests = evaluated.run_requests or []
        assert len({request.run_key for request in requests}) == len(requests)
        return [request.partition_key for request in requests]


def outcomes(project: Project) -> list[tuple[int, str, str | None]]:
    return [(row.step, row.outcome.value, row.verdict) for row in read_checkpoints(project.store)]


def asked(training: Path) -> Counter[str]:
    """The questions that each checkpoint was asked."""
    lines = (training / "asked").read_text().splitlines()
    assert len(lines) == len(set(lines)), "no checkpoint is asked a question twice"
    return Counter(line.split()[0] for line in lines)


def evaluate_all(project: Project, instance: dg.DagsterInstance) -> list[Checkpoint]:
    _, rows = watch_once(project, instance, record_finished(project, {}).unfinished)
    return rows


def store_run(instance: dg.DagsterInstance, key: str, status: dg.DagsterRunStatus) -> None:
    """Store a run of a checkpoint with a status."""
    instance.add_run(
        dg.DagsterRun(
            job_name=CHECKPOINT_JOB, status=status, tags={PARTITION_TAG: key}, run_config={}
        )
    )


def test_a_checkpoint_is_recorded_once_it_is_completely_written(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training()
    ticks = Ticks(project, instance)
    folder = write(training, 100)
    (folder / MARKER).unlink()
    (training / "checkpoint-last").mkdir()
    assert [ticks.tick(), ticks.tick()] == [[], []], "the last file is missing"
    (folder / MARKER).write_text("{}")
    assert ticks.tick() == [], "a file may still change"
    (folder / "weights.safetensors").write_text("longer than before")
    assert ticks.tick() == []
    assert ticks.tick() == ["tiny|100"]
    assert outcomes(project) == [(100, "pending", None)]
    assert "blind-tiny-100" in project.reopened().configuration.evaluations


def test_checkpoints_are_requested_one_after_another(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training()
    ticks = Ticks(project, instance)
    write(training, 1000)
    write(training, 200)
    ticks.tick()
    assert ticks.tick() == ["tiny|200"], "the lowest step"
    store_run(instance, "tiny|200", dg.DagsterRunStatus.STARTED)
    assert ticks.tick() == [], "a run works on it"
    assert instance.get_dynamic_partitions("checkpoints") == ["tiny|200", "tiny|1000"]


def test_a_checkpoint_that_was_submitted_is_not_requested_again(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(write_training(), instance)
    write(training, 100)
    store_run(instance, "tiny|100", dg.DagsterRunStatus.STARTED)
    assert [ticks.tick(), ticks.tick()] == [[], []], "its own run began before it was recorded"


def test_a_checkpoint_whose_runs_die_is_given_up_at_last(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training()
    ticks = Ticks(project, instance)
    write(training, 100)
    write(training, 200)
    ticks.tick()
    store_run(instance, "tiny|100", dg.DagsterRunStatus.CANCELED)
    for _ in range(MAX_FAILURES):
        assert ticks.tick() == ["tiny|100"]
        store_run(instance, "tiny|100", dg.DagsterRunStatus.FAILURE)
    ticks.tick()
    assert outcomes(project) == [(100, "not evaluated", None), (200, "pending", None)]
    assert ticks.tick() == ["tiny|200"]


@pytest.mark.slow
def test_a_drop_fails_the_gate_and_sends_an_alert(
    training: Path,
    write_training: WriteTraining,
    instance: dg.DagsterInstance,
    sink: tuple[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, alerts = sink
    monkeypatch.setenv(URLS_VARIABLE, url)
    project = write_training(margin=30)
    write(training, 100)
    write(training, 200)
    write(training, 300, wrong_every=2)
    write(training, 400)
    evaluate_all(project, instance)
    assert outcomes(project) == [
        (100, "passed", None),
        (200, "passed", "equivalent"),
        (300, "failed", "worse"),
        (400, "passed", "better"),
    ]
    (alert,) = alerts
    assert alert["title"] == "tiny, step 300: the gate failed"
    assert "accuracy: worse, -50.0 points" in alert["message"]
    key = dg.AssetKey("checkpoints")
    check = dg.AssetCheckKey(key, "gate")
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
    statuses = [record.status.value for record in history]  # the last one first
    assert statuses == ["SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert set(asked(training).values()) == {36}
    assert evaluate_all(project, instance) == []
    with connect(project.reopened().store) as connection:
        points = query(connection, "from accuracy_by_checkpoint order by step")
    assert [point["score"] for point in points] == [1.0, 1.0, 0.5, 1.0]


@pytest.mark.slow
def test_the_best_checkpoint_or_a_fixed_evaluation_can_be_the_reference(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training(compare_with="best")
    for step, wrong_every in ((100, 2), (200, None), (300, 2), (400, None)):
        write(training, step, wrong_every)
    references = [row.reference for row in evaluate_all(project, instance)]
    assert references == [None, "blind-tiny-100", "blind-tiny-200", "blind-tiny-200"]
    project = write_training(compare_with="guess")
    write(training, 500)
    (row,) = evaluate_all(project, instance)
    assert (row.reference, row.verdict) == ("guess", "better")


@pytest.mark.slow
def test_a_deleted_checkpoint_is_an_outcome_and_its_results_stay(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training()
    folders = [write(training, step) for step in (100, 200, 300)]
    record_finished(project, record_finished(project, {}).unfinished)
    shutil.rmtree(folders[1])
    watch_once(project.reopened(), instance, {})
    shutil.rmtree(folders[0])
    assert outcomes(project) == [
        (100, "passed", None),
        (200, "deleted", None),
        (300, "undecided", "undecided"),
    ]
    (reference,) = {row.reference for row in read_checkpoints(project.store)} - {None}
    assert reference == "blind-tiny-100", "the one before was not evaluated"
    project = project.reopened()
    assert "blind-tiny-200" not in project.configuration.evaluations
    states = plan_project(project, ["blind-tiny-100", "blind-tiny-300"])
    responses = [state for state in states if state.stage.asks_models]
    assert {state.freshness for state in responses} == {Freshness.FRESH}


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_served_is_not_evaluated_until_it_is_submitted_again(
    training: Path, write_training: WriteTraining, instance: dg.DagsterInstance
) -> None:
    project = write_training()
    folder = write(training, 100)
    write(training, 200)
    write(training, 300, wrong_every=2)
    (folder / "broken").touch()
    rows = evaluate_all(project, instance)
    assert outcomes(project) == [
        (100, "not evaluated", None),
        (200, "passed", None),
        (300, "failed", "worse"),
    ]
    assert "out of memory" in str(rows[0].reason)
    (folder / "broken").unlink()
    (row,) = run_checkpoint(project.reopened(), instance, "tiny|100")
    assert row.outcome is CheckpointOutcome.PASSED
    (shown,) = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey("checkpoints"), "gate"), limit=1
    )
    assert shown.status.value == "FAILED", "an old checkpoint hides no newer failure"


@pytest.mark.slow
def test_a_submitted_checkpoint_is_recorded_if_it_is_finished(
    training: Path,
    write_training: WriteTraining,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN_LOOKS", 0.1)
    monkeypatch.setitem(sys.modules, "wandb", None)
    project = write_training(tracker="wandb")
    with pytest.raises(NotReadyError, match="checkpoint 100 of tiny does not exist"):
        run_checkpoint(project, instance, "tiny|100")
    folder = write(training, 100)
    (folder / MARKER).unlink()
    with pytest.raises(NotReadyError, match=r"trainer_state\.json is missing"):
        run_checkpoint(project, instance, "tiny|100")
    (folder / MARKER).touch()
    (row,) = run_checkpoint(project, instance, "tiny|100")
    assert row.outcome is CheckpointOutcome.PASSED
    assert "wandb: step 100 of tiny is not logged" in caplog.text


@pytest.mark.slow
def test_watch_ends_with_the_status_of_the_worst_gate(
    root: Path, training: Path, write_training: WriteTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_training()
    use(monkeypatch, root)
    ended = videomme("checkpoint", "watch", "--once")
    assert (ended.status, ended.out) == (0, "")
    write(training, 100)
    write(training, 200, wrong_every=2)
    (write(training, 300) / MARKER).unlink()
    ended = videomme("checkpoint", "watch", "--once", "--every", "0.1", "--json")
    assert ended.status == 1
    assert [row["outcome"] for row in ended.json] == ["passed", "failed"]
    assert "Not finished: tiny|300" in ended.err
    assert videomme("checkpoint", "watch", "--once", "--every", "0.1").status == 0, (
        "nothing is repeated"
    )
    monkeypatch.setenv("VIDEOMME_UI", "http://127.0.0.1:1")
    assert "start `videomme ui`" in videomme("checkpoint", "submit", "tiny", "100").err


@pytest.mark.slow
def test_a_training_loop_submits_a_checkpoint_and_waits_for_its_verdict(
    root: Path, training: Path, write_training: WriteTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_training()
    use(monkeypatch, root)
    write(training, 100)
    with running_ui(root) as ui:
        monkeypatch.setenv("VIDEOMME_UI", ui.url)
        first = videomme("checkpoint", "submit", "tiny", "100")
        assert first.status == 0, first.err
        ended = videomme("checkpoint", "wait", first.out.strip(), "--json")
        assert (ended.status, ended.json[0]["outcome"]) == (0, "passed"), ended
        write(training, 200, wrong_every=2)
        second = videomme("checkpoint", "submit", "tiny", "200")
        ended = videomme("checkpoint", "wait", second.out.strip())
        assert ended.status == 1
        assert "blind-tiny-200: failed. Against blind-tiny-100: accuracy: worse" in ended.out
        missing = videomme("checkpoint", "submit", "tiny", "300")
        assert missing.err.endswith("names no checkpoint of this step; it has 100, 200\n")
        assert "no training run `other`" in videomme("checkpoint", "submit", "other", "1").err
        assert "check the id" in videomme("checkpoint", "wait", "1").err
    log = (root / "ui.log").read_text(encoding="utf-8")
    assert "No dagster instance configuration" not in log, "no process opened a new home too early"
