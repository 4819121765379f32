"""Totals over many responses: answers and failures, tokens, cost and latency."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from videomme_pipeline.models.video_llm import FailureKind, Usage
from videomme_pipeline.responses.response import Response
from videomme_pipeline.rows import to_values


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSummary:
    """Totals over a set of responses.

    `numbers` are counts, tokens, costs and latencies by name, without those that are unknown.
    `cached_share` is cached tokens divided by prompt tokens (0–1), over the responses that report
    both.
    """

    numbers: Mapping[str, int | float]
    failures: Mapping[FailureKind, int]


def summarize(responses: Iterable[Response]) -> ResponseSummary:
    rows = list(responses)
    answered = [row for row in rows if row.raw_output is not None]
    costs = [row.served.cost_dollars for row in rows if row.served.cost_dollars is not None]
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
        **to_values(sum((row.usage for row in rows), Usage())),
        "cached_share": _cached_share([row.usage for row in rows]),
        "cost_dollars": sum(costs) if costs else None,
        "latency_p50_seconds": p50,
        "latency_p95_seconds": p95,
    }
    return ResponseSummary(
        numbers={name: number for name, number in numbers.items() if number is not None},
        failures=Counter(row.failure for row in rows if row.failure is not None),
    )


def _cached_share(usages: Iterable[Usage]) -> float | None:
    both = [
        (usage.cached_tokens, usage.prompt_tokens)
        for usage in usages
        if usage.cached_tokens is not None and usage.prompt_tokens is not None
    ]
    total = sum(prompt for _, prompt in both)
    return sum(cached for cached, _ in both) / total if total else None
