"""A fixed part of a benchmark that looks like the whole: some of its videos, by stratum."""

from collections.abc import Mapping, Sequence

from blake3 import blake3

from videomme_pipeline.benchmarks.question import Question


def stratified_videos(questions: Mapping[str, Sequence[Question]], videos: int) -> tuple[str, ...]:
    """`videos` of the benchmark's video ids, every stratum by its share, always the same ones.

    Systematic sampling over the videos ordered by duration and domain (v1) or group type and
    level (v2), and by a hash of the id within a stratum. All of them where there are no more.
    """
    ordered = sorted(questions, key=lambda video_id: _place(video_id, questions[video_id]))
    if videos >= len(ordered):
        return tuple(questions)
    chosen = {ordered[(2 * n + 1) * len(ordered) // (2 * videos)] for n in range(videos)}
    return tuple(video_id for video_id in questions if video_id in chosen)


def _place(video_id: str, questions: Sequence[Question]) -> tuple[str, ...]:
    first, last = questions[0], questions[-1]
    strata = (first.duration, first.domain, first.group_type, last.level)
    return (*(str(label or "") for label in strata), blake3(video_id.encode()).hexdigest())
