"""Declarations of benchmarks: the registry, and errors in a declaration."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.benchmark import Benchmark, Headline, Metric
from videomme_pipeline.benchmarks.facets import Facet, Facets, Measure
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import (
    benchmark_names,
    find_benchmark,
    register,
    unregister,
)
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.rows import arrow_schema

OWN = Benchmark(
    name="own",
    title="Own",
    source=videomme.BENCHMARK.source,
    facets=(Facet(column="room", title="Room"), Facet(column="duration", title="Duration")),
)


@pytest.fixture
def own() -> Iterator[Benchmark]:
    yield register(OWN)
    unregister(OWN)


def test_built_in_benchmarks_are_registered() -> None:
    assert benchmark_names() == ("videomme", "videomme_v2", "smoke", "smoke_v2")


def test_an_unknown_name_is_reported_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="no benchmark `videome`: did you mean `videomme`"):
        find_benchmark("videome")


def test_facets_of_a_registered_benchmark_are_columns(own: Benchmark) -> None:
    assert find_benchmark("own") is own
    assert "room" in arrow_schema(Question).names


def test_an_unregistered_benchmark_takes_only_its_own_columns_along() -> None:
    register(OWN)
    unregister(OWN)
    assert "own" not in benchmark_names()
    assert "room" not in Facets.declared
    assert "duration" in Facets.declared


def test_a_name_is_taken_once(own: Benchmark) -> None:
    assert register(OWN) is own
    with pytest.raises(ValueError, match="another benchmark called own"):
        register(replace(OWN, title="Other"))


def test_a_facet_has_one_type() -> None:
    level = Facet(column="level", title="Level")
    with pytest.raises(ValueError, match="facet level is str, but int in another benchmark"):
        register(replace(OWN, facets=(*OWN.facets, level)))
    assert "own" not in benchmark_names()
    assert "room" not in Facets.declared


def test_a_declaration_names_only_declared_facets() -> None:
    with pytest.raises(ValueError, match="facet 'task' is not declared"):
        replace(OWN, headline=Headline(metric=Metric.MEAN_OF, facet="task"))
    with pytest.raises(ValueError, match="facet 'domain' is not declared"):
        replace(OWN, crossings=(("room", "domain"),))


def test_a_mean_needs_a_facet() -> None:
    with pytest.raises(ValueError, match="if and only if"):
        Headline(metric=Metric.MEAN_OF)


def test_a_column_is_a_plain_name() -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        Facet(column="Sub Category", title="Sub-category")


def test_breakdowns_are_named_after_the_facets() -> None:
    assert videomme.BENCHMARK.breakdowns(Measure.ACCURACY) == {
        "overall": (),
        "by_duration": ("duration",),
        "by_domain": ("domain",),
        "by_sub_category": ("sub_category",),
        "by_task_type": ("task_type",),
        "by_duration_and_domain": ("duration", "domain"),
        "by_duration_and_sub_category": ("duration", "sub_category"),
        "by_duration_and_task_type": ("duration", "task_type"),
    }
    assert list(videomme_v2.BENCHMARK.breakdowns(Measure.GROUP_SCORE)) == [
        "v2_overall",
        "v2_by_level",
        "v2_by_second_head",
        "v2_by_third_head",
        "v2_by_group_type",
    ]


def test_a_facet_without_a_value_is_absent() -> None:
    assert Facets({"domain": None, "level": 2}) == Facets({"level": 2})
    assert hash(Facets({"domain": None, "level": 2})) == hash(Facets({"level": 2}))
