"""Texts of the page: questions, prompts, subtitle lines, frame times and responses.

Texts are not escaped, because the page never parses a text as markup.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from upath import UPath

from videomme_pipeline.frames.cache import read_shown
from videomme_pipeline.models.identity import read_identity
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.reports.document import Json, rounded, shorten, utf16_span
from videomme_pipeline.reports.stored import ScoredEvaluation, ShownBenchmark
from videomme_pipeline.rows import to_values
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.groups import question_order
from videomme_pipeline.storage.tables import read_files, read_rows
from videomme_pipeline.subtitles.align import AlignedLine

_LONG_TEXTS = ("raw", "reasoning", "trace", "error", "judge", "system", "prompt")
"""The texts of an answer that can be shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServedText:
    """Columns of `Response` that the scores do not have."""

    question_id: str
    repeat: int
    reasoning: str | None
    reported_model: str | None
    usage_json: str | None = None
    server: str | None = None

    @property
    def trace(self) -> str | None:
        """The trace of a program, as text."""
        trace = orjson.loads(self.usage_json or "{}").get("trace")
        if trace is None or isinstance(trace, str):
            return trace
        return orjson.dumps(trace, option=orjson.OPT_INDENT_2).decode()


def read_texts(benchmark: ShownBenchmark, *, is_short: bool) -> Json:
    """Inputs of each video, and text and answers of each of its questions.

    With `is_short`, long texts are shortened, and subtitle lines and texts between frames are left
    out. The texts of a video are together, because similar texts compress well.
    """
    videos: Json = {
        video_id: {"inputs": inputs, "questions": {}}
        for video_id, inputs in _inputs(benchmark).items()
    }
    for video_id in benchmark.files:
        videos[video_id]["video"] = benchmark.url(video_id)
    answers = [_answers(evaluation, is_short=is_short) for evaluation in benchmark.evaluations]
    if is_short:
        for inputs in (inputs for video in videos.values() for inputs in video["inputs"].values()):
            inputs |= {"lines": [], "lines_cut": len(inputs["lines"])}
    for question in benchmark.questions:
        videos[question.video_id]["questions"][question.question_id] = {
            "question": question.question,
            "options": list(question.options),
            "answers": [of_evaluation[question.question_id] for of_evaluation in answers],
        }
    return videos


def _answers(evaluation: ScoredEvaluation, *, is_short: bool) -> dict[str, list[Json]]:
    stored_prompts = read_files(evaluation.shown.files("prompts").values(), Prompt)
    prompts = {row.question_id: row for row in stored_prompts}
    stored_texts = read_files(evaluation.shown.files("responses").values(), _ServedText)
    responses = {(row.question_id, row.repeat): row for row in stored_texts}
    answers: dict[str, list[Json]] = defaultdict(list)
    turns: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in sorted(evaluation.rows, key=lambda r: (r.repeat, question_order(r.question_id))):
        answer = _answer(row)
        if "conversation" in evaluation.specification:
            earlier = turns[row.video_id, row.repeat]
            answer["earlier"] = earlier[:] if row.request_fingerprint else None  # None: not asked
            earlier.append(row.question_id)
        if response := responses.get((row.question_id, row.repeat)):
            answer |= {
                "reasoning": response.reasoning,
                "trace": response.trace,
                "reported_model": response.reported_model,
                "server": response.server and str(read_identity(response.server)),
            }
        if prompt := prompts.get(row.question_id):
            answer |= {
                "system": prompt.system,
                "prompt": prompt.text,
                "between_frames": [prompt.before_frames, *prompt.after_frame],
            }
        if is_short:
            answer |= {"between_frames": None} | {
                name: shorten(answer[name], _span(row) if name == "raw" else None)
                for name in _LONG_TEXTS
                if answer.get(name)
            }
        answers[row.question_id].append(_without_none(answer))
    return answers


def _span(row: ScoredQuestion) -> tuple[int, int] | None:
    """The characters of the response from which the letter was read."""
    if row.span_start is None or row.span_end is None:
        return None
    return row.span_start, row.span_end


def _answer(row: ScoredQuestion) -> Json:
    span = _span(row)
    return {
        "raw": row.raw_output,
        "span": utf16_span(row.raw_output, span) if row.raw_output and span else None,
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


def _inputs(benchmark: ShownBenchmark) -> dict[str, Json]:
    """Times and contact sheet of the frames, and subtitle lines, by video and input key."""
    distinct = {evaluation.input_key: evaluation for evaluation in benchmark.evaluations}
    subtitles = {
        key: evaluation.shown.files("subtitles", evaluation.track_name)
        for key, evaluation in distinct.items()
        if evaluation.track_name is not None
    }
    return {
        video_id: {
            key: {
                **_frames(benchmark, video_id, evaluation.rows[0].sampling),
                "lines": _lines(subtitles.get(key, {}).get(video_id)),
            }
            for key, evaluation in distinct.items()
        }
        for video_id in dict.fromkeys(question.video_id for question in benchmark.questions)
    }


def _frames(benchmark: ShownBenchmark, video_id: str, sampling: str) -> Json:
    """Times and sheet of the frames that were sent. Frames that are not stored have no times."""
    key = benchmark.frames.get((video_id, sampling))
    if key is None:
        return {"frames": []}
    shown = read_shown(benchmark.results.store, key.video_hash, key.settings)
    times = [rounded(frame.pts_seconds, digits=3) for frame in shown]
    return _without_none({"frames": times, "sheet": key.sheet if benchmark.is_served else None})


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


def _without_none(values: Mapping[str, Any]) -> Json:
    return {key: value for key, value in values.items() if value is not None}
