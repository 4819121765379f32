"""Totals over many responses: answers and failures, tokens, cost and latency."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields

import numpy as np

from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.responses.response import Response

_TOKENS = [count.name for count in fields(Usage)]


def summarize(responses: Iterable[Response]) -> dict[str, int | float]:
    """Counts, tokens, costs and latencies by name, without those that are unknown.

    `cached_share` is cached divided by prompt tokens (0–1), in responses that report both.
    `failed: timeout` counts the failures of one kind.
    """
    rows = list(responses)
    answered = [row for row in rows if row.raw_output is not None]
    latencies = [
        row.served.latency_seconds for row in answered if row.served.latency_seconds is not None
    ]
    p50 = p95 = None
    if latencies:  # the smallest latency that is not below those of this share of the answers
        p50, p95 = np.quantile(latencies, (0.50, 0.95), method="inverted_cdf").tolist()
    numbers = {
        "responses": len(rows),
        "succeeded": len(answered),
        "failed": len(rows) - len(answered),
        "attempts": sum(row.served.attempts for row in rows),
        **{name: _total(getattr(row.usage, name) for row in rows) for name in _TOKENS},
        "cached_share": _cached_share(row.usage for row in rows),
        "cost_dollars": _total(row.served.cost_dollars for row in rows),
        "latency_p50_seconds": p50,
        "latency_p95_seconds": p95,
    }
    failures = Counter(f"failed: {row.failure}" for row in rows if row.failure is not None)
    return {name: number for name, number in numbers.items() if number is not None} | failures


def _total(numbers: Iterable[int | float | None]) -> int | float | None:
    reported = [number for number in numbers if number is not None]
    return sum(reported) if reported else None


def _cached_share(usages: Iterable[Usage]) -> float | None:
    both = [usage for usage in usages if None not in (usage.cached_tokens, usage.prompt_tokens)]
    cached_tokens = sum(usage.cached_tokens or 0 for usage in both)
    prompt_tokens = sum(usage.prompt_tokens or 0 for usage in both)
    return cached_tokens / prompt_tokens if prompt_tokens else None
