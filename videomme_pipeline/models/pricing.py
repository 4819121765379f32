"""The price of tokens. All money is US dollars.

A price is read from the user's `models.yaml`, else from `genai-prices`. A price that neither has is
unknown: None, never zero.
"""

from dataclasses import dataclass

from videomme_pipeline.fingerprint import Spec

OPENAI_URL = "https://api.openai.com/v1"


class Prices(Spec):
    """Dollars per million tokens. The default of the two cache prices is `input`."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of requests. `cached_tokens` and `cache_write_tokens` are part of `prompt_tokens`."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Prices of one model at one endpoint.

    `prices` override the list prices of `genai-prices`. A model without a list price for its
    `service_tier` is charged at the standard price, which is never too low.
    """

    model: str
    base_url: str | None = None
    prices: Prices | None = None
    service_tier: str | None = None

    def dollars(self, usage: TokenUsage) -> float | None:
        """The cost of one request that is sent now, or None if no price is known."""
        if (prices := self.prices) is None:
            return self._list_price(usage)
        cached = prices.input if prices.cached_input is None else prices.cached_input
        written = prices.input if prices.cache_write is None else prices.cache_write
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        per_million = (
            fresh * prices.input
            + usage.cached_tokens * cached
            + usage.cache_write_tokens * written
            + usage.completion_tokens * prices.output
        )
        return 1e-6 * per_million

    def total_dollars(self, requests: int, usage: TokenUsage) -> float | None:
        """The cost of `requests` requests with `usage` in total, or None if no price is known."""
        if not requests:
            return 0.0
        # Prices that depend on the length of the prompt are taken at the average length.
        average = TokenUsage(
            prompt_tokens=round(usage.prompt_tokens / requests),
            completion_tokens=round(usage.completion_tokens / requests),
            cached_tokens=round(usage.cached_tokens / requests),
        )
        per_request = self.dollars(average)
        return None if per_request is None else per_request * requests

    def _list_price(self, usage: TokenUsage) -> float | None:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - takes 0.3 s

        counts = Usage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        try:
            price = calc_price(
                counts,
                self.model,
                provider_api_url=self.base_url or OPENAI_URL,
                price_context={"service_tier": self.service_tier} if self.service_tier else None,
            )
        except LookupError:
            return None
        return float(price.total_price)
