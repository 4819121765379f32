"""The models that evaluations can name: the entries of `models.yaml` and the built-in ones."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from blake3 import blake3

from videomme_pipeline import plugins
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.program.spec import ProgramSpec
from videomme_pipeline.models.spec import ModelSpec, Provider
from videomme_pipeline.models.video_llm import ModelPool, Reply, Request, VideoLLM
from videomme_pipeline.processes.secrets import register_key_variables


class BaselineSpec(ModelSpec):
    """Settings of a baseline, and the rule by which it chooses a letter.

    Baselines use only the question and its options, as a reference for scores.
    """

    needs_frames: ClassVar[bool] = False

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model_dump(exclude={"name", "limits"})

    @abstractmethod
    def letter_for(self, request: Request) -> Letter:
        """The letter that the baseline answers."""


class RandomSpec(BaselineSpec):
    """A baseline that answers with one of the offered letters.

    The letter is drawn by a hash of seed, question and repeat, so the same seed gives the same
    letters in every process, on every machine and in any order.
    """

    kind: Literal["random"] = "random"
    seed: int = 0

    def letter_for(self, request: Request) -> Letter:
        question = request.question
        key = f"{self.seed}/{question.benchmark}/{question.question_id}/{request.repeat}"
        digest = blake3(key.encode()).digest()
        return question.letters[int.from_bytes(digest, "big") % len(question.letters)]


class ConstantSpec(BaselineSpec):
    """A baseline that always answers with `letter`, even if a question does not offer it."""

    kind: Literal["constant"] = "constant"
    letter: Letter

    def letter_for(self, request: Request) -> Letter:  # noqa: ARG002 - the parameter of all rules
        return self.letter


class LongestOptionSpec(BaselineSpec):
    """A baseline that answers with the longest option, which is often right."""

    kind: Literal["longest_option"] = "longest_option"

    def letter_for(self, request: Request) -> Letter:
        question = request.question
        return max(question.letters, key=lambda letter: len(question.option_text(letter)))


class Baseline:
    """The baseline that `spec` describes, as a model."""

    needs_frames = False

    def __init__(self, spec: BaselineSpec) -> None:
        settings = dict(spec.identity)
        self.spec, self.name = spec, spec.name
        self.identity = {"model": settings.pop("kind").replace("_", "-"), **settings}

    async def respond(self, request: Request) -> Reply:
        return Reply(text=self.spec.letter_for(request))

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _build_endpoint_model(spec: EndpointSpec, environment: Mapping[str, str]) -> VideoLLM:
    from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel  # noqa: PLC0415

    return OpenAICompatibleModel(spec, api_key=spec.api_key(environment))


def _build_program(spec: ProgramSpec, environment: Mapping[str, str]) -> VideoLLM:
    from videomme_pipeline.models.program.process import ProgramModel  # noqa: PLC0415

    spec.check_installed()
    if missing := [name for name in spec.environment if name not in environment]:
        raise ModelError(
            f"model {spec.name}: {missing[0]} is not set; set it, or remove it from `environment`"
        )
    numbers = range(1, spec.processes + 1)
    members = {f"{spec.name}, process {n}": ProgramModel(spec, environment, n) for n in numbers}
    return ModelPool(members) if spec.processes > 1 else next(iter(members.values()))


PROVIDERS: Mapping[str, Provider[Any]] = {
    "openai_compatible": Provider(EndpointSpec, _build_endpoint_model),
    "program": Provider(ProgramSpec, _build_program),
    "random": Provider(RandomSpec, lambda spec, _: Baseline(spec)),
    "constant": Provider(ConstantSpec, lambda spec, _: Baseline(spec)),
    "longest_option": Provider(LongestOptionSpec, lambda spec, _: Baseline(spec)),
}
"""The providers of the core by `kind`. An entry without `kind` is a `program` if it has a
`command`, or else `openai_compatible`."""

BUILT_IN: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        RandomSpec(name="random"),
        LongestOptionSpec(name="longest-option"),
        *(ConstantSpec(name=f"constant-{letter}", letter=letter) for letter in Letter),
    )
}
"""Models of the core that need neither an entry nor a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every model that an evaluation can name, and an error for each entry that cannot be used."""

    models: tuple[ModelSpec, ...] = ()
    problems: Mapping[str, ConfigurationError] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The catalog in a `models.yaml`. Child processes do not get the keys of these models.

        Raises ConfigurationError if the file is missing or is not YAML. An entry with a wrong key
        or value becomes one of the `problems`, which name the nearest valid key.
        """
        models, problems = [], {}
        for name, entry in read_yaml(path).items():
            try:
                spec = _parse_entry(str(name), entry, f"{path}: model {name}", path.parent)
            except ConfigurationError as error:
                problems[str(name)] = error
                continue
            models.append(spec)
            register_key_variables(spec.key_variables)
        return cls(models=tuple(models), problems=problems)

    @property
    def names(self) -> tuple[str, ...]:
        """The user's models, then all others. Raises ConfigurationError for a broken package."""
        packaged = (name for name in plugins.installed(plugins.MODELS) if _built_in(name))
        return (*(spec.name for spec in self.models), *packaged, *BUILT_IN)

    def find(self, name: str) -> ModelSpec:
        """The model called `name`. Raises ModelError without one, ConfigurationError if invalid."""
        if name in self.problems:
            raise self.problems[name]
        own = next((spec for spec in self.models if spec.name == name), None)
        if spec := own or _built_in(name):
            return spec
        raise ModelError(
            f"model {name}: not in models.yaml and not built in, {nearest(name, self.names)}"
        )


def _parse_entry(name: str, entry: Any, where: str, folder: Path) -> ModelSpec:
    if not isinstance(entry, dict):
        raise ConfigurationError(
            f"{where}: expected `key: value` lines, found a {type(entry).__name__}; "
            "write at least `base_url` and `profile`, or `command`"
        )
    if _built_in(name):
        raise ConfigurationError(f"{where}: that name is built in; choose another one")
    default = "program" if "command" in entry else "openai_compatible"
    provider = _provider(str(entry.get("kind", default)), f"{where}: ")
    spec: ModelSpec = parse_spec({"name": name, **entry}, provider.spec, where)
    try:
        return spec.in_folder(folder)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def entry_specs() -> list[type[ModelSpec]]:
    """The class of the entries of each kind. Raises ConfigurationError for a broken package."""
    return [_provider(kind).spec for kind in _kinds()]


def build_model(spec: ModelSpec, environment: Mapping[str, str] = os.environ) -> VideoLLM:
    """The model of `spec`, not loaded yet. Raises ModelError for a missing key or package."""
    build = _provider(spec.kind, f"model {spec.name}: ").build
    if not isinstance(spec, EndpointSpec) or len(spec.members) == 1:
        return build(spec, environment)
    return ModelPool({member.endpoint: build(member, environment) for member in spec.members})


def _built_in(name: str) -> ModelSpec | None:
    if name in BUILT_IN or name not in plugins.installed(plugins.MODELS):
        return BUILT_IN.get(name)
    provider = _provider(name)
    spec: ModelSpec | None = None if provider.needs_entry else provider.spec(name=name)
    return spec


def _kinds() -> tuple[str, ...]:
    return (*PROVIDERS, *plugins.installed(plugins.MODELS))


def _provider(kind: str, where: str = "") -> Provider[Any]:
    if kind in PROVIDERS:
        return PROVIDERS[kind]
    if kind not in _kinds():
        raise ConfigurationError(f"{where}`kind` is {kind!r}, {nearest(kind, _kinds())}")
    provider: Provider[Any] = plugins.find(
        plugins.MODELS,
        kind,
        lambda part: isinstance(part, Provider),
        title=f"{where}kind `{kind}`",
        expected="a videomme_pipeline.models.spec.Provider",
    )
    return provider
