"""Texts of the page: questions, prompts, subtitle lines, frame times and responses.

A shared page has no texts. This module does not escape texts, because the page never parses a text
as markup.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.frames.cache import read_shown
from videomme_pipeline.models.identity import read_identity
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.reports.document import rounded, shorten, utf16_span
from videomme_pipeline.reports.media import Media
from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.rows import to_values
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_files, read_rows
from videomme_pipeline.subtitles.align import AlignedLine


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServedText:
    """Columns of `Response` that the scores do not have."""

    question_id: str
    repeat: int
    reasoning: str | None
    reported_model: str | None
    server: str | None = None


class Texts:
    """All texts of the evaluations of one benchmark, and the times of the frames, read once."""

    def __init__(
        self,
        store: Store,
        questions: Sequence[Question],
        evaluations: Sequence[ScoredEvaluation],
        media: Media,
    ) -> None:
        self._media = media
        self._questions = questions
        self._evaluations = evaluations
        self._prompts = [_prompts(e) for e in evaluations]
        self._responses = [_responses(e) for e in evaluations]
        self._rows = [_by_question(e.rows) for e in evaluations]
        self._inputs = _inputs(store, questions, evaluations, media)

    def shortened(self, limit: int | None) -> dict[str, Any]:
        """Inputs of each video, and text and answers of each of its questions.

        No text is longer than about `limit` characters. The texts of a video are stored together,
        because similar texts compress well.
        """
        videos: dict[str, Any] = {}
        for question in self._questions:
            if question.video_id not in videos:
                inputs = self._inputs.get(question.video_id, {})
                shown = {key: _cut_lines(value, limit) for key, value in inputs.items()}
                videos[question.video_id] = _without_none(
                    {
                        "inputs": shown,
                        "video": self._media.video_beside(question.video_id),
                        "questions": {},
                    }
                )
            videos[question.video_id]["questions"][question.question_id] = {
                "question": question.question,
                "options": list(question.options),
                "answers": [
                    self._answers(number, question.question_id, limit)
                    for number in range(len(self._evaluations))
                ],
            }
        return videos

    def _answers(self, number: int, question_id: str, limit: int | None) -> list[dict[str, Any]]:
        prompt = self._prompts[number].get(question_id)
        return [
            _without_none(
                _answer(row, limit)
                | _served(self._responses[number].get((question_id, row.repeat)), limit)
                | _prompt_texts(prompt, limit)
            )
            for row in self._rows[number].get(question_id, ())
        ]


def _answer(row: ScoredQuestion, limit: int | None) -> dict[str, Any]:
    span = None
    if row.span_start is not None and row.span_end is not None:
        span = (row.span_start, row.span_end)
    raw = row.raw_output
    return {
        "raw": raw if raw is None else shorten(raw, limit, span),
        "span": utf16_span(raw, span) if raw is not None and span is not None else None,
        "rule": row.rule,
        "reader": row.reader,
        "error": row.error and shorten(row.error, limit),
        "judge": row.judge_output and shorten(row.judge_output, limit),
        "num_frames": row.num_frames,
        "finish_reason": row.finish_reason,
        **to_values(row.usage),
        "cost_dollars": row.served.cost_dollars,
        "latency_seconds": _milliseconds(row.served.latency_seconds),
        "attempts": row.served.attempts,
    }


def _served(response: _ServedText | None, limit: int | None) -> dict[str, Any]:
    if response is None:
        return {}
    return {
        "reasoning": response.reasoning and shorten(response.reasoning, limit),
        "reported_model": response.reported_model,
        "server": response.server and str(read_identity(response.server)),
    }


def _prompt_texts(prompt: Prompt | None, limit: int | None) -> dict[str, Any]:
    if prompt is None:
        return {}
    return {
        "system": prompt.system and shorten(prompt.system, limit),
        "prompt": shorten(prompt.text, limit),
        "between_frames": [prompt.before_frames, *prompt.after_frame] if limit is None else None,
    }


def _prompts(evaluation: ScoredEvaluation) -> dict[str, Prompt]:
    rows = read_files(evaluation.shown.files("prompts").values(), Prompt)
    return {row.question_id: row for row in rows}


def _responses(evaluation: ScoredEvaluation) -> dict[tuple[str, int], _ServedText]:
    rows = read_files(evaluation.shown.files("responses").values(), _ServedText)
    return {(row.question_id, row.repeat): row for row in rows}


def _by_question(rows: Iterable[ScoredQuestion]) -> dict[str, list[ScoredQuestion]]:
    by_question: dict[str, list[ScoredQuestion]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.repeat):
        by_question[row.question_id].append(row)
    return by_question


def _inputs(
    store: Store,
    questions: Sequence[Question],
    evaluations: Sequence[ScoredEvaluation],
    media: Media,
) -> dict[str, dict[str, Any]]:
    """Times and contact sheet of the frames, and subtitle lines, by video and input key."""
    distinct = {evaluation.input_key: evaluation for evaluation in evaluations}
    subtitles = {
        key: evaluation.shown.files("subtitles", evaluation.track_name)
        for key, evaluation in distinct.items()
        if evaluation.track_name is not None
    }
    return {
        video_id: {
            key: {
                **_frames(store, media, video_id, evaluation.rows[0].sampling),
                "lines": _lines(subtitles.get(key, {}).get(video_id)),
            }
            for key, evaluation in distinct.items()
        }
        for video_id in dict.fromkeys(question.video_id for question in questions)
    }


def _frames(store: Store, media: Media, video_id: str, sampling: str) -> dict[str, Any]:
    """Times and sheet of the frames that were sent. Frames that are not stored have no times."""
    key = media.frames.get((video_id, sampling))
    if key is None:
        return {"frames": []}
    shown = read_shown(store, key.video_hash, key.settings)
    times = [_milliseconds(frame.pts_seconds) for frame in shown]
    return _without_none({"frames": times, "sheet": media.sheet_beside(video_id, sampling)})


def _lines(path: UPath | None) -> list[dict[str, Any]]:
    if path is None:
        return []
    return [
        _without_none(
            {
                "start_seconds": _milliseconds(line.start_seconds),
                "end_seconds": _milliseconds(line.end_seconds),
                "frame": line.frame,
                "text": line.text,
            }
        )
        for line in read_rows(path, AlignedLine)
        if line.question_id is None
    ]


def _cut_lines(value: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """The first lines with `limit` characters in total, and the number of lines left out."""
    if limit is None:
        return dict(value)
    kept, characters = [], 0
    for line in value["lines"]:
        characters += len(line["text"])
        if characters > limit:
            break
        kept.append(line)
    return {**value, "lines": kept, "lines_cut": len(value["lines"]) - len(kept)}


def _milliseconds(seconds: float | None) -> float | None:
    """`seconds` with three digits, to keep the page small."""
    return rounded(seconds, digits=3)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
