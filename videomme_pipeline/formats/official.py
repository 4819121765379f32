"""The official scripts' printed reports, byte for byte.

v1: `eval_your_results.py` of thanku-all/parse_answer at afd52cf. Its accuracy is correct /
answered, where a response without a letter is not answered; an empty cell prints 0.0.
v2: `evaluation/test_video_mme_v2.py` of MME-Benchmarks/Video-MME-v2 at b24176a, without the two
lines that say where it saved its files.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.benchmarks.videomme import DOMAINS, SUB_CATEGORIES, TASK_TYPES
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.groups import Rating

_WIDE = "=" * 37
_THIN = "-" * 37


def official_report(
    rows: Iterable[ScoredQuestion],
    durations: Sequence[Duration],
    *,
    return_categories_accuracy: bool = False,
    return_sub_categories_accuracy: bool = False,
    return_task_types_accuracy: bool = False,
) -> str:
    """What the official script prints for `rows`, with its flags under their own names.

    `durations` are printed in the order given, one as often as it is named; the last section
    is over all of them.
    """
    held = list(rows)
    by_duration = [[row for row in held if row.duration is duration] for duration in durations]
    tables: list[tuple[str, Sequence[str], Callable[[ScoredQuestion], str | None]]] = []
    if return_categories_accuracy:
        tables.append(("Video Categories", DOMAINS, lambda row: row.domain))
    if return_sub_categories_accuracy:
        tables.append(("Video Sub Categories", SUB_CATEGORIES, lambda row: row.sub_category))
    if return_task_types_accuracy:
        tables.append(("Task Categories", TASK_TYPES, lambda row: row.task_type))

    lines = []
    for duration, part in zip(durations, by_duration, strict=True):
        lines += [_WIDE, f"Evaluation on video Type: {duration}", _WIDE]
        for title, labels, label_of in tables:
            lines += _table(title, labels, label_of, part)
        lines += [*_overall(part), "", ""]
    everything = [row for part in by_duration for row in part]
    lines += [_WIDE, "Evaluation on the entire dataset", _WIDE]
    for title, labels, label_of in tables:
        title_here = "Video Domains" if labels is DOMAINS else title
        lines += _table(title_here, labels, label_of, everything)
    lines += _overall(everything)
    return "\n".join(lines) + "\n"


def official_v2_report(rows: Iterable[ScoredQuestion], rating: Rating) -> str:
    """What the official v2 script prints for `rows` and their `rating`.

    Its "simple accuracy" is over the responses that a letter was read from; with none it is 0.
    """
    outcomes = Counter(row.outcome for row in rows)
    correct, answered = outcomes[Outcome.CORRECT], outcomes[Outcome.INCORRECT]
    answered += correct
    lines = [
        f"Total: {outcomes.total()}, no prediction: {outcomes[Outcome.FAILED]}, "
        f"failed to extract: {outcomes[Outcome.UNREADABLE]}",
        f"Simple accuracy (valid only): {100 * correct / answered if answered else 0:.2f}%",
    ]
    tables: Mapping[str, Mapping[str, float]] = {
        "Metric": rating.final_rating,
        "Second Head": rating.second_head_rating,
        "Third Head": rating.third_head_rating,
    }
    for title, scores in tables.items():
        lines += ["", f"{title:<30} {'Score':>8}", "-" * 40]
        lines += [f"{name:<30} {score:>8.2f}" for name, score in scores.items()]
    return "\n".join(lines) + "\n"


def _table(
    title: str,
    labels: Sequence[str],
    label_of: Callable[[ScoredQuestion], str | None],
    rows: Sequence[ScoredQuestion],
) -> list[str]:
    held: dict[str | None, list[ScoredQuestion]] = {label: [] for label in labels}
    for row in rows:
        held.setdefault(label_of(row), []).append(row)
    return [_THIN, title, _THIN, *(f"{label}: {_percent(held[label])}" for label in labels)]


def _overall(rows: Sequence[ScoredQuestion]) -> list[str]:
    return [_THIN, "Overall Performance", _THIN, f"Overall: {_percent(rows)}"]


def _percent(rows: Sequence[ScoredQuestion]) -> str:
    correct = sum(row.outcome is Outcome.CORRECT for row in rows)
    answered = correct + sum(row.outcome is Outcome.INCORRECT for row in rows)
    return f"{100 * correct / answered if answered else 0: .1f}%"
