"""The recipes: every file is complete, and names what this project can build."""

import re

import pytest

from tests.support.scored_rows import scored
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError, ScoringError
from videomme_pipeline.evaluation.evaluation import NONE
from videomme_pipeline.evaluation.reading import EvaluationFile
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.recipes.recipe import TOTALS, find_recipe, recipe_names, recipes_of
from videomme_pipeline.recipes.reproduction import reproduce
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.subtitles.align import parse_alignment


def test_there_are_recipes_of_four_benchmarks() -> None:
    assert len(recipe_names()) >= 45
    names = {find_recipe(name).benchmark for name in recipe_names()}
    assert names == {"videomme", "videomme_v2", "mlvu_dev", "lvbench"}
    assert sum(len(recipes_of(name)) for name in names) == len(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_names_what_exists(name: str) -> None:
    recipe = find_recipe(name)
    file = EvaluationFile(benchmark=recipe.benchmark, model="random", **recipe.evaluation)
    if file.sampling != NONE:
        parse_sampling(file.sampling)
    if file.subtitles != NONE:
        parse_alignment(file.subtitles)
    assert file.prompt in set(TemplateName)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d|not compared again", recipe.compared)
    facet = find_benchmark(recipe.benchmark).shown_facets[0]
    parts = {*TOTALS, *map(str, facet.values or ())}
    for values in recipe.published.values():
        assert values.keys() <= parts
        assert all(0 < value < 100 for value in values.values())
    for other in recipe.contradicts:
        assert name in find_recipe(other).contradicts


def test_an_evaluation_keeps_what_it_can_and_names_the_rest() -> None:
    recipe = find_recipe("qwen3-vl-8b-script")
    assert recipe.evaluation_of("my-model", "without_subtitles") == {
        "benchmark": "videomme",
        "model": "my-model",
        "sampling": "qwen_vl-2-min-4-max-512.patches-32-min-3584-max-401408-total-19267584",
        "prompt": "qwen3_vl",
        "reader": "official_v1",
        "generation": {"temperature": 0.7, "top_p": 0.8, "max_tokens": 32_768},
    }
    assert recipe.not_proven(is_evaluated=True) == [
        "weights: Qwen/Qwen3-VL-8B-Instruct",
        "engine: vLLM (offline) with the seed 3407, which no request has",
        "subtitles: the cues that begin before and end after the time of a frame, each once, "
        "joined by spaces",
        "reader: a letter that is a word by itself, or the text of one option, else "
        "gpt-3.5-turbo-0125, else a random letter",
        "extra_body: top_k 20, presence_penalty 1.5, repetition_penalty 1.0",
    ]
    names = [text.partition(":")[0] for text in recipe.not_proven(is_evaluated=False)]
    assert {"frames", "pixels", "sampling", "generation", "reader"} <= set(names)


def test_a_setting_that_nobody_published_is_named() -> None:
    names = ["prompt", "generation", "reader", "denominator"]
    assert find_recipe("qwen2-vl-7b").not_published == names


def test_a_number_of_videomme_v2_names_its_metric() -> None:
    recipes = recipes_of("videomme_v2")
    assert 8 <= len(recipes) <= 10
    assert recipes["gpt-5-v2"].totals("without_subtitles") == {
        "group score": 26.4,
        "accuracy": 44.7,
    }
    assert recipes["internvideo3-8b-v2"].totals("unknown") == {"accuracy": 27.6}
    assert all("frames" in recipe.settings for recipe in recipes.values() if recipe.grade == "B")


def test_frames_without_a_sampling_are_not_asked() -> None:
    recipe = find_recipe("minicpm-v-2.6")
    with pytest.raises(ConfigurationError, match="no sampling here is known"):
        recipe.evaluation_of("my-model", "without_subtitles")


def test_an_unknown_recipe_or_track_is_explained() -> None:
    with pytest.raises(ConfigurationError, match=r"no recipe `qwen2\.5-vl-7`: did you mean"):
        find_recipe("qwen2.5-vl-7")
    with pytest.raises(ConfigurationError, match="no published value `with_subtitles`"):
        find_recipe("gpt-4o").track("with_subtitles")


def test_the_headline_of_mlvu_is_the_mean_over_its_tasks() -> None:
    def row(number: int, task: str, outcome: Outcome) -> ScoredQuestion:
        facts = {"benchmark": "mlvu_dev", "task_type": task}
        return scored(f"{number:03d}-1", outcome, **facts)

    rows = [row(number, "needle", Outcome.CORRECT) for number in range(90)]
    rows += [row(100 + number, "count", Outcome.INCORRECT) for number in range(10)]
    result = reproduce("qwen2.5-vl-7b-mlvu", rows, "without_subtitles")
    (value,) = result.values
    assert value.here == pytest.approx(50.0)
    assert value.low is not None
    assert value.high is not None
    assert value.low < 50 < value.high
    assert value.is_consistent is None, "most of the questions have no answer"
    assert result.undecided == ("only 100 of 2,174 questions have an answer, less than 90%")


def test_nothing_is_compared_without_an_answer() -> None:
    rows = [scored("001-1", Outcome.FAILED), scored("002-1", Outcome.FAILED)]
    with pytest.raises(ScoringError, match="no question was answered"):
        reproduce("gpt-4o", rows, "without_subtitles")
    with pytest.raises(ScoringError, match="no question was answered"):
        reproduce("qwen3-vl-8b-768-frames", rows, "without_subtitles")


@pytest.mark.parametrize("name", ["qwen2.5-vl-7b", "internvl2-26b"])
def test_frames_of_an_evaluation_are_certified_or_not(name: str) -> None:
    rows = [scored(f"{number:03d}-1", Outcome.CORRECT) for number in range(1, 20)]
    evaluated = reproduce(name, rows, "without_subtitles", is_evaluated=True)
    certified = [note for note in evaluated.notes if "as a test compares" in note]
    assert bool(certified) is (name == "qwen2.5-vl-7b")
    assert ("frames and sizes were not compared with the authors' code" in evaluated.notes) is (
        name == "internvl2-26b"
    )
    assert not any(
        "frames and sizes" in note for note in reproduce(name, rows, "without_subtitles").notes
    )
