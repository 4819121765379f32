"""Estimates of the requests, tokens and US dollars of an evaluation before it runs.

No request is sent and no frame is read. `summary` has the totals of requests that were sent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from videomme_pipeline.models.context import context_excess
from videomme_pipeline.models.endpoint.remote import RemoteSpec
from videomme_pipeline.models.pricing import VideoTokens
from videomme_pipeline.models.video_llm import Decoding

CHARACTERS_PER_TOKEN = 4
"""Characters of English text per token, by OpenAI's rule of thumb for its tokenizers."""
SHORTEST_ANSWER_TOKENS = 5
LONGEST_ANSWER_TOKENS = 1024
"""Used if an evaluation sets no `max_tokens`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVideo:
    """The requests about one video that are not answered yet.

    `text_characters` and `frames` are counted per request. `frame_size` is (width, height), or
    None if the video is not available yet.
    """

    requests: int
    text_characters: int
    frames: int
    frame_size: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Estimated requests, tokens and US dollars of an evaluation.

    `questions` includes repeats. `requests` is the number of questions that the journal cannot
    answer. `requests_low` is a lower bound of it, and equal to it if it is known exactly.
    `prompt_tokens` is None if the frames or their tokens are unknown.

    `dollars_low` assumes the shortest answers, and a prefix cache that contains the frames of a
    video for every question except its first. `dollars_high` assumes answers of `max_tokens` and
    no cache. Both are None if no price is known or the endpoint does not cost money.

    `too_long` counts the requests that cannot fit into the context of the model, and
    `fitting_frames` is the number of frames with which all of them would.
    """

    evaluation: str
    model: str
    costs_money: bool
    questions: int
    requests: int
    requests_low: int
    prompt_tokens: int | None
    completion_tokens_low: int
    completion_tokens_high: int
    dollars_low: float | None
    dollars_high: float | None
    too_long: int = 0
    fitting_frames: int | None = None


def estimate_cost(
    evaluation: str,
    model: RemoteSpec,
    decoding: Decoding,
    videos: Iterable[PendingVideo],
    *,
    questions: int,
) -> CostEstimate:
    """Return the estimate for the requests about `videos`."""
    pending = [video for video in videos if video.requests]
    requests = sum(video.requests for video in pending)
    completion_low = requests * SHORTEST_ANSWER_TOKENS
    completion_high = requests * (decoding.max_tokens or LONGEST_ANSWER_TOKENS)
    prompt_tokens: int | None = None
    dollars_low: float | None = None
    dollars_high: float | None = None
    video_tokens = _video_tokens(model, pending)
    if video_tokens is not None:
        text = sum(video.requests * video.text_characters for video in pending)
        low, high = (
            model.tariff.estimate(
                video_tokens,
                text_tokens_per_question=round(text / max(requests, 1) / CHARACTERS_PER_TOKEN),
                completion_tokens_per_question=completion // max(requests, 1),
            )
            for completion in (completion_low, completion_high)
        )
        prompt_tokens = high.prompt_tokens
        if model.costs_money:
            dollars_low, dollars_high = low.dollars_if_cached, high.dollars
    return CostEstimate(
        evaluation=evaluation,
        model=model.name,
        costs_money=model.costs_money,
        questions=questions,
        requests=requests,
        requests_low=requests,
        prompt_tokens=prompt_tokens,
        completion_tokens_low=completion_low,
        completion_tokens_high=completion_high,
        dollars_low=dollars_low,
        dollars_high=dollars_high,
    )


def with_context(
    estimate: CostEstimate,
    model: RemoteSpec,
    videos: Iterable[PendingVideo],
    context_tokens: int | None,
) -> CostEstimate:
    """Return `estimate` with the requests about `videos` that cannot fit into the context."""
    excesses = [
        (video.requests, excess)
        for video in videos
        if (
            excess := context_excess(
                model,
                context_tokens,
                frames=video.frames,
                frame_size=video.frame_size,
                text_characters=video.text_characters,
            )
        )
    ]
    return replace(
        estimate,
        too_long=sum(requests for requests, _ in excesses),
        fitting_frames=min((excess.fitting_frames for _, excess in excesses), default=None),
    )


def estimate_between(low: CostEstimate, high: CostEstimate) -> CostEstimate:
    """Return `high` with the lower bounds of `low`."""
    return replace(
        high,
        requests_low=low.requests,
        completion_tokens_low=low.completion_tokens_low,
        dollars_low=low.dollars_low,
    )


def _video_tokens(model: RemoteSpec, videos: Sequence[PendingVideo]) -> list[VideoTokens] | None:
    """Tokens of the frames of each video, or None if those of any video are unknown."""
    tokens_by_video = []
    for video in videos:
        tokens = _frame_tokens(model, video)
        if tokens is None:
            return None
        tokens_by_video.append(VideoTokens(questions=video.requests, frame_tokens=tokens))
    return tokens_by_video


def _frame_tokens(model: RemoteSpec, video: PendingVideo) -> int | None:
    """Tokens of all frames of one request."""
    if video.frames == 0:
        return 0
    per_frame = None if video.frame_size is None else model.frame_tokens(video.frame_size)
    return None if per_frame is None else video.frames * per_frame
