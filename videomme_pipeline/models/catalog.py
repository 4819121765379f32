"""The models that evaluations can name: the entries of `models.yaml` and the built-in ones.

`kind` selects the provider of an entry. Another package adds a kind with an entry point in the
group `videomme_pipeline.models`: its name is the kind, its value a `Provider`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from pathlib import Path
from typing import Any, Self

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.demo.embedded.spec import EmbeddedSpec, missing_packages
from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.models.baselines import (
    ConstantBaseline,
    ConstantSpec,
    LongestOptionBaseline,
    LongestOptionSpec,
    RandomBaseline,
    RandomSpec,
)
from videomme_pipeline.models.endpoint.spec import EndpointSpec, ServiceTier
from videomme_pipeline.models.pool import ModelPool
from videomme_pipeline.models.spec import ModelSpec, Provider
from videomme_pipeline.models.video_llm import VideoLLM
from videomme_pipeline.processes.secrets import register_key_variables

ENTRY_POINT_GROUP = "videomme_pipeline.models"


def _build_endpoint_model(spec: EndpointSpec, environment: Mapping[str, str]) -> VideoLLM:
    key = spec.api_key(environment)
    if spec.service_tier is ServiceTier.BATCH:
        from videomme_pipeline.models.endpoint.batch import OpenAIBatchModel  # noqa: PLC0415

        return OpenAIBatchModel(spec, api_key=key)
    from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel  # noqa: PLC0415

    return OpenAICompatibleModel(spec, api_key=key)


def _build_embedded_model(spec: EmbeddedSpec, _environment: Mapping[str, str]) -> VideoLLM:
    if missing := missing_packages():
        raise ModelError(
            f"model {spec.name}: not installed: {', '.join(missing)}; "
            "run `pip install 'videomme-pipeline[demo]'`"
        )
    from videomme_pipeline.demo.embedded.model import EmbeddedModel  # noqa: PLC0415

    return EmbeddedModel(time_limit_seconds=spec.limits.request_timeout_seconds)


PROVIDERS: Mapping[str, Provider[Any]] = {
    "openai_compatible": Provider(EndpointSpec, _build_endpoint_model),
    "embedded": Provider(EmbeddedSpec, _build_embedded_model),
    "random": Provider(RandomSpec, lambda spec, _: RandomBaseline(spec.seed)),
    "constant": Provider(ConstantSpec, lambda spec, _: ConstantBaseline(spec.letter)),
    "longest_option": Provider(LongestOptionSpec, lambda _, __: LongestOptionBaseline()),
}
"""The providers of this package by `kind`. An entry without `kind` is `openai_compatible`."""

BUILT_IN: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        EmbeddedSpec(name="embedded"),
        RandomSpec(name="random"),
        LongestOptionSpec(name="longest-option"),
        *(ConstantSpec(name=f"constant-{letter}", letter=letter) for letter in Letter),
    )
}
"""Models that need neither an entry nor a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every model that an evaluation can name."""

    models: tuple[ModelSpec, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """The catalog in a `models.yaml`: one entry per model, keyed by its name.

        Child processes that start later do not get the keys of these models.

        Raises:
            ConfigurationError: if the file is missing, or a key or value is wrong; the message
                names the nearest valid key.
        """
        models = tuple(
            _parse_entry(str(name), entry, f"{path}: model {name}")
            for name, entry in read_yaml(path).items()
        )
        register_key_variables(chain.from_iterable(spec.key_variables for spec in models))
        return cls(models=models)

    @property
    def names(self) -> tuple[str, ...]:
        """The user's models, then the built-in ones."""
        return (*(spec.name for spec in self.models), *BUILT_IN)

    def find(self, name: str) -> ModelSpec:
        """The model called `name`.

        Raises:
            ModelError: if there is none; the message names the nearest model.
        """
        for spec in (*self.models, *BUILT_IN.values()):
            if spec.name == name:
                return spec
        raise ModelError(
            f"model {name}: not in models.yaml and not built in, {nearest(name, self.names)}"
        )


def _parse_entry(name: str, entry: Any, where: str) -> ModelSpec:
    if not isinstance(entry, dict):
        raise ConfigurationError(
            f"{where}: expected `key: value` lines, found a {type(entry).__name__}; "
            "write at least `base_url` and `profile`"
        )
    if name in BUILT_IN:
        raise ConfigurationError(f"{where}: that name is built in; choose another one")
    provider = _provider(str(entry.get("kind", "openai_compatible")), where)
    spec: ModelSpec = parse_spec({"name": name, **entry}, provider.spec, where)
    return spec


def entry_specs() -> list[type[ModelSpec]]:
    """The class of the entries of each kind, including kinds of other packages.

    Raises:
        ConfigurationError: if another package cannot be loaded.
    """
    installed = entry_points(group=ENTRY_POINT_GROUP)
    providers = [*PROVIDERS.values(), *(_load(point, point.name) for point in installed)]
    return [provider.spec for provider in providers]


def build_model(spec: ModelSpec, environment: Mapping[str, str] = os.environ) -> VideoLLM:
    """The model that `spec` describes, with nothing loaded or connected yet.

    Raises:
        ModelError: if its key is not in `environment`, or a package that it needs is not
            installed.
    """
    build = _provider(spec.kind, f"model {spec.name}").build
    if len(spec.members) == 1:
        return build(spec, environment)
    return ModelPool({str(item.endpoint): build(item, environment) for item in spec.members})


def _provider(kind: str, where: str) -> Provider[Any]:
    if kind in PROVIDERS:
        return PROVIDERS[kind]
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if kind not in installed:
        known = (*PROVIDERS, *installed)
        raise ConfigurationError(f"{where}: `kind` is {kind!r}, {nearest(kind, known)}")
    return _load(installed[kind], where)


def _load(entry_point: EntryPoint, where: str) -> Provider[Any]:
    package = entry_point.dist.name if entry_point.dist else entry_point.module
    try:
        provider = entry_point.load()
    except Exception as error:
        raise ConfigurationError(
            f"{where}: kind `{entry_point.name}` needs the package {package}, which cannot be "
            f"loaded ({type(error).__name__}: {error}); repair or reinstall it"
        ) from error
    if not isinstance(provider, Provider):
        raise ConfigurationError(
            f"{where}: kind `{entry_point.name}` of the package {package} is {provider!r}, not a "
            "videomme_pipeline.models.spec.Provider; report this to its authors"
        )
    return provider
