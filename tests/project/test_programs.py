"""Programs that a configuration names: no command that only looks at a project starts them."""

from pathlib import Path

import pytest
import yaml

from tests.support.cli import use, videomme
from videomme_pipeline.project.project import open_project


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes `started` beside itself, in a project whose models name it."""
    program = tmp_path / "evil-python.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\necho 1.0\n")
    program.chmod(0o755)
    script = tmp_path / "engine"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"weights")
    serve = {"weights": str(weights), "gpus_per_replica": 0}
    models = {
        "cpp": {"serve": {**serve, "engine": "llama_cpp", "command": [str(program), "serve"]}},
        "script": {"serve": {**serve, "engine": "vllm", "command": [str(script)]}},
        "unused": {"serve": {**serve, "engine": "vllm"}},
    }
    folder = tmp_path / "configuration"
    (folder / "evaluations").mkdir(parents=True)
    (folder / "benchmarks.yaml").write_text("smoke:\n")
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    for name in ("cpp", "script"):
        (folder / "evaluations" / f"{name}.yaml").write_text(f"benchmark: smoke\nmodel: {name}\n")
    use(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    return program


@pytest.mark.parametrize(
    "command", [("status",), ("status", "--reasons"), ("run", "--dry-run"), ("doctor",)]
)
def test_a_command_that_looks_at_a_project_starts_no_program(
    program: Path, command: tuple[str, ...]
) -> None:
    ended = videomme(*command)
    assert "Traceback" not in ended.err
    assert not program.with_name("started").exists()


def test_the_programs_of_models_that_evaluations_use_are_named(program: Path) -> None:
    project = open_project()
    expected = [
        f"models.yaml, cpp: {program} serve",
        f"models.yaml, script: {program.with_name('engine')}",
    ]
    assert project.programs() == expected


def test_run_names_the_programs_before_it_starts_them(program: Path) -> None:
    ended = videomme("nightly")
    assert ended.status == 1, "nothing is tracked"
    assert f"models.yaml, cpp: {program} serve" in ended.err
    assert "with your rights" in ended.err


def test_programs_of_a_cluster_are_named(program: Path) -> None:
    folder = open_project().configuration.folder
    cluster = {"cluster": "dask_jobqueue.SLURMCluster", "arguments": {"python": "/opt/python"}}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    assert open_project().programs()[2:] == [
        "cluster.yaml: dask_jobqueue.SLURMCluster with {'python': '/opt/python'}",
    ]
