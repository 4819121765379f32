"""A real training run: PyTorch writes checkpoints while the sensor of the UI evaluates them.

The model is tiny and learns to answer B, which is always right. One checkpoint is worse on purpose.
VIDEOMME_TRANSFORMERS is the folder of an environment with torch and `transformers serve`.
"""

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.cli import use, videomme
from tests.support.dagster_ui import running_ui, wait_until
from tests.support.paths import ROOT
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.project.nightly.alerts import URLS_VARIABLE
from videomme_pipeline.project.project import open_project
from videomme_pipeline.scoring.verdicts import read_checkpoints
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.warehouse.database import connect, query

pytestmark = [pytest.mark.slow, pytest.mark.engine]

VIDEOS, QUESTIONS = 12, 3
SECONDS = 1200.0


@pytest.fixture(scope="module")
def environment() -> str:
    folder = os.environ.get("VIDEOMME_TRANSFORMERS")
    if folder is None or shutil.which("transformers", path=f"{folder}/bin") is None:
        pytest.skip("VIDEOMME_TRANSFORMERS does not name an environment with transformers")
    return folder


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """The folder in which the training run writes its checkpoints."""
    folder = tmp_path / "training"
    folder.mkdir()
    return folder


@pytest.fixture
def store(
    tmp_path: Path, training: Path, environment: str, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """The data folder of a project with a benchmark in which B is always right."""
    videos, configuration = tmp_path / "clips", tmp_path / "configuration"
    rows = [
        {"video": f"{clip}.mp4", "question": f"What is in clip {clip}, part {part}?"}
        | {"options": ["Red", "Blue", "Green"], "answer": "B"}
        for clip in range(VIDEOS)
        for part in range(QUESTIONS)
    ]
    for clip in range(VIDEOS):
        write_video(videos / f"{clip}.mp4", frames=5, width=64, height=48)
    (videos / "questions.json").write_text(json.dumps(rows))
    (tmp_path / "home").mkdir()
    use(monkeypatch, tmp_path)
    for variable, value in {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}.items():
        monkeypatch.setenv(variable, value)
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        for arguments in ([], ["--benchmark", "clips", str(videos)]):
            ended = videomme("init", *arguments)
            assert ended.status == 0, ended.err
    serve = {
        "engine": "transformers",
        "weights": str(training / "untrained"),
        "gpus_per_replica": 0,
        "command": [f"{environment}/bin/transformers", "serve"],
        "start_seconds": 500,
    }
    for path in (configuration / "evaluations").glob("*.yaml"):
        path.unlink()
    contents: dict[str, Any] = {
        "models": {"tiny": {"serve": serve, "limits": {"concurrency": 1}}},
        "evaluations/blind": {"benchmark": "clips", "model": "tiny"}
        | {"generation": {"max_tokens": 4}},
        "checkpoints": {
            "run": {"pattern": f"{training}/checkpoint-*", "template": "blind", "margin": 30}
        },
    }
    for name, content in contents.items():
        (configuration / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return open_project(configuration, str(tmp_path / "data")).store


def train(environment: str, training: Path) -> "subprocess.Popen[bytes]":
    """Start the training loop, which continues from its last checkpoint."""
    with (training.parent / "training.log").open("ab") as log:
        script = ROOT / "tests" / "support" / "train_tiny.py"
        return subprocess.Popen(
            [f"{environment}/bin/python", str(script), str(training)], stdout=log, stderr=log
        )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all processes that it has started, at the same moment."""
    processes = [psutil.Process(process.pid)]
    processes += processes[0].children(recursive=True)
    for running in processes:
        with suppress(psutil.NoSuchProcess):
            running.send_signal(signal.SIGKILL)
    process.wait()


def is_saved(loop: "subprocess.Popen[bytes]", training: Path) -> bool:
    """True if the first checkpoint is complete. Fails if the training loop has ended before."""
    if (training / "checkpoint-100" / "trainer_state.json").exists():
        return True
    assert loop.poll() is None, (training.parent / "training.log").read_text()[-2000:]
    return False


def is_asked(store: Store, evaluation: str) -> bool:
    """True if some questions have an answer."""
    return len(store.variant_files("responses", "clips", evaluation)) > 0


def is_shown(step: int) -> bool:
    """True if the UI shows the result of the checkpoint of this step."""
    with open_instance() as instance:
        return f"run|{step}" in instance.get_materialized_partitions(dg.AssetKey("checkpoints"))


def outcomes(store: Store) -> dict[int, str]:
    return {row.step: row.outcome.value for row in read_checkpoints(store)}


def test_every_checkpoint_gets_its_verdict_although_every_process_is_killed(
    environment: str,
    training: Path,
    store: Store,
    tmp_path: Path,
    sink: tuple[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, alerts = sink
    monkeypatch.setenv(URLS_VARIABLE, url)
    loop = train(environment, training)
    with suppress(ProcessLookupError), running_ui(tmp_path) as ui:
        wait_until(lambda: is_saved(loop, training), SECONDS)
        kill(loop)
        loop = train(environment, training)
        wait_until(lambda: is_asked(store, "blind-run-100"), SECONDS)
        kill(ui.process)
    with running_ui(tmp_path):
        wait_until(lambda: loop.poll() is not None, SECONDS)
        wait_until(lambda: is_shown(400), SECONDS)
        assert outcomes(store) == {100: "passed", 200: "passed", 300: "failed", 400: "passed"}
    assert loop.returncode == 0
    gates = [alert["title"] for alert in alerts if "gate" in alert["title"]]
    assert gates == ["run, step 300: the gate failed"]
    with connect(open_project().store) as connection:  # its configuration knows the checkpoints
        scored = query(connection, "select evaluation from scored_questions")
        curve = query(connection, "select step, score from accuracy_by_checkpoint order by step")
        asked = query(connection, "select evaluation, question_id from attempts")
    assert [point["score"] for point in curve] == [1.0, 1.0, 0.0, 1.0]
    counted = Counter((row["evaluation"], row["question_id"]) for row in asked)
    assert set(counted.values()) == {1}, "no answer is asked for again"
    assert len(scored) == len(counted) == 4 * VIDEOS * QUESTIONS
    with open_instance() as instance:
        key = dg.AssetKey("checkpoints")
        partitions = [f"run|{step}" for step in (100, 200, 300, 400)]
        assert instance.get_dynamic_partitions("checkpoints") == partitions
        assert instance.get_materialized_partitions(key) == set(partitions)
        check = dg.AssetCheckKey(key, "gate")
        history = instance.event_log_storage.get_asset_check_execution_history(check, limit=4)
        statuses = [record.status.value for record in history]  # the last one first
        assert statuses[:2] == ["SUCCEEDED", "FAILED"]
