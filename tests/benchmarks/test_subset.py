"""A stratified subset represents every stratum in proportion and is reproducible."""

from collections import Counter
from itertools import groupby

from tests.support.scored_rows import questions_of, v1_evaluation
from videomme_pipeline.benchmarks.subset import stratified_videos

QUESTIONS = {
    video_id: tuple(group)
    for video_id, group in groupby(
        questions_of(v1_evaluation(1, videos=90)), key=lambda question: question.video_id
    )
}


def test_every_stratum_is_represented_in_proportion() -> None:
    chosen = stratified_videos(QUESTIONS, 30)
    assert len(chosen) == len(set(chosen)) == 30
    durations = Counter(QUESTIONS[video_id][0].duration for video_id in chosen)
    assert set(durations.values()) == {10}
    domains = Counter(QUESTIONS[video_id][0].facets["domain"] for video_id in chosen)
    assert set(domains.values()) == {5}


def test_the_order_of_the_questions_does_not_matter() -> None:
    reordered = dict(reversed(QUESTIONS.items()))
    assert set(stratified_videos(reordered, 17)) == set(stratified_videos(QUESTIONS, 17))


def test_a_subset_as_large_as_the_benchmark_is_the_benchmark() -> None:
    assert stratified_videos(QUESTIONS, 90) == stratified_videos(QUESTIONS, 999) == tuple(QUESTIONS)
