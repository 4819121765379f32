"""A stratified subset represents every stratum in proportion and is reproducible."""

from collections import Counter
from itertools import groupby

import pytest

from tests.support.scored_rows import questions_of, v1_evaluation
from videomme_pipeline.benchmarks.selection import BenchmarkSettings, stratified_videos
from videomme_pipeline.errors import ConfigurationError

STRATA = ("duration", "domain")
QUESTIONS = {
    video_id: tuple(group)
    for video_id, group in groupby(
        questions_of(v1_evaluation(1, videos=90)), key=lambda question: question.video_id
    )
}


def test_every_stratum_is_represented_in_proportion() -> None:
    chosen = stratified_videos(QUESTIONS, 30, STRATA)
    assert len(chosen) == len(set(chosen)) == 30
    durations = Counter(QUESTIONS[video_id][0].duration for video_id in chosen)
    assert set(durations.values()) == {10}
    domains = Counter(QUESTIONS[video_id][0].facets["domain"] for video_id in chosen)
    assert set(domains.values()) == {5}


def test_the_order_of_the_questions_does_not_matter() -> None:
    reordered = dict(reversed(QUESTIONS.items()))
    assert set(stratified_videos(reordered, 17, STRATA)) == set(
        stratified_videos(QUESTIONS, 17, STRATA)
    )


def test_a_subset_as_large_as_the_benchmark_is_the_benchmark() -> None:
    for videos in (90, 999):
        assert stratified_videos(QUESTIONS, videos, STRATA) == tuple(QUESTIONS)


def chosen(**settings: object) -> list[str]:
    rows = [row for group in QUESTIONS.values() for row in group]
    selected = BenchmarkSettings.model_validate(settings).select(rows)
    return list(dict.fromkeys(row.video_id for row in selected))


def test_a_seed_selects_other_videos_in_the_same_proportions() -> None:
    def subset(seed: int) -> list[str]:
        return chosen(subset={"videos": 30, "stratify": list(STRATA), "seed": seed})

    assert subset(7) == subset(7) != subset(8)
    for seed in (7, 8):
        durations = Counter(QUESTIONS[video_id][0].duration for video_id in subset(seed))
        assert set(durations.values()) == {10}


def test_one_duration_is_selected_before_the_subset_and_the_limit() -> None:
    long = [name for name, rows in QUESTIONS.items() if rows[0].duration == "long"]
    assert chosen(duration="long") == long
    assert chosen(duration="long", limit=2) == long[:2]
    assert set(chosen(duration="long", subset={"videos": 4})) < set(long)


def test_a_derived_facet_can_be_a_stratum() -> None:
    assert len(chosen(subset={"videos": 6, "stratify": ["skill"]})) == 6


def test_settings_that_select_nothing_are_errors() -> None:
    with pytest.raises(ConfigurationError, match=r"no question has the facet `level`; stratify by"):
        chosen(subset={"videos": 4, "stratify": ["level"]})
    first = next(name for name, rows in QUESTIONS.items() if rows[0].duration == "short")
    with pytest.raises(ConfigurationError, match=r"`duration: long` selects none of 1 videos"):
        chosen(videos=[first], duration="long")


def test_only_settings_that_select_videos_change_the_fingerprint() -> None:
    """Settings without the newer keys keep the fingerprint under which questions are stored."""
    assert BenchmarkSettings(limit=3).fingerprint == "2e762c082f8969fc44afc1c5"
    specs = [
        {},
        {"duration": "long"},
        {"subset": {"videos": 3}},
        {"subset": {"videos": 3, "seed": 1}},
    ]
    prints = {BenchmarkSettings.model_validate(spec).fingerprint for spec in specs}
    assert len(prints) == len(specs)
