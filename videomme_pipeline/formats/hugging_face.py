"""The `.eval_results/*.yaml` file of a model repository on the Hugging Face Hub.

The hub shows its scores on the model page and on the leaderboard of the benchmark's dataset.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.results_format import mapping_or_empty
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import accuracy_of, group_breakdowns


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResults:
    """An evaluation to be published: questions, the rows of all repeats, and settings."""

    questions: Sequence[Question]
    rows: Sequence[ScoredQuestion]
    settings: Mapping[str, object]
    not_citable: str = ""

    @property
    def benchmark(self) -> Benchmark:
        return find_benchmark(self.rows[0].benchmark)


def write_eval_results(scored: EvaluationResults) -> str:
    """The headline score in percent, with settings, track, n and interval in `notes`.

    The dataset is the one that the benchmark of the questions declares. ScoringError if it declares
    none, or the score must not be cited.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml  # noqa: PLC0415 - slow to import

    benchmark = scored.benchmark
    if benchmark.repository is None:
        raise ScoringError(
            f"{benchmark.name} has no dataset on the Hugging Face Hub, so its scores cannot be "
            "filed there; export an evaluation of a published benchmark"
        )
    if scored.not_citable:
        raise ScoringError(
            f"the score must not be cited ({scored.not_citable}); run the evaluation again"
        )
    value, interval = _headline(scored)
    times = [row.served.answered_at for row in scored.rows if row.served.answered_at]
    entry = EvalResultEntry(
        dataset_id=benchmark.repository,
        task_id="default",
        value=value,
        date=max(times).date().isoformat() if times else None,
        notes=f"{_settings(scored)}; {_coverage(scored)}; {interval}",
    )
    return yaml.safe_dump(
        eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True, width=1_000
    )


def model_repository(scored: EvaluationResults, name: str = "") -> str:
    """The repository `name` on the hub, or else that of the evaluated model."""
    name = name or str(mapping_or_empty(scored.settings.get("model")).get("model", ""))
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name, re.ASCII):
        raise ScoringError(
            f"{scored.rows[0].evaluation}: `{name}` is no repository of a model on the hub; name "
            "one with --to hub:ORGANIZATION/MODEL"
        )
    return name


def _headline(scored: EvaluationResults) -> tuple[float, str]:
    """The score in percent, and a text with its 95% interval."""
    if scored.benchmark.grouping:
        groups = group_breakdowns(scored.benchmark, scored.rows)[0]["group_score_overall"][0]
        if groups.group_score is None:
            raise ScoringError("no group of questions is complete; run the evaluation again")
        low, high = groups.group_score_low, groups.group_score_high
        text = "unknown" if low is None or high is None else f"{low:.1f} to {high:.1f}"
        return round(groups.group_score, 2), f"group score, 95% CI {text}"
    accuracy = accuracy_of(scored.rows)
    if accuracy is None:
        raise ScoringError(
            f"{scored.rows[0].evaluation}: none of {len(scored.rows):,} requests was answered, so "
            "there is no accuracy; run the evaluation again"
        )
    low, high = 100 * (accuracy.low or 0), 100 * (accuracy.high or 0)
    return round(100 * accuracy.mean, 2), f"accuracy, 95% CI {low:.1f} to {high:.1f}"


def _coverage(scored: EvaluationResults) -> str:
    """The number of questions: "2,700 of 2,700 questions on 900 videos, asked once"."""
    asked = len({row.question_id for row in scored.rows})
    videos = len({row.video_id for row in scored.rows})
    size = scored.benchmark.size.questions
    of_all = f"{asked:,}" if size is None else f"{asked:,} of {size:,}"
    repeats = 1 + max(row.repeat for row in scored.rows)
    times = "once" if repeats == 1 else f"{repeats} times"
    return f"{of_all} questions on {videos:,} videos, asked {times}"


def _settings(scored: EvaluationResults) -> str:
    row = scored.rows[0]
    name = mapping_or_empty(scored.settings.get("template")).get("name")
    prompt = f"prompt {name}, " if name else ""
    return f"{row.track}, {row.sampling}, {prompt}reader {row.reader}"
