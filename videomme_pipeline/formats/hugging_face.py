"""The `.eval_results/*.yaml` file of a model repository on the Hugging Face Hub.

The hub shows its scores on the model page and on the leaderboard of the benchmark's dataset.
"""

import re

import yaml

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.results_format import EvaluationResults, mapping_or_empty
from videomme_pipeline.scoring.statistics.breakdowns import group_breakdowns

_TASK = "default"


def write_eval_results(scored: EvaluationResults) -> str:
    """The headline score in percent, with settings, track, n and interval in `notes`.

    The dataset is the one that the benchmark of the questions declares.

    Raises:
        ScoringError: if the benchmark has no dataset on the hub, or the score must not be cited.
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
    entry = EvalResultEntry(
        dataset_id=benchmark.repository,
        task_id=_TASK,
        value=value,
        date=None if scored.answered_at is None else scored.answered_at.date().isoformat(),
        notes=f"{_settings(scored)}; {scored.coverage}; {interval}",
    )
    return yaml.safe_dump(
        eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True, width=1_000
    )


def model_repository(scored: EvaluationResults, name: str = "") -> str:
    """The repository `name` on the hub, or else that of the evaluated model.

    Raises:
        ScoringError: if that is no name of a repository, such as `Qwen/Qwen3-VL-8B`.
    """
    name = name or str(mapping_or_empty(scored.settings.get("model")).get("model", ""))
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name, re.ASCII):
        raise ScoringError(
            f"{scored.rows[0].evaluation}: `{name}` is no repository of a model on the hub; name "
            "one with --to hub:ORGANIZATION/MODEL"
        )
    return name


def _headline(scored: EvaluationResults) -> tuple[float, str]:
    """The score in percent, and a text with the 95% interval of the score."""
    if scored.benchmark.grouping:
        groups = group_breakdowns(scored.benchmark, scored.rows)[0]["group_score_overall"][0]
        if groups.group_score is None:
            raise ScoringError("no group of questions is complete; run the evaluation again")
        low, high = groups.group_score_low, groups.group_score_high
        text = "unknown" if low is None or high is None else f"{low:.1f} to {high:.1f}"
        return round(groups.group_score, 2), f"group score, 95% CI {text}"
    accuracy, interval = scored.accuracy
    low, high = 100 * interval.low, 100 * interval.high
    return round(100 * accuracy.mean, 2), f"accuracy, 95% CI {low:.1f} to {high:.1f}"


def _settings(scored: EvaluationResults) -> str:
    row = scored.rows[0]
    name = mapping_or_empty(scored.settings.get("template")).get("name")
    prompt = f"prompt {name}, " if name else ""
    return f"{row.track}, {row.sampling}, {prompt}reader {row.reader}"
