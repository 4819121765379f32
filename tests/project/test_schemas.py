"""The JSON Schemas accept the files that the project accepts, and find its mistakes."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.support.paths import ROOT
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.project.schemas import schemas

ASSETS = ROOT / "assets"
FILES = [*ASSETS.glob("*.yaml"), *ASSETS.glob("evaluations/*.yaml")]
CONFIGURATION = [path for path in FILES if path.name != "dagster.yaml"]

Check = Callable[[str, Any], list[str]]


class EditorLoader(yaml.SafeLoader):
    """Reads a date as a text, as editors do (YAML 1.2)."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - an attribute of the base class
        first: [item for item in resolvers if item[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@pytest.fixture(scope="module")
def check() -> Check:
    """Function that returns what the schema of a kind of file finds in a value."""
    validators = {
        name: Draft202012Validator(schema)
        for name, schema in schemas(read_configuration(ASSETS)).items()
    }
    return lambda kind, value: [error.message for error in validators[kind].iter_errors(value)]


@pytest.mark.parametrize("path", sorted(CONFIGURATION), ids=lambda path: path.stem)
def test_the_files_of_the_project_are_valid(check: Check, path: Any) -> None:
    kind = "evaluation" if path.parent.name == "evaluations" else path.stem
    assert check(kind, yaml.load(path.read_text(), EditorLoader) or {}) == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("evaluation", {"benchmark": "smoke", "model": "random", "samplng": "none"}),
        ("evaluation", {"benchmark": "smoke", "model": "random", "reader": "carful"}),
        ("evaluation", {"benchmark": "smoke", "model": "x", "sampling": {"strategy": "uniform"}}),
        ("models", {"mine": {"profile": "vlm"}}),
        ("models", {"mine": {"name": "other"}}),
        ("samplings", {"smoke": "uniform_n-16"}),
        ("nightly", {"evaluations": {"mine": {"video": 3}}}),
    ],
)
def test_a_mistake_is_found(check: Check, kind: str, value: object) -> None:
    assert check(kind, value)


def test_fields_are_described_and_names_are_suggested() -> None:
    properties = schemas(read_configuration(ASSETS))["evaluation"]["properties"]
    assert properties["model"]["description"].startswith("A name in models.yaml, or a built-in")
    assert {"gpt-5", "embedded"} <= set(properties["model"]["examples"])
    assert "smoke" in properties["benchmark"]["examples"]
