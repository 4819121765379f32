"""Training runs in checkpoints.yaml: keys, folders, and the evaluations of their checkpoints."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from upath import UPath

from videomme_pipeline.cli.arguments import chosen_evaluations
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.project.checkpoints import TrainingRun, read_training_runs, record_finished
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.project.upkeep.programs import named_programs
from videomme_pipeline.scoring.checkpoint import read_checkpoints

SERVE = {"engine": "vllm", "weights": "somewhere", "command": ["my-vllm"]}


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    folder = tmp_path / "configuration"
    (folder / "evaluations").mkdir(parents=True)
    contents: dict[str, Any] = {
        "benchmarks": {"smoke": {}},
        "models": {"mine": {"serve": SERVE}, "remote": {"base_url": "http://127.0.0.1:1/v1"}},
        "evaluations/short": {"benchmark": "smoke", "model": "mine"},
        "evaluations/asked": {"benchmark": "smoke", "model": "remote"},
    }
    for name, content in contents.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return folder


def opened(configuration: Path, **runs: Any) -> Project:
    (configuration / "checkpoints.yaml").write_text(yaml.safe_dump(runs))
    return open_project(configuration, str(configuration.parent / "data"))


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").touch()


def recorded(project: Project) -> Project:
    record_finished(project, record_finished(project, {}))
    return project.reopened()


def test_a_checkpoint_is_its_template_with_other_weights(
    configuration: Path, tmp_path: Path
) -> None:
    write(tmp_path / "out" / "checkpoint-20")
    run = {"pattern": f"{tmp_path}/out/checkpoint-*", "template": ["short"]}
    project = recorded(opened(configuration, tuned=run))
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
    assert named_programs(project) == ["models.yaml, mine: my-vllm"]
    for chosen in ([], ["smoke"]):
        names = chosen_evaluations(project.configuration, [], chosen)
        assert sorted(names) == ["asked", "short"], "its folder may be deleted"
    assert chosen_evaluations(project.configuration, ["short-tuned-20"], [])


def test_the_record_alone_names_the_evaluations(configuration: Path, tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-20")
    run = {"pattern": f"{tmp_path}/checkpoint-*", "template": "short"}
    project = recorded(opened(configuration, tuned=run))
    project = opened(configuration)
    assert "short-tuned-20" in project.configuration.evaluations
    (configuration / "evaluations" / "short.yaml").unlink()
    with pytest.raises(ConfigurationError, match="no evaluation `short`"):
        opened(configuration).configuration.evaluation("short-tuned-20")
    (record,) = project.store.checkpoint_files()
    record.write_bytes(b"no table")
    assert read_checkpoints(project.store) == []


@pytest.mark.parametrize(
    ("pattern", "step", "steps"),
    [
        ("run/checkpoint-*", None, {20, 1000}),
        ("run/*-*", None, {20, 1000}),
        ("run/checkpoint-*/hf", None, {20}),
        ("*/checkpoint-20", r"(?<=checkpoint-)\d+", {20}),
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


def test_two_folders_with_one_step_are_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "checkpoint-20").mkdir(parents=True)
    run = TrainingRun(pattern=f"{tmp_path}/*/checkpoint-*", template="short")
    with pytest.raises(ConfigurationError, match="the same training step 20; write one entry"):
        list(run.folders())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"template": "short"}, "missing key `pattern`"),
        ({"pattern": "x-*", "template": "shrt"}, "did you mean `short`"),
        ({"pattern": "x-*", "template": "short", "compare_with": "none"}, "no evaluation `none`"),
        ({"pattern": "x-*", "template": "short", "step": "("}, "`step` is '\\('"),
        ({"pattern": "x-*", "template": "short", "margin": -1}, "expected at least 0"),
        ({"pattern": "x-*", "template": "short", "complet": "x"}, "did you mean `complete`"),
    ],
)
def test_a_mistake_in_checkpoints_yaml_is_explained(
    configuration: Path, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_training_runs(opened(configuration, tuned=entry).configuration)


def test_a_name_of_a_training_run_must_be_usable(configuration: Path) -> None:
    entry = {"pattern": "x-*", "template": "short"}
    project = opened(configuration, **{"a|b": entry})
    with pytest.raises(ConfigurationError, match=r"`a\|b` cannot name a training run"):
        read_training_runs(project.configuration)


@pytest.mark.parametrize(
    ("name", "template", "message"),
    [
        ("tuned", "asked", "its model remote has no `serve: weights`"),
        ("t" * 99, "short", "cannot be a name"),
    ],
)
def test_a_template_that_cannot_evaluate_checkpoints_is_an_error(
    configuration: Path, tmp_path: Path, name: str, template: str, message: str
) -> None:
    write(tmp_path / "checkpoint-20")
    entry = {"pattern": f"{tmp_path}/checkpoint-*", "template": template}
    with pytest.raises(ConfigurationError, match=message):
        recorded(opened(configuration, **{name: entry}))


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
