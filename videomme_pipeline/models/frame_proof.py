"""The number of frames that a model was shown, from the prompt tokens that its endpoint reports."""

LEAST_TOKEN_SHARE = 0.6
"""Smallest plausible share of the prompt tokens that frames need by a published rule, if the tokens
of the text are unknown. Rules are rounded and endpoints resize frames, so only a large difference
is certain."""
LEAST_FRAME_SHARE = 0.8
"""Smallest plausible share of the tokens of frames, if the tokens of the text are known."""
OTHER_FRAMES = "It dropped, added or resized frames"
"""Part of the warning about a response whose prompt tokens do not fit the planned frames."""
OTHER_FRAME_TOKENS = 10
"""Most tokens for the start, the end and the time of a frame."""


def seen_frames(planned: int, frame_tokens: int, reported: int) -> int:
    """The number of frames that fit `reported` tokens, which do not include those of the text.

    `frame_tokens` are those of the planned frames by a published rule. The result is `planned` if
    both agree, or else the nearest number of frames.
    """
    most = frame_tokens / LEAST_FRAME_SHARE + planned * OTHER_FRAME_TOKENS
    if frame_tokens * LEAST_FRAME_SHARE <= reported <= most:
        return planned
    return max(round(reported * planned / frame_tokens), 0)
