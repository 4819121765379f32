"""The commands for results files, on a made-up file of every declared benchmark."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import videomme
from tests.support.registered import registered
from tests.support.scored_rows import STRUCTURES
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark, published_benchmarks
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.recipes.recipe import TOTALS, find_recipe, recipe_names

VIDEOS = 12


def questions(name: str) -> list[Question]:
    """Four questions per video, with a value of each declared facet."""
    benchmark = find_benchmark(name)
    options = tuple(f"{letter}. option {letter}" for letter in benchmark.letters)
    made = []
    for number in range(4 * VIDEOS):
        offered = {
            facet.column: facet.values or ("one", "two") for facet in benchmark.published_facets
        }
        facets = Facets(
            {column: values[number // 4 % len(values)] for column, values in offered.items()}
        )
        if benchmark.grouping is not None:
            structure = STRUCTURES[number // 4 % len(STRUCTURES)]
            kind = "relevance" if structure == "4" else "logic"
            facets = Facets({**facets, "group_structure": structure, "group_type": kind})
        made.append(
            Question(
                benchmark=name,
                question_id=f"{number // 4:03d}-{number % 4 + 1}",
                video_id=f"{number // 4:03d}",
                youtube_id=None,
                url=None,
                question=f"Question {number}?",
                options=options,
                answer=Letter("AB"[number % 2]),
                facets=facets,
            )
        )
    return made


def write_run(name: str, seed: int) -> str:
    """A results file of `name`, with the path as result. About two thirds are right."""
    chance = random.Random(seed)
    rows = [
        {**dataset_row(question), "prediction": chance.choice((question.answer, "C", "A"))}
        for question in questions(name)
    ]
    path = Path(f"{name}-{seed}.json")
    path.write_text(json.dumps(rows))
    return str(path)


@pytest.fixture(autouse=True)
def outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with registered():
        yield


@pytest.mark.parametrize("name", published_benchmarks())
def test_score_compare_gate_and_audit_know_the_benchmark(name: str) -> None:
    a, b = write_run(name, 1), write_run(name, 2)
    option = ("--benchmark", name)
    rows = videomme("score", a, *option, "--json").json["breakdowns"]["overall"]
    assert [row["responses"] for row in rows] == [4 * VIDEOS]
    assert videomme("compare", a, b, *option, "--json").json["n"] == 4 * VIDEOS
    gate = videomme("gate", a, b, *option, "--margin", "90", "--json").json
    assert (gate["compared"], gate["failed"]) == (4 * VIDEOS, 0)
    findings = videomme("audit", a, b, *option, "--json").json["findings"]
    assert {row["run"] for row in findings} == {a, b}


@pytest.mark.parametrize("name", sorted({find_recipe(name).benchmark for name in recipe_names()}))
def test_reproduce_knows_the_benchmark(name: str) -> None:
    recipe = next(key for key in recipe_names() if find_recipe(key).benchmark == name)
    result = videomme("recipe", "run", recipe, "--from", write_run(name, 1), "--json").json
    assert result["values"][0]["part"] in TOTALS
