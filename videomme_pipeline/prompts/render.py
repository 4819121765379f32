"""Prompts: one question, its options and its aligned subtitles as the text a model reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The text that is sent with the frames of a video, one row per question.

    The frames stand first, then `text`. `after_frame` is empty, or holds one text per frame
    that stands right after it (the interleaved v2 form; "" where nothing is said).
    `system` is the system message, None when the template has none.
    """

    benchmark: str
    question_id: str
    video_id: str
    template: str
    system: str | None
    text: str
    after_frame: tuple[str, ...]
    num_frames: int
    subtitle_lines: int
