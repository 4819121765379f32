"""A recipe: a published number, its sources, and every setting that is published with it.

One YAML file in `published/` is one recipe, and the file's name is its name. A setting that nobody
published is left out. Sources that contradict each other are recipes that name each other.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.video_llm import Decoding
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import TRACKS

_PUBLISHED = Path(__file__).with_name("published")
OVERALL = "overall"


class Grade(StrEnum):
    """The grade of evidence for the settings."""

    A = "A"
    """The code and the answers of the authors."""
    B = "B"
    """A statement of the authors."""
    C = "C"
    """A measurement of others."""
    D = "D"
    """Inferred."""


class Denominator(StrEnum):
    """The answers that an accuracy is a share of."""

    ALL = "all"
    ANSWERED = "answered"
    """Those from which a letter was read, as in the official v1 script."""


class Source(Spec):
    """Where a fact was published."""

    text: str
    url: str | None = None


class Weights(Spec):
    """The weights of the model."""

    repository: str
    revision: str | None = None
    dtype: str | None = None


def _checked(published: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
    for track, values in published.items():
        if track not in TRACKS or OVERALL not in values:
            raise ValueError(f"write one of {', '.join(TRACKS)} with `{OVERALL}` for each track")
    return published


Published = Annotated[Mapping[str, Mapping[str, float]], AfterValidator(_checked)]
"""Accuracies in percent by track: `overall`, and those of values of the first facet."""


class Recipe(Spec):
    """A published number and its settings. A setting that is None was not published."""

    title: str
    benchmark: str = "videomme"
    published: Published
    questions: int | None = None
    """The number of questions of the published value, if they are not all."""
    date: str | None = None
    sources: tuple[Source, ...] = Field(min_length=1)
    grade: Grade
    contradicts: tuple[str, ...] = ()
    """The recipes whose sources say something else."""
    weights: Weights | None = None
    engine: str | None = None
    """Engine with its version and flags."""
    frames: str | None = None
    """The frame rule in words."""
    pixels: str | None = None
    """The rule of the sizes of frames in words."""
    sampling: str | None = None
    """Our sampling with the same frames and pixels, if there is one."""
    order: str | None = None
    """The order of video and text, and the system prompt, in words."""
    prompt: str | None = None
    """The name of the template with the same text."""
    prompt_text: str | None = None
    """The prompt in words, if there is no template."""
    subtitles: str | None = None
    """The alignment policy of the track with subtitles."""
    decoding: Mapping[str, int | float | str] | None = None
    """The parameters of the generation by the names of the OpenAI API."""
    reader: ReaderName | None = None
    reading: str | None = None
    """The reader in words, if it is none of ours."""
    denominator: Denominator | None = None
    note: str | None = None

    @property
    def not_published(self) -> list[str]:
        """The settings that nobody published."""
        groups = {
            "weights": (self.weights,),
            "engine": (self.engine,),
            "frames": (self.frames,),
            "pixels": (self.pixels,),
            "prompt": (self.prompt, self.prompt_text),
            "decoding": (self.decoding,),
            "reader": (self.reader, self.reading),
            "denominator": (self.denominator,),
        }
        if any(track.endswith("with_subtitles") for track in self.published):
            groups["subtitles"] = (self.subtitles,)
        return [name for name, values in groups.items() if all(value is None for value in values)]

    @property
    def used_reader(self) -> ReaderName:
        """The reader of the recipe, or else the published one of the benchmark."""
        return self.reader or ReaderName(find_benchmark(self.benchmark).reader)

    def track(self, name: str | None) -> str:
        """The track called `name`, or the first one.

        Raises:
            ConfigurationError: if nothing is published for this track.
        """
        track = name or next(iter(self.published))
        if track not in self.published:
            raise ConfigurationError(
                f"{self.title}: no published value `{track}`: {nearest(track, [*self.published])}"
            )
        return track

    def evaluation(self, model: str, track: str) -> dict[str, Any]:
        """The keys of the evaluation file that asks `model` by this recipe.

        Raises:
            ConfigurationError: if the frames or the subtitles cannot be chosen as published.
        """
        needed = {"sampling": self.sampling}
        if track.endswith("with_subtitles") and not track.endswith("without_subtitles"):
            needed["subtitles"] = self.subtitles
        if missing := [key for key, value in needed.items() if value is None]:
            raise ConfigurationError(
                f"{self.title}: no {' and no '.join(missing)} here is known to be as published "
                f"({self.frames or 'the frame rule is not published'}); write an evaluation with "
                "`videomme init`, and score its answers with --from"
            )
        decoding = {key: value for key, value in (self.decoding or {}).items() if key in _DECODING}
        return {
            "benchmark": self.benchmark,
            "model": model,
            **needed,
            "prompt": self.prompt or find_benchmark(self.benchmark).prompt,
            "reader": self.used_reader.value,
            **({"decoding": decoding} if decoding else {}),
        }

    def not_kept(self) -> list[str]:
        """The settings that an evaluation cannot keep, because the endpoint decides."""
        other = {key: value for key, value in (self.decoding or {}).items() if key not in _DECODING}
        facts = {
            "weights": _shown(self.weights),
            "engine": self.engine,
            "order": self.order,
            "prompt": self.prompt_text,
            "reader": self.reading,
            "decoding (set it in `extra_body` of models.yaml)": _shown(other),
        }
        return [f"{name}: {text}" for name, text in facts.items() if text]


_DECODING = frozenset(Decoding.model_fields)


@cache
def recipe_names() -> tuple[str, ...]:
    """The names of all recipes, sorted."""
    return tuple(sorted(path.stem for path in _PUBLISHED.glob("*.yaml")))


def find_recipe(name: str) -> Recipe:
    """The recipe called `name`.

    Raises:
        ConfigurationError: if there is none; the message has the nearest name.
    """
    if name not in recipe_names():
        raise ConfigurationError(f"no recipe `{name}`: {nearest(name, [*recipe_names()])}")
    path = _PUBLISHED / f"{name}.yaml"
    return parse_spec(read_yaml(path), Recipe, str(path))


def recipes_of(benchmark: str) -> dict[str, Recipe]:
    """The recipes of one benchmark by name."""
    recipes = {name: find_recipe(name) for name in recipe_names()}
    return {name: recipe for name, recipe in recipes.items() if recipe.benchmark == benchmark}


def settings_in_words(recipe: Recipe) -> dict[str, str]:
    """Every setting that a file of answers cannot prove, in words."""
    facts = {
        "weights": _shown(recipe.weights),
        "engine": recipe.engine,
        "frames": recipe.frames,
        "pixels": recipe.pixels,
        "order": recipe.order,
        "prompt": recipe.prompt_text or recipe.prompt,
        "subtitles": recipe.subtitles,
        "decoding": _shown(recipe.decoding),
    }
    return {name: text for name, text in facts.items() if text}


def _shown(values: Spec | Mapping[str, object] | None) -> str:
    """The values as one text: "temperature 0.7, top_p 0.8"."""
    mapping = values.model_dump() if isinstance(values, Spec) else values or {}
    return ", ".join(f"{key} {value}" for key, value in mapping.items() if value is not None)
