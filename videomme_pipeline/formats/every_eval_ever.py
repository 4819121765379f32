"""Files of Every Eval Ever: the aggregate, and one JSON line per question and repeat.

The schemas are `eval.schema.json` and `instance_level_eval.schema.json` of version 0.3.0.
"""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

from videomme_pipeline.benchmarks.columns import lettered
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.formats.results_format import (
    EvaluationResults,
    ResultsFormat,
    Row,
    json_lines,
    mapping_or_empty,
    objects_in,
)
from videomme_pipeline.formats.stored_facts import beside
from videomme_pipeline.models.public_settings import public_settings, without_urls
from videomme_pipeline.scoring.scored_question import ScoredQuestion

_CONSTANTS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_SCHEMA = _CONSTANTS["schema_version"]


def _read(instance: Row) -> list[Row]:
    """The dataset's columns from `metadata`, if the file has them there, and the answer."""
    asked = mapping_or_empty(instance.get("input"))
    metadata = mapping_or_empty(instance.get("metadata"))
    reference, choices = asked.get("reference"), asked.get("choices")
    row: dict[str, Any] = {
        "question_id": instance.get("sample_id"),
        "question": asked.get("raw"),
        "answer": reference[0] if reference else None,
    }
    if choices:
        row["options"] = lettered([str(choice) for choice in choices])
        if row["answer"] in choices:  # some tools refer to an option by its text
            row["answer"] = tuple(Letter)[choices.index(row["answer"])]
    texts = mapping_or_empty(instance.get("output")).get("raw")
    is_failed = instance.get("error") and not any(texts or ())
    if "epoch" in metadata:  # files converted from logs of Inspect
        row["repeat"] = int(metadata["epoch"]) - 1
    read = next(iter(objects_in(instance.get("answer_attribution"))), {})
    row |= beside({"token_usage": instance.get("token_usage")}, instance.get("evaluation"))
    row["pred_answer"] = read.get("extracted_value")
    return [{**row, **metadata, "prediction": texts[0] if texts and not is_failed else None}]


def write_aggregate(scored: EvaluationResults) -> str:
    """The aggregate file: the accuracy with a 95% interval, the model and the settings.

    The organization and how it is related to the model are unknown here. Edit both before
    publishing.
    """
    first, benchmark = scored.rows[0], scored.benchmark
    accuracy, interval = scored.accuracy
    dataset: dict[str, Any] = {"dataset_name": benchmark.title, "source_type": "other"}
    if benchmark.repository is not None:
        dataset |= {"source_type": "hf_dataset", "hf_repo": benchmark.repository}
    uncertainty: dict[str, Any] = {
        "confidence_interval": {
            "lower": interval.low,
            "upper": interval.high,
            "confidence_level": 0.95,
            "method": interval.kind,
        },
        "num_samples": len({row.question_id for row in scored.rows}),
    }
    if accuracy.standard_error is not None:
        uncertainty["standard_error"] = {
            "value": accuracy.standard_error,
            "method": "clustered by video",
        }
    result = {
        "evaluation_result_id": _result_id(scored),
        "evaluation_name": first.benchmark,
        "source_data": dataset,
        "metric_config": _CONSTANTS["metric_config"],
        "score_details": {
            "score": accuracy.mean,
            "uncertainty": uncertainty,
            "details": {
                "coverage": scored.coverage,
                **({"not_citable": scored.not_citable} if scored.not_citable else {}),
            },
        },
        "generation_config": {"additional_details": _settings(scored)},
    }
    aggregate = {
        "schema_version": _SCHEMA,
        "evaluation_id": _evaluation_id(scored),
        "retrieved_timestamp": _timestamp(scored),
        "source_metadata": _CONSTANTS["source_metadata"],
        "eval_library": {"name": "videomme-pipeline", "version": version("videomme-pipeline")},
        "model_info": {
            "name": first.model,
            "id": first.model,
            "developer": _developer_and_model(scored)[0],
            "additional_details": _CONSTANTS["model_details"],
        },
        "evaluation_results": [result],
        "detailed_evaluation_results": _instances_file(scored),
    }
    return json.dumps(aggregate, indent=2, ensure_ascii=False) + "\n"


def write_instances(scored: EvaluationResults) -> str:
    """The instance file, with all repeats of each question."""
    questions = {question.question_id: question for question in scored.questions}
    return json_lines(
        _instance(scored, questions[row.question_id], row)
        for row in scored.rows
        if row.question_id in questions
    )


def _instance(scored: EvaluationResults, question: Question, row: ScoredQuestion) -> Row:
    asked = {
        "raw": question.question,
        "reference": [question.answer],
        "choices": list(question.options),
    }
    hashed = hashlib.sha256((question.question + question.answer).encode()).hexdigest()
    metadata = {
        "video_id": row.video_id,
        **{name: str(value) for name, value in row.facets.items() if value is not None},
        "repeat": str(row.repeat),
        "outcome": row.outcome,
    }
    instance: dict[str, Any] = {
        "schema_version": _SCHEMA,
        "evaluation_id": _evaluation_id(scored),
        "model_id": row.model,
        "evaluation_name": row.benchmark,
        "evaluation_result_id": _result_id(scored),
        "sample_id": row.question_id,
        "sample_hash": hashed,
        "interaction_type": "single_turn",
        "input": asked,
        "output": {"raw": [] if row.raw_output is None else [row.raw_output]},
        "answer_attribution": _attribution(row),
        "evaluation": {"score": float(row.is_correct), "is_correct": row.is_correct},
        "error": row.error and without_urls(row.error),
        "metadata": metadata,
    }
    usage = row.usage
    if usage.prompt_tokens is not None and usage.completion_tokens is not None:
        instance["token_usage"] = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "input_tokens_cache_read": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        }
    if row.served.latency_seconds is not None:
        instance["performance"] = {"latency_ms": 1_000 * row.served.latency_seconds}
    return instance


def _attribution(row: ScoredQuestion) -> list[Row]:
    """The letter, the rule that read it and its span; empty if no letter was read."""
    if row.extracted_answer is None:
        return []
    has_span = row.span_start is not None and row.span_end is not None
    span = f"[0][{row.span_start}:{row.span_end}]" if has_span else ""
    return [
        {
            "turn_idx": 0,
            "source": f"output.raw{span}",
            "extracted_value": row.extracted_answer,
            "extraction_method": f"reader {row.reader}, rule {row.rule}",
            "is_terminal": True,
        }
    ]


def _settings(scored: EvaluationResults) -> dict[str, str]:
    """The settings as texts; nested ones as JSON."""
    row = scored.rows[0]
    return {
        "track": row.track,
        **{
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in public_settings(scored.settings).items()
        },
        "sampling": row.sampling,
        "reader": row.reader,
    }


def _instances_file(scored: EvaluationResults) -> Row:
    """Path of the instance file in a data store, with the file's checksum and number of rows."""
    content = write_instances(scored)
    digest = hashlib.sha256(content.encode()).hexdigest()
    developer, model = _developer_and_model(scored)
    name = UUID(hex=digest[:32], version=4)
    return {
        "format": "jsonl",
        "file_path": f"data/{scored.benchmark.name}/{developer}/{model}/{name}_samples.jsonl",
        "hash_algorithm": "sha256",
        "checksum": digest,
        "total_rows": content.count("\n"),
    }


def _developer_and_model(scored: EvaluationResults) -> tuple[str, str]:
    """The two parts of a model name such as "made-up/model"; "unknown" without the first."""
    developer, _, model = scored.rows[0].model.rpartition("/")
    return developer.replace("/", "_") or "unknown", model


def _timestamp(scored: EvaluationResults) -> str:
    """The time of the last answer, so that a file that is written again is the same."""
    return "0" if scored.answered_at is None else str(int(scored.answered_at.timestamp()))


def _evaluation_id(scored: EvaluationResults) -> str:
    first = scored.rows[0]
    return f"{first.benchmark}/{first.model}/{first.evaluation}/{_timestamp(scored)}"


def _result_id(scored: EvaluationResults) -> str:
    return f"{_evaluation_id(scored)}#accuracy"


FORMAT = ResultsFormat(
    name="every_eval_ever",
    recognizes=lambda row: {"sample_id", "answer_attribution"} <= row.keys(),
    read=_read,
)
