"""What asking will take before anything is asked: requests, tokens, US dollars.

Nothing is sent and no frame is read. What a request took in the end stands in `summary`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from videomme_pipeline.models.pricing import VideoTokens
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Decoding

CHARACTERS_PER_TOKEN = 4
"""Of English text, as OpenAI says of its tokenizers."""
SHORTEST_ANSWER_TOKENS = 5
LONGEST_ANSWER_TOKENS = 1024
"""Where the evaluation sets no `max_tokens`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVideo:
    """What is still to be asked about one video.

    `text_characters` are those of one request. `frame_size` is (width, height); None where the
    video is not there yet, so that nobody knows.
    """

    requests: int
    text_characters: int
    frames: int
    frame_size: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What an evaluation would take.

    `requests` are left of `questions` (repeats counted) once the journal has answered what it
    can; `requests_low` are fewer where it is not known yet how many there will be.
    `prompt_tokens` is None where the frames or their price in tokens are not known.
    `dollars_low` holds for the shortest answers and frames found in the endpoint's prefix cache
    by every question but a video's first, `dollars_high` for answers of `max_tokens` and no
    cache; both None where no price is known, or the endpoint does not cost money.
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


def estimate_cost(
    evaluation: str,
    model: ModelSpec,
    decoding: Decoding,
    videos: Iterable[OpenVideo],
    *,
    questions: int,
) -> CostEstimate:
    """What is left to ask of `questions`, in requests, tokens and money."""
    held = [video for video in videos if video.requests]
    requests = sum(video.requests for video in held)
    low = requests * SHORTEST_ANSWER_TOKENS
    high = requests * (decoding.max_tokens or LONGEST_ANSWER_TOKENS)
    frames = [_frame_tokens(model, video) for video in held]
    known = [tokens for tokens in frames if tokens is not None]
    tokens: int | None = None
    dollars_low: float | None = None
    dollars_high: float | None = None
    if len(known) == len(held):
        sent = [
            VideoTokens(questions=video.requests, frame_tokens=frame_tokens)
            for video, frame_tokens in zip(held, known, strict=True)
        ]
        text = sum(video.requests * video.text_characters for video in held)
        each = max(requests, 1)
        text_tokens = round(text / each / CHARACTERS_PER_TOKEN)
        cheap, dear = (
            model.tariff.estimate(
                sent,
                text_tokens_per_question=text_tokens,
                completion_tokens_per_question=completion // each,
            )
            for completion in (low, high)
        )
        tokens = dear.prompt_tokens
        if model.costs_money:
            dollars_low, dollars_high = cheap.dollars_if_cached, dear.dollars
    return CostEstimate(
        evaluation=evaluation,
        model=model.name,
        costs_money=model.costs_money,
        questions=questions,
        requests=requests,
        requests_low=requests,
        prompt_tokens=tokens,
        completion_tokens_low=low,
        completion_tokens_high=high,
        dollars_low=dollars_low,
        dollars_high=dollars_high,
    )


def between(least: CostEstimate, most: CostEstimate) -> CostEstimate:
    """What will be asked lies between two estimates."""
    return replace(
        most,
        requests_low=least.requests,
        completion_tokens_low=least.completion_tokens_low,
        dollars_low=least.dollars_low,
    )


def _frame_tokens(model: ModelSpec, video: OpenVideo) -> int | None:
    """Tokens of all frames of a video."""
    if video.frames == 0:
        return 0
    per_frame = None if video.frame_size is None else model.frame_tokens(video.frame_size)
    return None if per_frame is None else video.frames * per_frame
