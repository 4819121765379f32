"""The number of frames that a model was shown, from the prompt tokens that its endpoint reports."""

MIN_TOKEN_SHARE = 0.6
"""Smallest plausible share of the prompt tokens that frames need by a published rule, if the tokens
of the text are unknown. Rules are rounded and endpoints resize frames, so only a large difference
is certain."""
OTHER_FRAMES = "It dropped, added or resized frames"
"""Part of the warning about a response whose prompt tokens do not fit the planned frames."""


def seen_frames(planned: int, frame_tokens: int, reported: int) -> int:
    """The number of frames whose tokens are nearest to `reported` (without the tokens of the text).

    `frame_tokens` are the tokens of all planned frames by a published rule.
    """
    return max(round(planned * reported / frame_tokens), 0)
