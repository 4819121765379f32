"""Managed servers on real GPUs: runs that ask `transformers serve` with a tiny random Qwen2.5-VL.

They need NVIDIA GPUs that nothing else uses, and VIDEOMME_TRANSFORMERS (`test_real_engines.py`)
with torchvision.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import Any

import psutil
import pytest
import yaml

from tests.support.commands import Command, run
from tests.support.dagster_ui import wait_until
from tests.support.paths import ROOT
from tests.support.projects import SERVED, Copy, write_project_in
from videomme_pipeline.models.endpoint.frame_tokens import frame_tokens
from videomme_pipeline.project.project import open_project
from videomme_pipeline.warehouse.database import connect, query

ENVIRONMENT = os.environ.get("VIDEOMME_TRANSFORMERS")
GPUS = len(list(Path("/dev").glob("nvidia[0-9]*")))
MODEL = "qwen2.5-vl-tiny"
EVALUATIONS = {
    "four": {**SERVED, "model": MODEL, "generation": {"max_tokens": 4}},
    "eight": {**SERVED, "model": MODEL, "generation": {"max_tokens": 4}, "sampling": "uniform_n-8"},
    "slow": {**SERVED, "model": MODEL, "generation": {"max_tokens": 500}},
}
ENGINE_MIB = 100
"""An engine with the tiny model needs more memory of a GPU, most of it for CUDA itself."""
SIZE = (64, 48)
"""Width and height of the videos of `Copy`."""
HOLD = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (int(sys.argv[1]) << 20), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.skipif(
        GPUS == 0 or ENVIRONMENT is None, reason="needs an NVIDIA GPU and VIDEOMME_TRANSFORMERS"
    ),
]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    maker = ROOT / "tests" / "support" / "tiny_qwen_vl.py"
    command = [f"{ENVIRONMENT}/bin/python", str(maker), "qwen2_5_vl", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def write(root: Path, weights: Path, **changes: Any) -> Path:
    """Write a project of three videos whose model is served by an engine with one GPU."""
    serve = {
        "engine": "transformers",
        "weights": str(weights),
        "gpus_per_replica": 1,
        "command": [f"{ENVIRONMENT}/bin/transformers", "serve"],
        **changes,
    }
    (root / "configuration").mkdir(parents=True)
    (root / "configuration" / "models.yaml").write_text(yaml.safe_dump({MODEL: {"serve": serve}}))
    write_project_in(root, Copy(root / "copy"))(EVALUATIONS)
    return root


def gpu_values(*arguments: str) -> list[tuple[int, int]]:
    """The lines of two numbers that nvidia-smi prints."""
    command = ["nvidia-smi", *arguments, "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    pairs = (line.split(",") for line in lines)
    return [(int(first), int(second)) for first, second in pairs]


def engines(weights: Path) -> list[psutil.Process]:
    """The processes on the GPUs that serve these weights."""
    serving = []
    for number, _ in gpu_values("--query-compute-apps=pid,used_memory"):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            process = psutil.Process(number)
            if str(weights) in process.cmdline():
                serving.append(process)
    return serving


def used_mib() -> int:
    """Memory in use on all GPUs."""
    return sum(used for _, used in gpu_values("--query-gpu=index,memory.used"))


def is_answering(root: Path) -> bool:
    """True if the engine of a project has answered a question."""
    logs = (root / "data" / "servers" / "logs").glob("*.log")
    return any("POST /v1/chat/completions" in log.read_text("utf-8") for log in logs)


@contextmanager
def held_gpu(free_mib: int) -> Iterator[None]:
    """Another process has all memory of the first GPU but this much."""
    command = [f"{ENVIRONMENT}/bin/python", "-c", HOLD, str(free_mib)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.kill()


def test_a_run_asks_an_engine_on_its_gpu_and_leaves_nothing_there(
    tmp_path: Path, weights: Path
) -> None:
    root = write(tmp_path, weights)
    before = used_mib()
    command = Command(root, "run", "four", "eight")
    assert command.wait_until(lambda: engines(weights) != [])
    (engine,) = engines(weights)
    assert engine.environ()["CUDA_VISIBLE_DEVICES"] == "0"
    ended = command.finish()
    assert (ended.status, ended.survivors) == (0, ()), ended.err
    assert not engine.is_running()
    wait_until(lambda: used_mib() < before + ENGINE_MIB, seconds=60)
    with connect(open_project(root / "configuration", str(root / "data")).store) as connection:
        sql = "select evaluation, question_id, prompt_tokens from scored_questions order by all"
        rows = query(connection, sql)
    tokens: dict[str, list[int]] = {name: [] for name in ("four", "eight")}
    for row in rows:
        tokens[row["evaluation"]].append(row["prompt_tokens"])
    assert len(tokens["four"]) == 9
    of_four = frame_tokens(MODEL, SIZE, frames=4)
    assert {more - few for few, more in zip(*tokens.values(), strict=True)} == {of_four}


@pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGKILL])
def test_a_run_that_is_stopped_leaves_nothing_on_the_gpu(
    tmp_path: Path, weights: Path, number: Signals
) -> None:
    root = write(tmp_path, weights)
    before = used_mib()
    command = Command(root, "run", "slow")
    assert command.wait_until(lambda: is_answering(root))
    (engine,) = engines(weights)
    command.send(number)
    assert command.finish().status in (-number, 128 + number)
    wait_until(lambda: not engine.is_running(), seconds=60)
    wait_until(lambda: used_mib() < before + ENGINE_MIB, seconds=60)


def test_replicas_without_a_gpu_are_an_error_before_weights_load(
    tmp_path: Path, weights: Path
) -> None:
    root = write(tmp_path, weights, replicas=GPUS + 1)
    problem = f"{GPUS + 1} replicas need {GPUS + 1} GPUs, but this machine has {GPUS}"
    ended = run(root, "run", "four")
    assert ended.status == 1
    assert problem in ended.err
    assert problem in run(root, "doctor", MODEL).out
    hidden = run(root, "run", "four", CUDA_VISIBLE_DEVICES="")
    assert "but CUDA_VISIBLE_DEVICES= has 0" in hidden.err
    assert not (root / "data" / "servers" / "logs").exists()


def test_an_engine_without_a_gpu_or_its_memory_ends_the_run_with_its_error(
    tmp_path: Path, weights: Path
) -> None:
    root = write(tmp_path, weights)
    missing = run(root, "run", "four", CUDA_VISIBLE_DEVICES=str(GPUS))
    assert missing.status == 1
    assert "No CUDA GPUs are available" in missing.err
    with held_gpu(ENGINE_MIB):
        full = run(root, "run", "four")
    assert full.status == 1
    assert "out of memory" in full.err


def test_a_second_run_waits_for_the_gpus(tmp_path: Path, weights: Path) -> None:
    root = write(tmp_path, weights)
    first = Command(root, "run", "four")
    assert first.wait_until(lambda: engines(weights) != [])
    second = Command(root, "run", "eight")
    assert first.wait_until(lambda: len(engines(weights)) > 1) is False
    for command in (first, second):
        ended = command.finish()
        assert ended.status == 0, ended.err
    assert "the GPUs of this machine" in ended.err


def test_the_doctor_asks_a_model_on_a_gpu(tmp_path: Path, weights: Path) -> None:
    root = write(tmp_path, weights)
    ended = run(root, "doctor", MODEL)
    assert ended.status == 0, ended.out
    assert engines(weights) == []
