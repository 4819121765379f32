"""Results files of others, read into questions and responses.

Known: the official v1 template; tables with the columns of the v1 or v2 dataset and the model's
text beside them (JSON, JSON lines, TSV, CSV, Parquet), which is also what VLMEvalKit writes; and
lmms-eval's sample lines. A row that cannot be used is left out and named; nothing is scored here.
"""

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow.parquet as pq

from videomme_pipeline.benchmarks.question import Duration, GroupType, Letter, Question
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.responses.response import Response

Kind = TypeVar("Kind", bound=StrEnum)

_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_BLANK = {"", "none", "nan", "null"}
_TEXT_COLUMNS = ("prediction", "response", "raw_output")
_ID_COLUMNS = ("video_id", "video")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedResults:
    """Pairs of question and response in the file's order, and what a reader should know.

    `notes` are sentences about rows and videos that were left out or look wrong.
    """

    pairs: tuple[tuple[Question, Response], ...]
    notes: tuple[str, ...]


def read_results(path: Path, benchmark: str, *, skip_missing: bool = True) -> ImportedResults:
    """The results in `path`; what it holds decides how it is read.

    Videos of the official template that say `"missing": true` are left out, as the official
    script does with `--skip_missing`, unless `skip_missing` is False. In tables, TSV and CSV
    texts that pandas takes for "no value" ("NA", "nan", "" …) are no response, as after
    the official v2 script's own round trip through CSV; in the other formats only null is.

    Raises:
        ScoringError: when the file is missing, empty or not in a known form.
    """
    items = _read_items(path)
    if not items:
        raise ScoringError(f"{path}: holds no results")
    notes: list[str] = []
    rows = (
        list(_template_rows(items, skip_missing, notes))
        if any("questions" in item for item in items)
        else [_lmms_eval_row(item) if "doc" in item else item for item in items]
    )
    pairs: list[tuple[Question, Response]] = []
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        try:
            question = _question(row, benchmark, seen)
        except ValueError as error:
            notes.append(f"row {number} ({row.get('question_id', 'no id')}) left out: {error}")
            continue
        pairs.append((question, _response(question, row, path.stem)))
    if not pairs:
        raise ScoringError(f"{path}: no row can be used; {notes[0] if notes else 'it is empty'}")
    twice = [held for held, count in Counter(q.question_id for q, _ in pairs).items() if count > 1]
    if twice:
        notes.append(
            f"{len(twice)} questions stand in it more than once, each counts: {_some(twice)}"
        )
    return ImportedResults(pairs=tuple(pairs), notes=tuple(notes))


def parse_json(text: str) -> Any:
    """JSON, also with a comma before a closing bracket, as in the official template.

    Raises:
        json.JSONDecodeError: when it is not JSON even so.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_TRAILING_COMMA.sub(lambda match: match.group(1) or "", text))


def _read_items(path: Path) -> Sequence[Mapping[str, Any]]:
    try:
        items = _READERS.get(path.suffix.lower(), _read_json)(path)
    except FileNotFoundError:
        raise ScoringError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise ScoringError(f"{path}: not readable as {path.suffix or 'JSON'}: {error}") from error
    if not all(isinstance(item, Mapping) for item in items):
        raise ScoringError(f"{path}: expected a list of objects, one a video or a question")
    return items


def _read_json(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8-sig")
    try:
        value = parse_json(text) if text.strip() else []
    except json.JSONDecodeError:
        with suppress(ValueError):
            return _read_json_lines(path)  # lmms-eval's samples, whatever the file is called
        raise
    return value if isinstance(value, list) else [value]


def _read_json_lines(path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error}") from error
    return rows


def _read_parquet(path: Path) -> list[Any]:
    rows: list[Any] = pq.read_table(path).to_pylist()
    return rows


def _read_separated(path: Path) -> list[Any]:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    return pd.read_csv(path, sep=separator, dtype=str).to_dict("records")


_READERS = {
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
    ".tsv": _read_separated,
    ".csv": _read_separated,
}


def _template_rows(
    videos: Iterable[Mapping[str, Any]], skip_missing: bool, notes: list[str]
) -> Iterator[dict[str, Any]]:
    missing, empty = [], []
    for video in videos:
        if skip_missing and video.get("missing") is True:
            missing.append(str(video.get("video_id")))
            continue
        shared = {key: value for key, value in video.items() if key != "questions"}
        questions = video.get("questions")
        if not isinstance(questions, list) or not questions:
            empty.append(str(video.get("video_id")))
            continue
        for question in questions:
            # What is no object has nothing that a question needs: it is left out and named.
            yield {**shared, **(question if isinstance(question, Mapping) else {})}
    if empty:
        notes.append(f"{len(empty)} videos hold no list of `questions`: {_some(empty)}")
    if missing:
        notes.append(f"{len(missing)} videos are marked missing and left out: {_some(missing)}")


def _lmms_eval_row(item: Mapping[str, Any]) -> dict[str, Any]:
    """One line of lmms-eval's samples file: the dataset row under `doc`, the text in `resps`."""
    response = item.get("resps", item.get("filtered_resps"))
    while isinstance(response, list):
        response = response[0] if response else None
    doc = item["doc"] if isinstance(item["doc"], Mapping) else {}
    return {**doc, "response": response}


def _question(row: Mapping[str, Any], benchmark: str, seen: Counter[str]) -> Question:
    video_id = next((text for name in _ID_COLUMNS if (text := _text(row, name))), None)
    if video_id is None:
        raise ValueError("it names no video (`video_id`)")
    seen[video_id] += 1
    answer = (_text(row, "answer") or "").strip()
    if answer not in set(Letter):
        raise ValueError(f"`answer` is {row.get('answer')!r}, not a letter A to H")
    options = _options(row)
    if answer not in tuple(Letter)[: len(options)]:
        raise ValueError(f"`answer` is {answer}, and it has {len(options)} options")
    return Question(
        benchmark=benchmark,
        question_id=_text(row, "question_id") or f"{video_id}-{seen[video_id]}",
        video_id=video_id,
        youtube_id=_text(row, "videoID"),
        url=_text(row, "url"),
        question=_text(row, "question") or "",
        options=options,
        answer=Letter(answer),
        duration=_member(Duration, row, "duration"),
        domain=_text(row, "domain"),
        sub_category=_text(row, "sub_category"),
        task_type=_text(row, "task_type"),
        group_type=_member(GroupType, row, "group_type"),
        group_structure=_text(row, "group_structure"),
        level=_level(row),
        second_head=_text(row, "second_head"),
        third_head=_text(row, "third_head"),
    )


def _member(kind: type[Kind], row: Mapping[str, Any], column: str) -> Kind | None:
    text = _text(row, column)
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"`{column}` is {text!r}, not {', '.join(kind)}") from None


def _level(row: Mapping[str, Any]) -> int | None:
    text = _text(row, "level")
    try:
        return int(float(text)) if text else None
    except ValueError:
        raise ValueError(f"`level` is {text!r}, not a number") from None


def _options(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A list, one newline-joined text (v2), or a list written as text (VLMEvalKit)."""
    value = row.get("options", row.get("candidates"))
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            raise ValueError(f"`options` is no list: {value[:60]!r}") from None
    if isinstance(value, str):
        value = [line for line in value.split("\n") if line.strip()]
    if not isinstance(value, list) or not value:
        raise ValueError("it has no `options`")
    return tuple(str(option) for option in value)


def _response(question: Question, row: Mapping[str, Any], evaluation: str) -> Response:
    value = next((row[name] for name in _TEXT_COLUMNS if name in row), None)
    absent = value is None or (isinstance(value, float) and math.isnan(value))
    raw_output = None if absent else str(value)
    return Response(
        benchmark=question.benchmark,
        evaluation=evaluation,
        video_id=question.video_id,
        question_id=question.question_id,
        sample=0,
        request_fingerprint=fingerprint(evaluation, question.question_id, raw_output),
        model=evaluation,
        num_frames=0,
        raw_output=raw_output,
        reasoning=None,
        finish_reason=None,
        error="no response in the results file" if absent else None,
        reported_model=None,
        system_fingerprint=None,
        prompt_tokens=None,
        completion_tokens=None,
        cached_tokens=None,
        reasoning_tokens=None,
        usage_json=None,
        cost_dollars=None,
        latency_seconds=None,
        attempts=1,
        answered_at=None,
    )


def _text(row: Mapping[str, Any], name: str) -> str | None:
    """The text in a column; None for null, NaN and the words that tables write for them."""
    value = row.get(name)
    if value is None or str(value).strip().lower() in _BLANK:
        return None
    return str(value)


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
