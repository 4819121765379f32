"""The context check: planned prompt tokens against what the model can read.

The plan must not reject a request that fits. So text counts few tokens. Frames count the tokens of
the published rule of the model's family, or `tokens_per_frame` if the server has other limits.
"""

from dataclasses import dataclass

MAX_CHARACTERS_PER_TOKEN = 6
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
    context_tokens: int | None, *, frames: int, frame_tokens: int | None, text_characters: int
) -> ContextExcess | None:
    """The excess of a prompt with `frames`, which need `frame_tokens`, or None if it may fit.

    None also if the context or the tokens of the frames are unknown.
    """
    text_tokens = text_characters // MAX_CHARACTERS_PER_TOKEN
    if context_tokens is None or frame_tokens is None:
        return None
    least_tokens = frame_tokens + text_tokens
    if least_tokens <= context_tokens:
        return None
    left_tokens = max(context_tokens - text_tokens, 0)
    return ContextExcess(
        least_tokens=least_tokens,
        context_tokens=context_tokens,
        fitting_frames=frames * left_tokens // frame_tokens if frame_tokens else 0,
    )
