"""Training runs in checkpoints.yaml: keys, folders, and the evaluations of their checkpoints."""

from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from tests.support.training_runs import (
    look_twice,
    open_with_runs,
    write_checkpoint_folder,
    write_templates,
)
from videomme_pipeline.cli.arguments import chosen_evaluations
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.project.checkpoints import TrainingRun, read_training_runs
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.verdicts import read_checkpoints


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    write_templates(tmp_path / "configuration")
    return tmp_path / "configuration"


def recorded(project: Project) -> Project:
    look_twice(project)
    return project.reopened()


def test_a_checkpoint_is_its_template_with_other_weights(
    configuration: Path, tmp_path: Path
) -> None:
    write_checkpoint_folder(tmp_path / "out" / "checkpoint-20")
    run = {"pattern": f"{tmp_path}/out/checkpoint-*", "template": ["short"]}
    project = recorded(open_with_runs(configuration, tuned=run))
    template = project.configuration.evaluation("short")
    evaluation = project.configuration.evaluation("short-tuned-20")
    assert isinstance(evaluation.model, EndpointSpec)
    assert evaluation.model.name == "mine-tuned-20"
    assert evaluation.model.served_name == "mine", "rules depend on it"
    assert evaluation.model.serve is not None
    assert evaluation.model.serve.identity["weights"] == str(tmp_path / "out" / "checkpoint-20")
    assert evaluation.pairing != template.pairing
    assert evaluation.template == template.template
    assert project.configuration.checkpoints == {"short-tuned-20"}
    assert project.programs() == ["models.yaml, mine: my-vllm"]
    for chosen in ([], ["smoke"]):
        names = chosen_evaluations(project.configuration, [], chosen)
        assert sorted(names) == ["asked", "short"], "its folder may be deleted"
    assert chosen_evaluations(project.configuration, ["short-tuned-20"], [])


def test_the_record_alone_names_the_evaluations(configuration: Path, tmp_path: Path) -> None:
    write_checkpoint_folder(tmp_path / "checkpoint-20")
    run = {"pattern": f"{tmp_path}/checkpoint-*", "template": "short"}
    project = recorded(open_with_runs(configuration, tuned=run))
    project = open_with_runs(configuration)
    assert "short-tuned-20" in project.configuration.evaluations
    (configuration / "evaluations" / "short.yaml").unlink()
    with pytest.raises(ConfigurationError, match="no evaluation `short`"):
        open_with_runs(configuration).configuration.evaluation("short-tuned-20")
    (record,) = project.store.newest_files("checkpoints")
    record.write_bytes(b"no table")
    assert read_checkpoints(project.store) == []


@pytest.mark.parametrize(
    ("pattern", "step", "steps"),
    [
        ("run/checkpoint-*", None, {20, 1000}),
        ("run/*-*", None, {20, 1000}),
        ("run/checkpoint-*/hf", None, {20}),
        ("run/*", "checkpoint-{step}", {20, 1000}),
        ("*/checkpoint-20", "checkpoint-{step}", {20}),
        ("*/checkpoint-20", "v{step}", set()),
        ("run/checkpoint-20", None, {20}),
        ("nothing/*", None, set()),
    ],
)
def test_the_step_is_the_last_number_that_the_pattern_matches(
    tmp_path: Path, pattern: str, step: str | None, steps: set[int]
) -> None:
    for name in ("checkpoint-20", "checkpoint-1000", "checkpoint-last"):
        (tmp_path / "v2" / "run" / name).mkdir(parents=True)
    (tmp_path / "v2" / "run" / "checkpoint-20" / "hf").mkdir()
    (tmp_path / "v2" / "run" / "checkpoint-7").touch()
    values = {"pattern": f"{tmp_path}/v2/{pattern}", "template": "short"}
    run = TrainingRun.model_validate(values | ({"step": step} if step else {}))
    assert {number for number, _ in run.folders()} == steps


def test_checkpoints_in_an_object_store_are_listed() -> None:
    folder = UPath("memory://bucket/run")
    (folder / "checkpoint-20" / "trainer_state.json").write_text("{}")
    run = TrainingRun(pattern="memory://bucket/run/checkpoint-*", template="short")
    assert [(step, path.name) for step, path in run.folders()] == [(20, "checkpoint-20")]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"template": "short"}, "missing key `pattern`"),
        ({"pattern": "x-*", "template": "shrt"}, "did you mean `short`"),
        ({"pattern": "x-*", "template": "short", "compare_with": "none"}, "no evaluation `none`"),
        ({"pattern": "x-*", "template": "short", "step": r"(\d+)+"}, "`step` is "),
        ({"pattern": "x-*", "template": "short", "step": "{step}-{step}"}, "`step` is "),
        ({"pattern": "x-*", "template": "short", "margin": -1}, "expected at least 0"),
        ({"pattern": "x-*", "template": "short", "complet": "x"}, "did you mean `complete`"),
        ({"pattern": "x-*", "template": "short", "tracker": "wand"}, "did you mean `wandb`"),
    ],
)
def test_a_mistake_in_checkpoints_yaml_is_explained(
    configuration: Path, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_training_runs(open_with_runs(configuration, tuned=entry).configuration)


def test_a_name_of_a_training_run_must_be_usable(configuration: Path) -> None:
    entry = {"pattern": "x-*", "template": "short"}
    project = open_with_runs(configuration, **{"a|b": entry})
    with pytest.raises(ConfigurationError, match=r"`a\|b` cannot name a training run"):
        read_training_runs(project.configuration)


@pytest.mark.parametrize(
    ("name", "template", "message"),
    [
        ("tuned", "asked", "its model remote has no `serve: weights`"),
        ("t" * 99, "short", "cannot be a name"),
    ],
)
def test_a_template_that_cannot_evaluate_checkpoints_is_a_problem_of_its_run(
    configuration: Path, tmp_path: Path, name: str, template: str, message: str
) -> None:
    write_checkpoint_folder(tmp_path / "checkpoint-20")
    entry = {"pattern": f"{tmp_path}/checkpoint-*", "template": template}
    other = {"pattern": f"{tmp_path}/checkpoint-*", "template": "short"}
    project = open_with_runs(configuration, **{name: entry, "z": other})
    (problem,) = look_twice(project).problems
    assert f"training run {name} is left out: " in problem
    assert message in problem
    assert [row.run for row in read_checkpoints(project.store)] == ["z"]


def test_a_pattern_may_begin_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run" / "checkpoint-20").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "run")
    for pattern in ("~/run/checkpoint-*", "checkpoint-*", "../run/checkpoint-*"):
        run = TrainingRun(pattern=pattern, template="short")
        ((step, folder),) = run.folders()
        assert (step, Path(folder.path).resolve()) == (20, tmp_path / "run" / "checkpoint-20")
