"""What tokens cost, and what an evaluation will cost before it is run. All money is US dollars.

A price comes from the user's `models.yaml` where it stands there, else from `genai-prices`,
else it is unknown (None, never zero). How tokens are counted belongs to `endpoints`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from videomme_pipeline.fingerprint import Spec

PER_MILLION = 1e-6
OPENAI_URL = "https://api.openai.com/v1"


class Prices(Spec):
    """Dollars per million tokens. A cached price that is not given is the input price."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one or many requests. `cached_tokens` and `cache_write_tokens` are part of
    `prompt_tokens`."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTokens:
    """How many questions one video has, and what its frames cost in each of them."""

    questions: int
    frame_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an evaluation will take. `dollars` is None where no price is known.

    `dollars_if_cached` assumes that every question of a video after its first finds the
    frames in the endpoint's prefix cache; `dollars` that none does.
    """

    requests: int
    prompt_tokens: int
    cacheable_tokens: int
    completion_tokens: int
    dollars: float | None
    dollars_if_cached: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What one model at one endpoint charges.

    `prices` go before the list prices of `genai-prices`. `service_tier` may be `flex` or
    `batch`; a model without a list price for that tier is priced as if it had none, which is
    never too low.
    """

    model: str
    base_url: str | None = None
    prices: Prices | None = None
    service_tier: str | None = None

    def dollars(self, usage: TokenUsage, at: datetime | None = None) -> float | None:
        """The cost of one request made at `at` (now); None where no price is known."""
        if self.prices is not None:
            return _at_prices(usage, self.prices)
        return _at_list_price(usage, self, at)

    def estimate(
        self,
        videos: Iterable[VideoTokens],
        *,
        text_tokens_per_question: int,
        completion_tokens_per_question: int,
    ) -> Estimate:
        """Tokens and dollars of an evaluation of `videos` before it is run."""
        held = list(videos)
        requests = sum(video.questions for video in held)
        prompt_tokens = sum(video.questions * video.frame_tokens for video in held)
        prompt_tokens += requests * text_tokens_per_question
        cacheable = sum(max(video.questions - 1, 0) * video.frame_tokens for video in held)
        completion_tokens = requests * completion_tokens_per_question

        def dollars(cached_tokens: int) -> float | None:
            # Prices that rise with the prompt's length apply to each request on its own.
            average = TokenUsage(
                prompt_tokens=round(prompt_tokens / requests),
                completion_tokens=round(completion_tokens / requests),
                cached_tokens=round(cached_tokens / requests),
            )
            one = self.dollars(average)
            return None if one is None else one * requests

        return Estimate(
            requests=requests,
            prompt_tokens=prompt_tokens,
            cacheable_tokens=cacheable,
            completion_tokens=completion_tokens,
            dollars=dollars(0) if requests else 0.0,
            dollars_if_cached=dollars(cacheable) if requests else 0.0,
        )


def _at_prices(usage: TokenUsage, prices: Prices) -> float:
    cached = prices.input if prices.cached_input is None else prices.cached_input
    written = prices.input if prices.cache_write is None else prices.cache_write
    fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
    return PER_MILLION * (
        fresh * prices.input
        + usage.cached_tokens * cached
        + usage.cache_write_tokens * written
        + usage.completion_tokens * prices.output
    )


def _at_list_price(usage: TokenUsage, tariff: Tariff, at: datetime | None) -> float | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415 - takes 0.3 s, few need it

    counts = Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    match tariff.service_tier:
        case None:
            context = None
        case "batch":
            context = {"processing": "batch"}
        case tier:
            context = {"service_tier": tier}
    try:
        price = calc_price(
            counts,
            tariff.model,
            provider_api_url=tariff.base_url or OPENAI_URL,
            genai_request_timestamp=at,
            price_context=context,
        )
    except LookupError:
        return None
    return float(price.total_price)
