"""A representative subset of a benchmark: a fixed stratified sample of its videos."""

from collections.abc import Mapping, Sequence

from blake3 import blake3

from videomme_pipeline.benchmarks.question import Question


def stratified_videos(
    questions: Mapping[str, Sequence[Question]],
    videos: int,
    strata: Sequence[str],
    seed: int | None = None,
) -> tuple[str, ...]:
    """Draw `videos` video ids, each stratum in proportion. The result is always the same.

    Systematic sampling over the videos, ordered by the facets `strata`, and by a hash of `seed` and
    the id within a stratum. The result is all videos if there are no more than `videos`.
    """
    ordered = sorted(questions, key=lambda video: _order(video, questions[video], strata, seed))
    if videos >= len(ordered):
        return tuple(questions)
    chosen = {ordered[(2 * n + 1) * len(ordered) // (2 * videos)] for n in range(videos)}
    return tuple(video_id for video_id in questions if video_id in chosen)


def _order(
    video_id: str, questions: Sequence[Question], strata: Sequence[str], seed: int | None
) -> tuple[str, ...]:
    last = questions[-1]  # the first release of v2 has the level in the last row of a group only
    hashed = video_id if seed is None else f"{seed} {video_id}"
    return (
        *(str(last.facets.get(column, "")) for column in strata),
        blake3(hashed.encode()).hexdigest(),
    )
