"""The context check: planned prompt tokens against what the model can read.

The plan must not reject a request that fits. So text counts few tokens. Frames count the tokens of
the published rule of the model's family, or `tokens_per_frame` if the server has other limits.
"""

MAX_CHARACTERS_PER_TOKEN = 6
"""English text has 4 to 5 characters per token."""


def context_problem(
    context_tokens: int | None, *, frames: int, frame_tokens: int | None, text_characters: int
) -> str | None:
    """The reason why a prompt with `frames`, which need `frame_tokens`, does not fit, or None.

    None also if the context or the tokens of the frames are unknown.
    """
    if context_tokens is None or frame_tokens is None:
        return None
    text_tokens = text_characters // MAX_CHARACTERS_PER_TOKEN
    if frame_tokens + text_tokens <= context_tokens:
        return None
    left_tokens = max(context_tokens - text_tokens, 0)
    fitting = frames * left_tokens // frame_tokens if frame_tokens else 0
    next_step = f"at most {fitting:,} frames of this size fit" if fitting else "no frame fits"
    return (
        f"the prompt needs at least {frame_tokens + text_tokens:,} tokens, and the context has "
        f"{context_tokens:,}; {next_step} (or start the server with a longer context and adapt "
        "`max_model_len`)"
    )
