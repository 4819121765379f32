"""The recipes: every file is complete, and names what this project can build."""

import pytest

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.reading import EvaluationFile
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.recipes.recipe import OVERALL, find_recipe, recipe_names, recipes_of
from videomme_pipeline.subtitles.align import parse_alignment


def test_there_are_recipes_of_three_benchmarks() -> None:
    assert len(recipe_names()) >= 25
    names = {find_recipe(name).benchmark for name in recipe_names()}
    assert names == {"videomme", "mlvu_dev", "lvbench"}
    assert sum(len(recipes_of(name)) for name in names) == len(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_names_what_exists(name: str) -> None:
    recipe = find_recipe(name)
    if recipe.sampling is not None:
        parse_sampling(recipe.sampling)
    if recipe.subtitles is not None:
        parse_alignment(recipe.subtitles)
    assert recipe.prompt in (None, *TemplateName)
    facet = find_benchmark(recipe.benchmark).shown_facets[0]
    parts = {OVERALL, *map(str, facet.values or ())}
    for values in recipe.published.values():
        assert values.keys() <= parts
        assert all(0 < value < 100 for value in values.values())
    for other in recipe.contradicts:
        assert name in find_recipe(other).contradicts


@pytest.mark.parametrize("name", [n for n in recipe_names() if find_recipe(n).sampling])
def test_an_evaluation_keeps_what_it_can_and_names_the_rest(name: str) -> None:
    recipe = find_recipe(name)
    track = recipe.track(None)
    try:
        file = EvaluationFile.model_validate(recipe.evaluation("my-model", track))
    except ConfigurationError as error:
        pytest.fail(str(error))
    assert (file.model, file.sampling) == ("my-model", recipe.sampling)
    for key, value in (recipe.decoding or {}).items():
        kept = getattr(file.decoding, key, None) == value
        assert kept or any(f"{key} {value}" in text for text in recipe.not_kept())


def test_a_setting_that_nobody_published_is_named() -> None:
    assert find_recipe("qwen2-vl-7b").not_published == [
        "prompt",
        "decoding",
        "reader",
        "denominator",
        "subtitles",
    ]


def test_frames_without_a_sampling_are_not_asked() -> None:
    recipe = find_recipe("minicpm-v-2.6")
    with pytest.raises(ConfigurationError, match=r"no sampling here is known.*at most 64 frames"):
        recipe.evaluation("my-model", "without_subtitles")


def test_an_unknown_recipe_or_track_is_explained() -> None:
    with pytest.raises(ConfigurationError, match=r"no recipe `qwen2\.5-vl-7`: did you mean"):
        find_recipe("qwen2.5-vl-7")
    with pytest.raises(ConfigurationError, match="no published value `with_subtitles`"):
        find_recipe("gpt-4o").track("with_subtitles")
