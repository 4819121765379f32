"""Totals over many responses: answers and failures, tokens, cost and latency.

Run metadata, tables and reports show them. `scoring` decides which answers are correct.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, frexp

from videomme_pipeline.models.video_llm import FailureKind, Usage
from videomme_pipeline.responses.response import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBin:
    """Number of answers with a latency below `below_seconds` that are in no lower bin."""

    below_seconds: float
    responses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSummary:
    """Totals over a set of responses.

    Sums exclude unreported values. A sum is None if no value was reported. `cached_share` is
    cached tokens divided by prompt tokens (0–1), over the responses that report both. Latencies
    are those of the attempts that were answered.
    """

    responses: int
    answered: int
    failed: int
    failures: Mapping[FailureKind, int]
    attempts: int
    usage: Usage
    cached_share: float | None
    cost_dollars: float | None
    latency_p50_seconds: float | None
    latency_p95_seconds: float | None
    latency_bins: tuple[LatencyBin, ...]
    reported_models: tuple[str, ...]
    system_fingerprints: tuple[str, ...]
    warnings: tuple[str, ...]


def summarize(responses: Iterable[Response]) -> ResponseSummary:
    """Return the totals over `responses`."""
    rows = list(responses)
    answered = [row for row in rows if row.raw_output is not None]
    costs = [row.served.cost_dollars for row in rows if row.served.cost_dollars is not None]
    latencies = sorted(
        row.served.latency_seconds for row in answered if row.served.latency_seconds is not None
    )
    return ResponseSummary(
        responses=len(rows),
        answered=len(answered),
        failed=len(rows) - len(answered),
        failures=dict(Counter(row.failure for row in rows if row.failure is not None)),
        attempts=sum(row.served.attempts for row in rows),
        usage=sum((row.usage for row in rows), Usage()),
        cached_share=_cached_share([row.usage for row in rows]),
        cost_dollars=sum(costs) if costs else None,
        latency_p50_seconds=_quantile(latencies, 0.50),
        latency_p95_seconds=_quantile(latencies, 0.95),
        latency_bins=_bins(latencies),
        reported_models=_distinct(row.reported_model for row in rows),
        system_fingerprints=_distinct(row.system_fingerprint for row in rows),
        warnings=_distinct(row.warning for row in rows),
    )


def _bins(latencies: Sequence[float]) -> tuple[LatencyBin, ...]:
    """Latencies by powers of two, from the first to the last bin that is not empty."""
    exponents = Counter(frexp(seconds)[1] for seconds in latencies)
    if not exponents:
        return ()
    return tuple(
        LatencyBin(below_seconds=2.0**exponent, responses=exponents[exponent])
        for exponent in range(min(exponents), max(exponents) + 1)
    )


def _cached_share(usages: Iterable[Usage]) -> float | None:
    both = [
        (usage.cached_tokens, usage.prompt_tokens)
        for usage in usages
        if usage.cached_tokens is not None and usage.prompt_tokens is not None
    ]
    total = sum(prompt for _, prompt in both)
    return sum(cached for cached, _ in both) / total if total else None


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value is not None}))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Quantile by nearest rank: the smallest value with at least `share` of all values ≤ it."""
    if not ordered:
        return None
    rank = max(ceil(len(ordered) * share), 1)
    return ordered[rank - 1]
