"""An evaluation's results in the file shapes of others.

`official` is what the leaderboard takes (v1: the published template; v2: the dataset's rows with
`prediction`), `lmms_eval` its sample lines, `vlmevalkit` its result table. All of them can be
read back by `scoring.import_results`. Nothing is scored here.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import pandas as pd

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import ScoredQuestion


class ExportFormat(StrEnum):
    """Whose file shape is written."""

    OFFICIAL = "official"
    LMMS_EVAL = "lmms_eval"
    VLMEVALKIT = "vlmevalkit"

    @property
    def suffix(self) -> str:
        """The usual file ending."""
        return {"official": ".json", "lmms_eval": ".jsonl", "vlmevalkit": ".tsv"}[self.value]


def export(
    questions: Sequence[Question], rows: Sequence[ScoredQuestion], form: ExportFormat
) -> str:
    """The first sample of each question of one evaluation as a file of the given form.

    A question without a response has an empty text (the official script stops on null); in the
    official v1 template a video of which no question was asked is marked missing.

    Raises:
        ScoringError: when `rows` belong to none of `questions`.
    """
    answers = {row.question_id: row for row in rows if row.sample == 0}
    asked = [question for question in questions if question.question_id in answers]
    if not asked:
        raise ScoringError(
            f"{len(rows)} scored rows belong to none of {len(questions)} questions; "
            "export an evaluation with its own benchmark"
        )
    match form:
        case ExportFormat.OFFICIAL if asked[0].group_type is None:
            return _json(_official_v1(questions, answers))
        case ExportFormat.OFFICIAL:
            return _json([_v2_row(held) | _prediction(answers, held) for held in asked])
        case ExportFormat.LMMS_EVAL:
            samples = (_lmms_eval(held, answers[held.question_id]) for held in asked)
            return "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
        case ExportFormat.VLMEVALKIT:
            return _vlmevalkit(asked, answers)


def _official_v1(
    questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]
) -> list[dict[str, Any]]:
    by_video: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        by_video[question.video_id].append(question)
    return [
        {
            "video_id": video_id,
            "duration": held[0].duration,
            "domain": held[0].domain,
            "sub_category": held[0].sub_category,
            "missing": not any(question.question_id in answers for question in held),
            "questions": [
                {
                    "question_id": question.question_id,
                    "task_type": question.task_type,
                    "question": question.question,
                    "options": list(question.options),
                    "answer": question.answer,
                    "response": _text(answers.get(question.question_id)),
                }
                for question in held
            ],
        }
        for video_id, held in by_video.items()
    ]


def _lmms_eval(question: Question, row: ScoredQuestion) -> dict[str, Any]:
    """One line of lmms-eval's samples file, with its own names for the breakdowns."""
    shared = {
        "question_id": question.question_id,
        "pred_answer": row.extracted_answer or "",
        "answer": question.answer,
        "score": float(row.is_correct),
    }
    if question.group_type is None:
        doc = _v1_row(question)
        metric = {
            "videomme_perception_score": shared
            | {
                "videoID": question.youtube_id,
                "duration": question.duration,
                "category": question.domain,
                "sub_category": question.sub_category,
                "task_category": question.task_type,
            }
        }
    else:
        doc = _v2_row(question)
        labels = ("video_id", "group_type", "group_structure", "level")
        metric = {
            "videomme_v2_overall_score": shared
            | {label: doc[label] for label in (*labels, "second_head", "third_head")}
        }
    text = _text(row)
    return {
        "doc_id": question.question_id,
        "doc": doc,
        "target": question.answer,
        "resps": [[text]],
        "filtered_resps": [text],
    } | metric


def _vlmevalkit(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]) -> str:
    """VLMEvalKit's table: its column names, options of v1 as a list written as text."""
    table = []
    for index, question in enumerate(questions):
        row = _v1_row(question) if question.group_type is None else _v2_row(question)
        row = {"index": index, "video": row.pop("video_id")} | row
        if question.group_type is None:
            row["candidates"] = str(row.pop("options"))
        table.append(row | _prediction(answers, question))
    text: str = pd.DataFrame(table).to_csv(sep="\t", index=False)
    return text


def _v1_row(question: Question) -> dict[str, Any]:
    return {
        "video_id": question.video_id,
        "duration": question.duration,
        "domain": question.domain,
        "sub_category": question.sub_category,
        "videoID": question.youtube_id,
        "question_id": question.question_id,
        "task_type": question.task_type,
        "question": question.question,
        "options": list(question.options),
        "answer": question.answer,
    }


def _v2_row(question: Question) -> dict[str, Any]:
    return {
        "video_id": question.video_id,
        "url": question.url,
        "group_type": question.group_type,
        "group_structure": question.group_structure,
        "question_id": question.question_id,
        "question": question.question,
        "options": "\n".join(question.options),
        "answer": question.answer,
        "level": None if question.level is None else str(question.level),
        "second_head": question.second_head,
        "third_head": question.third_head,
    }


def _prediction(answers: Mapping[str, ScoredQuestion], question: Question) -> dict[str, str]:
    return {"prediction": _text(answers.get(question.question_id))}


def _text(row: ScoredQuestion | None) -> str:
    return "" if row is None or row.raw_output is None else row.raw_output


def _json(value: Any) -> str:
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"
