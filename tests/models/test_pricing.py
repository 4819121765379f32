"""The cost of tokens, with the user's prices, list prices and unknown prices."""

import pytest

from videomme_pipeline.models.pricing import Prices, Tariff, TokenUsage

USAGE = TokenUsage(prompt_tokens=100_000, completion_tokens=100, cached_tokens=50_000)


def test_the_users_prices_override_list_prices() -> None:
    prices = Prices(input=1.0, output=10.0, cached_input=0.1)
    cost = Tariff(model="gpt-5", prices=prices).dollars(USAGE)
    assert cost == pytest.approx(0.05 + 0.005 + 0.001)


def test_the_default_of_the_cached_price_is_the_input_price() -> None:
    cost = Tariff(model="m", prices=Prices(input=1.0, output=0.0)).dollars(USAGE)
    assert cost == pytest.approx(0.1)


def test_list_prices_are_lower_for_cached_tokens_and_flex() -> None:
    listed = Tariff(model="gpt-5").dollars(USAGE)
    uncached = Tariff(model="gpt-5").dollars(
        TokenUsage(prompt_tokens=100_000, completion_tokens=100)
    )
    flex = Tariff(model="gpt-5", service_tier="flex").dollars(USAGE)
    assert listed is not None
    assert uncached is not None
    assert listed < uncached
    assert flex == pytest.approx(listed / 2)


@pytest.mark.parametrize(
    "tariff",
    [Tariff(model="my-own-weights"), Tariff(model="gpt-5", base_url="http://localhost:8000/v1")],
)
def test_an_unknown_price_is_none_and_not_zero(tariff: Tariff) -> None:
    assert tariff.dollars(USAGE) is None


def test_the_total_of_many_requests_is_that_of_the_average_request() -> None:
    tariff = Tariff(model="m", prices=Prices(input=1.0, output=2.0, cached_input=0.5))
    usage = TokenUsage(prompt_tokens=33_000, completion_tokens=150, cached_tokens=20_000)
    assert tariff.total_dollars(30, usage) == pytest.approx((13_000 + 10_000 + 300) / 1e6, rel=1e-3)


def test_no_request_costs_nothing() -> None:
    nothing = TokenUsage(prompt_tokens=0, completion_tokens=0)
    assert Tariff(model="m").total_dollars(0, nothing) == 0.0
