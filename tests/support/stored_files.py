"""Files of stages in a data folder: those that a run has built, and made-up ones."""

from collections.abc import Iterable, Sequence
from typing import Any

from upath import UPath

from videomme_pipeline.fingerprint import text_fingerprint
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.scored_question import EvaluatedVideo, ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.results import Results, record_shown
from videomme_pipeline.storage.tables import read_files, read_rows, write_rows

MADE_UP = text_fingerprint("made up")
"""The fingerprint of every made-up file."""


def made_up_file(
    store: Store,
    stage: str,
    benchmark: str,
    variant: str | None = None,
    video: str | None = None,
    *,
    fingerprint: str = MADE_UP,
) -> UPath:
    """The path of a made-up file of a stage."""
    name = StoredName(variant=variant, video=video, fingerprint=fingerprint)
    return store.built(benchmark, stage, name)


def write_made_up(path: UPath, rows: Sequence[Any], row_class: type[Any], **more: Any) -> None:
    """Write the rows of a made-up file, whose footer has the fingerprint in its name."""
    name = StoredName.parse(path.name)
    fingerprint = name.fingerprint if name else MADE_UP
    write_rows(path, rows, row_class, fingerprint=fingerprint, **more)


def show_made_up(store: Store, benchmark: str, evaluation: str, videos: Iterable[str] = ()) -> None:
    """Write the manifest of made-up scores about `videos`, and record that they are shown."""
    rows = [
        EvaluatedVideo(
            benchmark=benchmark,
            evaluation=evaluation,
            video_id=video,
            questions_fingerprint=MADE_UP,
            video_hash=None,
            subtitle_hash=None,
            planned_frames=None,
            frame_tokens=None,
            from_questions=MADE_UP,
            from_video=MADE_UP,
            from_subtitles=MADE_UP,
            from_prompts=MADE_UP,
            from_responses=MADE_UP,
        )
        for video in videos
    ]
    path = made_up_file(store, "evaluated_videos", benchmark, evaluation)
    if rows or not path.exists():
        write_made_up(path, rows, EvaluatedVideo)
    record_shown(store, benchmark, evaluation, MADE_UP, {})


def stored_file(
    store: Store,
    stage: str,
    benchmark: str,
    variant: str | None = None,
    video: str | None = None,
) -> UPath:
    """The file of a partition that readers show, else any stored one, else one that is not there.

    For prompts, responses and other inputs, that is the file that the shown scores came from.
    """
    results = Results(store)
    path: UPath | None = None
    if stage == "questions":
        path = results.questions(benchmark)
    elif stage == "videos":
        path = results.videos(benchmark).get(str(video))
    for shown in results.scores(benchmark):
        if stage in ("scores", "evaluated_videos") and shown.evaluation == variant:
            path = shown.path if stage == "scores" else shown.evaluated_videos
        elif stage in ("prompts", "responses", "attempts", "subtitles"):
            is_own = stage == "subtitles" or shown.evaluation == variant
            path = (shown.files(stage, variant).get(str(video)) if is_own else None) or path
    names = results.names(benchmark, stage).by_partition.get((variant, video))
    if path is None and names:
        path = store.built(benchmark, stage, names[-1])
    return path or made_up_file(store, stage, benchmark, variant, video)


def shown_scores(store: Store) -> dict[str, list[ScoredQuestion]]:
    """The scored questions of every evaluation with scores that readers show."""
    shown = Results(store).scores()
    return {scores.evaluation: read_rows(scores.path, ScoredQuestion) for scores in shown}


def shown_responses(store: Store, evaluation: str) -> list[Response]:
    """The responses that the shown scores of an evaluation were computed from."""
    shown = Results(store).find(evaluation)
    return [] if shown is None else read_files(shown.files("responses").values(), Response)
