"""A recipe: a published number, its sources, and every setting that is published with it.

One YAML file in `published/` is one recipe, and the file's name is its name. Sources that
contradict each other are recipes that name each other.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.scoring.findings.run import ACCURACY, GROUP_SCORE, OVERALL
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import TRACKS, UNKNOWN_TRACK, is_with_subtitles

_FOLDER = Path(__file__).with_name("published")
TOTALS = (OVERALL, GROUP_SCORE, ACCURACY)
_SETTINGS = (
    "weights", "engine", "frames", "pixels", "prompt", "generation", "reader", "denominator",
)  # fmt: skip
"""The settings that a complete recipe has."""


Grade = Literal["A", "B", "C", "D"]
"""The evidence for the settings: A the code and the answers of the authors, B a statement of the
authors, C a measurement of others, D inferred."""


def _checked(published: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
    for track, values in published.items():
        if track not in (*TRACKS, UNKNOWN_TRACK) or values.keys().isdisjoint(TOTALS):
            raise ValueError(
                f"write one of {', '.join(TRACKS)} or {UNKNOWN_TRACK} with one of "
                f"{', '.join(TOTALS)} for each track"
            )
    return published


class Recipe(Spec):
    """A published number and its settings."""

    title: str
    benchmark: str = "videomme"
    published: Annotated[Mapping[str, Mapping[str, float]], AfterValidator(_checked)]
    """Scores, 0 to 100, by track: `overall` and those of values of the first facet, or with groups
    `group_score` and `accuracy`. The track is `unknown` if no source states it."""
    questions: int | None = None
    """The number of questions of the published value, if they are not all."""
    date: str | None = None
    sources: tuple[str, ...] = Field(min_length=1)
    compared: str = "not compared again"
    """The day on which the recipe was compared with its sources again, if they could be had."""
    grade: Grade
    contradicts: tuple[str, ...] = ()
    """The recipes whose sources say something else."""
    settings: Mapping[str, str] = Field(default_factory=dict)
    """The published settings in words. What is not here, nobody published."""
    evaluation: Mapping[str, Any] = Field(default_factory=dict)
    """The keys of an evaluation file that are the same as the published settings."""
    certified: str | None = None
    """The authors' package whose frames and sizes equal those of `sampling`, as a test compares."""
    note: str | None = None

    def totals(self, track: str) -> dict[str, float]:
        """The published totals of a track by metric, such as `accuracy` or `group score`."""
        values = self.published[track]
        total = find_benchmark(self.benchmark).headline
        return {
            (total if name == OVERALL else name).replace("_", " "): values[name]
            for name in TOTALS
            if name in values
        }

    @property
    def not_published(self) -> list[str]:
        """The settings that nobody published."""
        return [n for n in _SETTINGS if n not in self.settings and n not in self.evaluation]

    @property
    def reader(self) -> ReaderName:
        """The reader of the recipe, or else the published one of the benchmark."""
        return ReaderName(self.evaluation.get("reader", find_benchmark(self.benchmark).reader))

    def not_proven(self, *, is_evaluated: bool) -> list[str]:
        """The settings that answers do not prove: all, or those that no evaluation fixes."""
        settings = {**self.settings, **self.evaluation}
        kept = self.evaluation.keys() if is_evaluated else self.evaluation.keys() & {"reader"}
        proven = {"denominator", *kept, *(("frames", "pixels") if "sampling" in kept else ())}
        return [f"{name}: {value}" for name, value in settings.items() if name not in proven]

    def track(self, name: str | None) -> str:
        """The track called `name`, or the first one."""
        track = name or next(iter(self.published))
        if track not in self.published:
            raise ConfigurationError(
                f"{self.title}: no published value `{track}`: {nearest(track, [*self.published])}"
            )
        return track

    def evaluation_of(self, model: str, track: str) -> dict[str, Any]:
        """The keys of the evaluation file that asks `model` by this recipe.

        ConfigurationError if frames or subtitles cannot be chosen as published.
        """
        needed = ["sampling", *(["subtitles"] if is_with_subtitles(track) else [])]
        if missing := [key for key in needed if key not in self.evaluation]:
            raise ConfigurationError(
                f"{self.title}: no {' and no '.join(missing)} here is known to be as published; "
                "write an evaluation with `videomme init`, and score its answers with --from"
            )
        left_out = set() if is_with_subtitles(track) else {"subtitles"}
        keys = {key: value for key, value in self.evaluation.items() if key not in left_out}
        defaults = {"prompt": find_benchmark(self.benchmark).prompt, "reader": self.reader.value}
        return {"benchmark": self.benchmark, "model": model, **defaults, **keys}


@cache
def recipe_names() -> tuple[str, ...]:
    """The names of all recipes, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


@cache
def find_recipe(name: str) -> Recipe:
    """The recipe called `name`."""
    if name not in recipe_names():
        raise ConfigurationError(f"no recipe `{name}`: {nearest(name, [*recipe_names()])}")
    path = _FOLDER / f"{name}.yaml"
    return parse_spec(read_yaml(path), Recipe, str(path))


def recipes_of(benchmark: str) -> dict[str, Recipe]:
    """The recipes of one benchmark by name."""
    recipes = {name: find_recipe(name) for name in recipe_names()}
    return {name: recipe for name, recipe in recipes.items() if recipe.benchmark == benchmark}
