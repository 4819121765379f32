"""Many responses in one line: answered and failed, tokens, money, speed.

For the metadata of a run, tables and reports. Whether an answer is right belongs to `scoring`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, frexp

from videomme_pipeline.models.video_llm import FailureKind
from videomme_pipeline.responses.response import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBin:
    """How many answers took less than `below_seconds`, and no less than the bin before."""

    below_seconds: float
    responses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSummary:
    """What a set of responses took. Sums leave out what was not reported; a sum of nothing
    reported is None, so that no tokens and unknown tokens stay apart.

    `cached_share` is cached of all prompt tokens (0–1), over the responses that report both.
    Latencies are those of the attempt that gave the answer.
    """

    responses: int
    answered: int
    failed: int
    failures: Mapping[FailureKind, int]
    attempts: int
    prompt_tokens: int | None
    cached_tokens: int | None
    cached_share: float | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    cost_dollars: float | None
    latency_p50_seconds: float | None
    latency_p95_seconds: float | None
    latency_bins: tuple[LatencyBin, ...]
    reported_models: tuple[str, ...]
    system_fingerprints: tuple[str, ...]
    warnings: tuple[str, ...]


def summarize(responses: Iterable[Response]) -> ResponseSummary:
    """`responses` in one line."""
    held = list(responses)
    answered = [item for item in held if item.raw_output is not None]
    kinds = Counter(item.failure for item in held if item.failure is not None)
    costs = [item.cost_dollars for item in held if item.cost_dollars is not None]
    latencies = sorted(
        item.latency_seconds for item in answered if item.latency_seconds is not None
    )
    return ResponseSummary(
        responses=len(held),
        answered=len(answered),
        failed=len(held) - len(answered),
        failures=dict(kinds),
        attempts=sum(item.attempts for item in held),
        prompt_tokens=_sum_known(item.prompt_tokens for item in held),
        cached_tokens=_sum_known(item.cached_tokens for item in held),
        cached_share=_cached_share(held),
        completion_tokens=_sum_known(item.completion_tokens for item in held),
        reasoning_tokens=_sum_known(item.reasoning_tokens for item in held),
        cost_dollars=sum(costs) if costs else None,
        latency_p50_seconds=_quantile(latencies, 0.50),
        latency_p95_seconds=_quantile(latencies, 0.95),
        latency_bins=_bins(latencies),
        reported_models=_distinct(item.reported_model for item in held),
        system_fingerprints=_distinct(item.system_fingerprint for item in held),
        warnings=_distinct(item.warning for item in held),
    )


def _bins(latencies: Sequence[float]) -> tuple[LatencyBin, ...]:
    """Latencies by powers of two, from the first to the last bin that holds any."""
    exponents = Counter(frexp(seconds)[1] for seconds in latencies)
    if not exponents:
        return ()
    return tuple(
        LatencyBin(below_seconds=2.0**exponent, responses=exponents[exponent])
        for exponent in range(min(exponents), max(exponents) + 1)
    )


def _cached_share(responses: Sequence[Response]) -> float | None:
    both = [
        (item.cached_tokens, item.prompt_tokens)
        for item in responses
        if item.cached_tokens is not None and item.prompt_tokens is not None
    ]
    total = sum(prompt for _, prompt in both)
    return sum(cached for cached, _ in both) / total if total else None


def _sum_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value is not None}))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that `share` of all values do not exceed (nearest rank)."""
    if not ordered:
        return None
    rank = max(ceil(len(ordered) * share), 1)
    return ordered[rank - 1]
