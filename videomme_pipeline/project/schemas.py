"""JSON Schemas of the configuration files, with which editors complete and check them."""

from collections import ChainMap
from collections.abc import Iterable
from typing import Any, Union

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from videomme_pipeline import plugins
from videomme_pipeline.benchmarks.declaration import Declaration
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.evaluation.evaluation import NONE
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.evaluation.reading import EvaluationFile
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.sampling import STRATEGIES, Sampling
from videomme_pipeline.models.catalog import entry_specs
from videomme_pipeline.models.endpoint.managed import ServeSpec
from videomme_pipeline.project.checkpoints import TrainingRun
from videomme_pipeline.project.nightly.tracked import NightlySpec
from videomme_pipeline.project.runs.settings import ClusterSpec, RunsSpec, StorageSpec
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.rows import field_docstrings


class _Evaluation(EvaluationFile):
    """One evaluation."""

    sampling: str | Sampling = NONE  # type: ignore[assignment]  # more precise
    """A name (`uniform_n-16`, `fps_based-1-max-512`, `keyframe-32` …), a mapping of sampling
    settings, or `none` for a blind evaluation without frames."""


def schemas(configuration: Configuration) -> dict[str, JsonSchemaValue]:
    """The schema of each kind of file, by the stem of its name. Names are only suggested."""
    entries: Any = Union[*entry_specs()]
    evaluation = _schema(_Evaluation)
    suggested: dict[str, Iterable[str]] = {
        "benchmark": configuration.benchmarks,
        "model": configuration.catalog.names,
        "prompt": TemplateName,
        "sampling": [name for strategy in STRATEGIES.values() for name in strategy.name_examples],
    }
    for key, names in suggested.items():
        evaluation["properties"][key]["examples"] = list(names)
    return {
        "evaluation": evaluation,
        "benchmark": _schema(Declaration),
        "benchmarks": _schema(dict[str, BenchmarkSettings | None]),
        "models": _without_names(_schema(dict[str, entries])),
        "samplings": _schema(dict[str, list[str | Sampling] | None]),
        "nightly": _schema(NightlySpec),
        "checkpoints": _schema(dict[str, TrainingRun]),
        "storage": _schema(StorageSpec),
        "cluster": _schema(Union[*plugins.find_classes(plugins.WORKERS, ClusterSpec)]),
        "runs": _schema(RunsSpec),
    }


class _Documented(GenerateJsonSchema):
    """Takes descriptions from docstrings of fields, and `serve` from the servers installed."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        if schema["cls"] is ServeSpec:
            kinds: Any = Union[*plugins.find_classes(plugins.SERVERS, ServeSpec)]
            return self.generate_inner(TypeAdapter(kinds).core_schema)
        documented = super().model_schema(schema)
        classes = [base for base in schema["cls"].__mro__ if issubclass(base, Spec)]
        for name, text in ChainMap(*map(field_docstrings, classes)).items():
            documented["properties"].get(name, {}).setdefault("description", text)
        return documented


def _schema(kind: Any) -> JsonSchemaValue:
    return TypeAdapter(kind).json_schema(schema_generator=_Documented)


def _without_names(schema: JsonSchemaValue) -> JsonSchemaValue:
    """`schema` of models.yaml without the field `name`, which is the key of the entry."""
    for definition in schema["$defs"].values():
        if {"name", "kind"} <= definition.get("properties", {}).keys():
            del definition["properties"]["name"]
            definition["required"] = [key for key in definition["required"] if key != "name"]
    return schema
