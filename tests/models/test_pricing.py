"""The cost of tokens, with the user's prices, list prices and unknown prices."""

import pytest

from videomme_pipeline.models.pricing import Prices, Tariff, TokenUsage, VideoTokens

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


def test_an_estimate_counts_the_frames_of_each_question() -> None:
    tariff = Tariff(model="m", prices=Prices(input=1.0, output=2.0, cached_input=0.5))
    found = tariff.estimate(
        [VideoTokens(questions=3, frame_tokens=1000)] * 10,
        text_tokens_per_question=100,
        completion_tokens_per_question=5,
    )
    assert (found.requests, found.prompt_tokens, found.cacheable_tokens) == (30, 33_000, 20_000)
    assert found.dollars == pytest.approx((33_000 + 2 * 150) / 1e6)
    assert found.dollars_if_cached == pytest.approx((13_000 + 10_000 + 300) / 1e6, rel=1e-3)


def test_an_estimate_without_questions_costs_nothing() -> None:
    found = Tariff(model="m").estimate(
        [], text_tokens_per_question=1, completion_tokens_per_question=1
    )
    assert (found.requests, found.dollars) == (0, 0.0)
