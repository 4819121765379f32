"""Estimates of requests, tokens and dollars."""

from dataclasses import replace

import pytest

from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.pricing import Prices
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.responses.estimate import CostEstimate, PendingVideo, estimate_cost

PRICES = Prices(input=1_000_000.0, cached_input=10_000.0, output=1_000.0)
"""Dollars per million tokens: a token costs 1, or 0.01 from the cache, or 0.001 in an answer."""
MODEL = EndpointSpec(
    name="served", profile=Profile.VLLM, base_url="http://127.0.0.1", prices=PRICES
)
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
