"""Files in which a frame selector of another project names the frames of each question.

JSON, JSON lines, CSV and Parquet are read: rows with the id of a question or video and a list, or
one object with a list per id. A list contains frame numbers, or times in seconds.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from videomme_pipeline.benchmarks.columns import SUFFIXES, Cells, list_in, read_rows, text_in
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import AnnotationError, ConfigurationError, listed
from videomme_pipeline.fingerprint import Spec, fingerprint

_QUESTION = ("questionid", "qid", "id", "uid")
_VIDEO = ("videoid", "video", "videoname", "videopath")
_FRAMES = (
    *("frameidx", "frameindices", "frameids", "framenumbers", "selectedframes"),
    *("keyframeindices", "keyframes", "indices", "frames"),
)
_SECONDS = ("seconds", "timestamps", "times", "frametimes", "frameseconds")


class QuestionFrames(Spec):
    """The frames of one question in the order of the file: numbers, or times in seconds.

    If the file names no usable frames, both are empty, and `error` is the reason.
    """

    question_id: str = ""
    frames: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FrameFile:
    """The entries of a file by the id of a question or video. `content` is their hash."""

    path: Path = field(compare=False)
    entries: Mapping[str, QuestionFrames] = field(compare=False, repr=False)
    content: str

    def of(self, question: Question) -> QuestionFrames:
        """The entry of the question, or else the entry of its video."""
        ids = question.question_id, question.video_id, question.youtube_id
        entry = next((e for name in ids if name and (e := self.entries.get(name))), None)
        if entry is None:
            reason = f"no entry for this question or for video {question.video_id}"
            entry = QuestionFrames(error=f"{self.path.name} has {reason}")
        return entry.model_copy(update={"question_id": question.question_id})


def read_frame_file(folder: Path, name: str) -> FrameFile:
    """The file `name` in `folder`, which has one of the endings of annotation files.

    Raises ConfigurationError if there is not one such file, or it has no usable entry.
    """
    paths = [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    if len(paths) != 1:
        there_are = listed([path.name for path in paths]) if paths else "no file"
        endings = ", ".join(SUFFIXES)
        raise ConfigurationError(
            f"sampling from_file-{name}: {there_are} with the frames of each question in {folder}; "
            f"put one file `{name}` there that ends with one of {endings}"
        )
    state = paths[0].stat()
    return _read(paths[0], (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=16)
def _read(path: Path, _state: tuple[int, int]) -> FrameFile:
    try:
        rows = list(_rows(path))
    except (AnnotationError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    videos_per_id = Counter(question for question, _ in {row[:2] for row in rows})
    entries: dict[str, QuestionFrames] = {}
    for question, video, entry in rows:
        # A number within a video is the id of a question on each of several videos.
        key = question if videos_per_id[question] == 1 else f"{video}-{question}"
        repeated = QuestionFrames(error=f"{path.name} has more than one entry for {key}")
        entries[key] = repeated if key in entries else entry
    errors = [entry.error for entry in entries.values() if entry.error]
    if len(errors) == len(entries):
        reason = errors[0] if errors else "it is empty"
        raise ConfigurationError(f"{path}: no entry has frame numbers or seconds: {reason}")
    return FrameFile(path, entries, fingerprint(entries))


def _rows(path: Path) -> Iterator[tuple[str, str | None, QuestionFrames]]:
    """Yield the id of the question (or else of the video), the id of the video, and the frames.

    Raises ValueError if a row has no id.
    """
    for number, row in enumerate(_table(path), start=1):
        plain = (str(name).lower().replace("_", "").replace(" ", "") for name in row)
        cells = dict(zip(plain, row.values(), strict=True))
        video = text_in(_first(cells, _VIDEO))
        video = None if video is None else PurePosixPath(video).stem
        question = text_in(_first(cells, _QUESTION)) or video
        if question is None:
            columns = listed(list(row))
            raise ValueError(f"row {number} has no `question_id` or `video_id`, only {columns}")
        yield question, video, _entry(cells, f"{path.name}, row {number}")


def _table(path: Path) -> Sequence[Cells]:
    """The rows of a file. The entries of one object by id are rows with the column `id`."""
    outer: list[tuple[str, Any]] = []  # with repeated keys, unlike a dict

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outer[:] = pairs
        return dict(pairs)

    is_object = path.suffix == ".json" and isinstance(
        json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=keep), dict
    )
    if not is_object or not all(map(_is_entry, outer)):
        return read_rows(path)
    return [
        {"id": key} | (entry if isinstance(entry, dict) else {"list": entry})
        for key, entry in outer
    ]


def _is_entry(pair: tuple[str, Any]) -> bool:
    """True for an id with its list or object, and not for the name of a list of rows."""
    _, entry = pair
    return isinstance(entry, dict) or (
        isinstance(entry, list) and not any(isinstance(item, dict) for item in entry)
    )


def _entry(cells: Cells, where: str) -> QuestionFrames:
    frames, seconds = _first(cells, _FRAMES), _first(cells, _SECONDS)
    cell = frames if frames is not None else seconds if seconds is not None else cells.get("list")
    numbers = list_in(cell)
    if not isinstance(numbers, list):
        return QuestionFrames(error=f"{where} has no list `frames` or `seconds`")
    if not numbers:
        return QuestionFrames(error=f"{where} has an empty list")
    if not all(
        isinstance(n, int | float) and not isinstance(n, bool) and 0 <= n < math.inf
        for n in numbers
    ):
        return QuestionFrames(error=f"{where} has a list with other values than numbers from 0")
    are_whole = all(isinstance(n, int) or (frames is not None and n.is_integer()) for n in numbers)
    if frames is not None and not are_whole:
        return QuestionFrames(error=f"{where} has a fraction as the number of a frame")
    if are_whole and (frames is not None or seconds is None):
        return QuestionFrames(frames=tuple(map(int, numbers)))
    return QuestionFrames(seconds=tuple(map(float, numbers)))


def _first(cells: Cells, names: Sequence[str]) -> Any:
    return next((cells[name] for name in names if cells.get(name) is not None), None)
