"""Texts of the page: questions, prompts, subtitle lines, frame times and responses.

Texts are not escaped, because the page never parses a text as markup.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.frames.cache import read_shown
from videomme_pipeline.models.identity import read_identity
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.reports.document import Json, rounded, shorten, utf16_span
from videomme_pipeline.reports.stored import Media, ScoredEvaluation
from videomme_pipeline.rows import to_values
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_files, read_rows
from videomme_pipeline.subtitles.align import AlignedLine

_LONG_TEXTS = ("raw", "reasoning", "error", "judge", "system", "prompt")
"""The texts of an answer that can be shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServedText:
    """Columns of `Response` that the scores do not have."""

    question_id: str
    repeat: int
    reasoning: str | None
    reported_model: str | None
    server: str | None = None


def read_texts(
    store: Store,
    questions: Sequence[Question],
    evaluations: Sequence[ScoredEvaluation],
    media: Media,
) -> Json:
    """Inputs of each video, and text and answers of each of its questions, in full.

    The texts of a video are stored together, because similar texts compress well. Seconds have
    three digits, to keep the page small.
    """
    videos: Json = {
        video_id: _without_none(
            {"inputs": inputs, "video": media.video_beside(video_id), "questions": {}}
        )
        for video_id, inputs in _inputs(store, questions, evaluations, media).items()
    }
    answers = [_answers(evaluation) for evaluation in evaluations]
    for question in questions:
        videos[question.video_id]["questions"][question.question_id] = {
            "question": question.question,
            "options": list(question.options),
            "answers": [of_evaluation[question.question_id] for of_evaluation in answers],
        }
    return videos


def shorten_texts(videos: Json, limit: int | None) -> Json:
    """The result of `read_texts` with no text longer than about `limit` characters."""
    return {
        video_id: {
            **video,
            "inputs": {key: _cut_lines(value, limit) for key, value in video["inputs"].items()},
            "questions": {
                question_id: {
                    **question,
                    "answers": [
                        [_shorten_answer(answer, limit) for answer in answers]
                        for answers in question["answers"]
                    ],
                }
                for question_id, question in video["questions"].items()
            },
        }
        for video_id, video in videos.items()
    }


def _shorten_answer(answer: Json, limit: int | None) -> Json:
    """The answer with the span in UTF-16 code units, and with all texts only without a limit."""
    shown = dict(answer)
    span = shown.get("span")
    for name in _LONG_TEXTS:
        if name in shown:
            shown[name] = shorten(shown[name], limit, span if name == "raw" else None)
    if span is not None:
        shown["span"] = utf16_span(answer["raw"], span)
    if limit is not None:
        shown.pop("between_frames", None)
    return shown


def _answers(evaluation: ScoredEvaluation) -> dict[str, list[Json]]:
    """The answers to each question in the order of the repeats."""
    prompts = {
        row.question_id: row for row in read_files(evaluation.shown.prompts.values(), Prompt)
    }
    responses = {
        (row.question_id, row.repeat): row
        for row in read_files(evaluation.shown.responses.values(), _ServedText)
    }
    answers: dict[str, list[Json]] = defaultdict(list)
    for row in sorted(evaluation.rows, key=lambda row: row.repeat):
        answer = _answer(row)
        if response := responses.get((row.question_id, row.repeat)):
            answer |= {
                "reasoning": response.reasoning,
                "reported_model": response.reported_model,
                "server": response.server and str(read_identity(response.server)),
            }
        if prompt := prompts.get(row.question_id):
            answer |= {
                "system": prompt.system,
                "prompt": prompt.text,
                "between_frames": [prompt.before_frames, *prompt.after_frame],
            }
        answers[row.question_id].append(_without_none(answer))
    return answers


def _answer(row: ScoredQuestion) -> Json:
    span = None
    if row.raw_output is not None and row.span_start is not None and row.span_end is not None:
        span = (row.span_start, row.span_end)
    return {
        "raw": row.raw_output,
        "span": span,
        "rule": row.rule,
        "reader": row.reader,
        "error": row.error,
        "judge": row.judge_output,
        "num_frames": row.num_frames,
        "finish_reason": row.finish_reason,
        **to_values(row.usage),
        "cost_dollars": row.served.cost_dollars,
        "latency_seconds": rounded(row.served.latency_seconds, digits=3),
        "attempts": row.served.attempts,
    }


def _inputs(
    store: Store,
    questions: Sequence[Question],
    evaluations: Sequence[ScoredEvaluation],
    media: Media,
) -> dict[str, Json]:
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


def _frames(store: Store, media: Media, video_id: str, sampling: str) -> Json:
    """Times and sheet of the frames that were sent. Frames that are not stored have no times."""
    key = media.frames.get((video_id, sampling))
    if key is None:
        return {"frames": []}
    shown = read_shown(store, key.video_hash, key.settings)
    times = [rounded(frame.pts_seconds, digits=3) for frame in shown]
    return _without_none({"frames": times, "sheet": media.sheet_beside(video_id, sampling)})


def _lines(path: UPath | None) -> list[Json]:
    return [
        _without_none(
            {
                "start_seconds": rounded(line.start_seconds, digits=3),
                "end_seconds": rounded(line.end_seconds, digits=3),
                "frame": line.frame,
                "text": line.text,
            }
        )
        for line in (read_rows(path, AlignedLine) if path else ())
        if line.question_id is None
    ]


def _cut_lines(value: Json, limit: int | None) -> Json:
    """The first lines with `limit` characters in total, and the number of lines left out."""
    if limit is None:
        return value
    kept, characters = [], 0
    for line in value["lines"]:
        characters += len(line["text"])
        if characters > limit:
            break
        kept.append(line)
    return {**value, "lines": kept, "lines_cut": len(value["lines"]) - len(kept)}


def _without_none(values: Mapping[str, Any]) -> Json:
    return {key: value for key, value in values.items() if value is not None}
