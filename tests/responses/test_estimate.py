"""Estimates of requests, tokens and dollars."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.pricing import Prices
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.responses.estimate import CostEstimate, PendingVideo, estimate_cost

PRICES = Prices(input=1_000_000.0, cached_input=10_000.0, output=1_000.0)
"""Dollars per million tokens: a token costs 1, or 0.01 from the cache, or 0.001 in an answer."""
MODEL = EndpointSpec(name="served", profile="vllm", base_url="http://127.0.0.1", prices=PRICES)
CERTAIN = PendingVideo(requests=2, text_characters=40, frame_tokens=100)
REUSED = PendingVideo(requests=1, text_characters=40, frame_tokens=100, is_certain=False)


def estimate(*videos: PendingVideo) -> CostEstimate:
    return estimate_cost("mine", MODEL, Generation(max_tokens=100), videos, questions=5)


def test_the_high_cost_has_no_cache_and_the_low_cost_only_certain_requests() -> None:
    done = PendingVideo(requests=0, text_characters=0, frame_tokens=None)
    made = estimate(CERTAIN, REUSED, done)
    assert (made.questions, made.requests, made.requests_low) == (5, 3, 2)
    assert made.prompt_tokens == 3 * (10 + 100)
    assert made.dollars_high == pytest.approx(3 * 110 + 3 * 100 * 0.001)
    assert made.dollars_low == pytest.approx(2 * 10 + 100 + 100 * 0.01 + 2 * 5 * 0.001)
    assert estimate(REUSED).dollars_high == pytest.approx(110 + 100 * 0.001)


def test_each_turn_of_a_conversation_has_the_answers_before_it() -> None:
    made = estimate(replace(CERTAIN, earlier_answers=1.0))
    assert made.prompt_tokens == 2 * (10 + 100) + 2 * 100
    assert made.dollars_low == pytest.approx(2 * (10 + 5) + 100 + 100 * 0.01 + 2 * 5 * 0.001)


def test_without_the_tokens_of_a_frame_no_cost_is_known() -> None:
    unknown = PendingVideo(requests=2, text_characters=40, frame_tokens=None)
    made = estimate(CERTAIN, unknown)
    assert (made.requests, made.prompt_tokens) == (4, None)
    assert (made.dollars_low, made.dollars_high) == (None, None)


def test_earlier_answers_show_the_tokens_of_texts_and_the_speed() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    # Three overlap within 4 s. After a pause, one takes 4 s, and its text was not counted.
    seen = [(0.0, 2.0, 230), (1.0, 3.0, 240), (1.5, 1.0, 235), (900.0, 4.0, None)]
    answers = [(start + timedelta(seconds=at), latency, text) for at, latency, text in seen]
    made = estimate_cost(
        "mine", MODEL, Generation(), [CERTAIN, REUSED], questions=5, answers=answers
    )
    assert made.prompt_tokens == 3 * (235 + 100)
    assert made.seconds == pytest.approx(3 * (4 + 4) / 4)
    assert estimate(CERTAIN).seconds is None
