"""A project with training runs in checkpoints.yaml, without a model that answers."""

from pathlib import Path
from typing import Any

import yaml

from videomme_pipeline.project.checkpoints import Look, record_finished
from videomme_pipeline.project.project import Project, open_project

SERVE = {"engine": "vllm", "weights": "somewhere", "command": ["my-vllm"]}


def write_templates(folder: Path) -> None:
    """Write a configuration with the templates `short`, which has weights, and `asked`."""
    (folder / "evaluations").mkdir(parents=True)
    contents: dict[str, Any] = {
        "benchmarks": {"smoke": {}},
        "models": {"mine": {"serve": SERVE}, "remote": {"base_url": "http://127.0.0.1:1/v1"}},
        "evaluations/short": {"benchmark": "smoke", "model": "mine"},
        "evaluations/asked": {"benchmark": "smoke", "model": "remote"},
    }
    for name, content in contents.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))


def open_with_runs(configuration: Path, **runs: Any) -> Project:
    """Open the project with these entries in checkpoints.yaml."""
    (configuration / "checkpoints.yaml").write_text(yaml.safe_dump(runs))
    return open_project(configuration, str(configuration.parent / "data"))


def write_checkpoint_folder(folder: Path) -> None:
    """Write the folder of a complete checkpoint."""
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").touch()


def look_twice(project: Project) -> Look:
    """Record what is finished. The result is the second look."""
    return record_finished(project, record_finished(project, {}).unfinished)
