"""Estimates of the requests, tokens and US dollars of an evaluation before it runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import fmean

from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.pricing import TokenUsage
from videomme_pipeline.models.video_llm import Generation

CHARACTERS_PER_TOKEN = 4
"""Characters of English text per token, by OpenAI's rule of thumb for its tokenizers."""
MIN_ANSWER_TOKENS = 5
MAX_ANSWER_TOKENS = 1024
"""Used if an evaluation sets no `max_tokens`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVideo:
    """The requests about one video that are not answered yet.

    `text_characters`, `frame_tokens`, `frames` and `earlier_answers` (of a conversation, on
    average) are counted per request. `frame_tokens` is None if it is unknown. `is_certain` is False
    if stored answers may replace some of the requests. `problem` is why they cannot be answered.
    """

    requests: int
    text_characters: int
    frame_tokens: int | None
    is_certain: bool = True
    problem: str | None = None
    frames: int = 0
    earlier_answers: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Estimated requests, tokens and US dollars of an evaluation.

    `questions` includes repeats. `requests` is the number of questions that the journal cannot
    answer, and `requests_low` is the number of those that are certain. `most_frames` is the largest
    number of frames in a request. `prompt_tokens` is None if the frames or their tokens are
    unknown. `too_large` requests cannot be answered because of the `problem`.

    `seconds` is the time of the requests at the speed of the newest answers, or None without any.

    `dollars_low` assumes that only certain requests are sent, the shortest answers, and a prefix
    cache that contains the frames of a video for every question except its first. `dollars_high`
    assumes answers of `max_tokens` and no cache. Both are None if no price is known or the
    endpoint does not cost money.
    """

    evaluation: str
    model: str
    costs_money: bool
    questions: int
    requests: int
    requests_low: int
    most_frames: int
    too_large: int
    problem: str | None
    prompt_tokens: int | None
    dollars_low: float | None
    dollars_high: float | None
    seconds: float | None


def estimate_cost(  # noqa: PLR0913 - everything that is known before the requests
    evaluation: str,
    model: EndpointSpec,
    generation: Generation,
    videos: Iterable[PendingVideo],
    *,
    questions: int,
    answers: Sequence[tuple[datetime, float, int | None]] = (),
) -> CostEstimate:
    """`answers` are the start, latency in seconds and text tokens of earlier answers."""
    counts = [tokens for *_, tokens in answers if tokens is not None]
    text_tokens = fmean(counts) if counts else None
    pending = [video for video in videos if video.requests]
    certain = [video for video in pending if video.is_certain]
    requests = sum(video.requests for video in pending)
    requests_low = sum(video.requests for video in certain)
    least = _usage(certain, MIN_ANSWER_TOKENS, text_tokens)
    most = _usage(pending, generation.max_tokens or MAX_ANSWER_TOKENS, text_tokens)
    dollars_low = dollars_high = None
    if model.costs_money and least and most:
        dollars_low = model.tariff.total_dollars(requests_low, least)
        dollars_high = model.tariff.total_dollars(requests, replace(most, cached_tokens=0))
    return CostEstimate(
        evaluation=evaluation,
        model=model.name,
        costs_money=model.costs_money,
        questions=questions,
        requests=requests,
        requests_low=requests_low,
        most_frames=max((video.frames for video in pending), default=0),
        too_large=sum(video.requests for video in pending if video.problem),
        problem=next((video.problem for video in pending if video.problem), None),
        prompt_tokens=most.prompt_tokens if most else None,
        dollars_low=dollars_low,
        dollars_high=dollars_high,
        seconds=requests * _busy_seconds(answers) / len(answers) if answers else None,
    )


def _busy_seconds(answers: Iterable[tuple[datetime, float, int | None]]) -> float:
    """The time in which at least one of the requests was in flight."""
    busy_seconds = end = 0.0
    for start, latency in sorted((start.timestamp(), latency) for start, latency, _ in answers):
        busy_seconds += max(start + latency - max(start, end), 0.0)
        end = max(end, start + latency)
    return busy_seconds


def _usage(
    videos: Sequence[PendingVideo], answer_tokens: int, text_tokens: float | None
) -> TokenUsage | None:
    """Tokens of all requests, or None if the tokens of any frame are unknown."""
    requests = sum(video.requests for video in videos)
    if text_tokens is None:
        text = sum(video.requests * video.text_characters for video in videos)
        text_tokens = text / max(requests, 1) / CHARACTERS_PER_TOKEN
    prompt_tokens = requests * round(text_tokens)
    cached_tokens = 0
    for video in videos:
        if video.frame_tokens is None:
            return None
        prompt_tokens += video.requests * video.frame_tokens
        prompt_tokens += round(video.requests * video.earlier_answers * answer_tokens)
        cached_tokens += (video.requests - 1) * video.frame_tokens
    return TokenUsage(
        prompt_tokens=prompt_tokens,
        completion_tokens=requests * answer_tokens,
        cached_tokens=cached_tokens,
    )
