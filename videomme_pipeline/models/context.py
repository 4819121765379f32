"""The context check: planned prompt tokens against what the model can read.

The plan uses the published rule of the model's family and must not reject a request that fits. So
text counts few tokens, and frames sent as one video count the least plausible share, because
servers shrink the frames of long videos.
"""

from dataclasses import dataclass

from videomme_pipeline.models.endpoint.remote import RemoteSpec
from videomme_pipeline.models.frame_proof import LEAST_TOKEN_SHARE

MOST_CHARACTERS_PER_TOKEN = 6
"""English text has 4 to 5 characters per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextExcess:
    """A prompt that is too long, and the number of equal frames that would fit."""

    least_tokens: int
    context_tokens: int
    fitting_frames: int

    def __str__(self) -> str:
        if self.fitting_frames:
            next_step = f"at most {self.fitting_frames:,} frames of this size fit"
        else:
            next_step = "no frame fits"
        return (
            f"the prompt needs at least {self.least_tokens:,} tokens, and the context has "
            f"{self.context_tokens:,}; {next_step} (or start the server with a longer context and "
            "adapt `max_model_len`)"
        )


def context_excess(
    model: RemoteSpec,
    context_tokens: int | None,
    *,
    frames: int,
    frame_size: tuple[int, int] | None,
    text_characters: int,
) -> ContextExcess | None:
    """The excess of a prompt with `frames` of `frame_size`, or None if it may fit.

    None also if the context or the tokens of a frame are unknown.
    """
    if context_tokens is None:
        return None
    text_tokens = text_characters // MOST_CHARACTERS_PER_TOKEN
    per_frame = 0.0
    if frames:
        planned = None if frame_size is None else model.frame_tokens(frame_size, frames)
        if planned is None:
            return None
        per_frame = planned / frames * (LEAST_TOKEN_SHARE if model.sees_frame_times else 1.0)
    least_tokens = round(frames * per_frame) + text_tokens
    if least_tokens <= context_tokens:
        return None
    left_tokens = max(context_tokens - text_tokens, 0)
    return ContextExcess(
        least_tokens=least_tokens,
        context_tokens=context_tokens,
        fitting_frames=int(left_tokens / per_frame) if per_frame else 0,
    )
