"""A representative subset of a benchmark: a fixed stratified sample of its videos."""

from collections.abc import Mapping, Sequence

from blake3 import blake3

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark


def stratified_videos(questions: Mapping[str, Sequence[Question]], videos: int) -> tuple[str, ...]:
    """Draw `videos` video ids, each stratum in proportion. The result is always the same.

    Systematic sampling over the videos, ordered by the facets that the benchmark declares as
    strata, and by a hash of the id within a stratum. The result is all videos if there are no more
    than `videos`.
    """
    ordered = sorted(questions, key=lambda video_id: _place(video_id, questions[video_id]))
    if videos >= len(ordered):
        return tuple(questions)
    chosen = {ordered[(2 * n + 1) * len(ordered) // (2 * videos)] for n in range(videos)}
    return tuple(video_id for video_id in questions if video_id in chosen)


def _place(video_id: str, questions: Sequence[Question]) -> tuple[str, ...]:
    last = questions[-1]  # the first release of v2 has the level in the last row of a group only
    strata = find_benchmark(last.benchmark).strata
    return (
        *(str(last.facets.get(column, "")) for column in strata),
        blake3(video_id.encode()).hexdigest(),
    )
