"""Made-up evaluations for the tests of `responses`: questions, prompts and small frame sets."""

import random
from collections.abc import Callable, Sequence

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import Frame, FrameSet
from videomme_pipeline.models.video_llm import Generation, Request
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.requests import VideoRequests
from videomme_pipeline.responses.response import Response


def question(video: int, number: int) -> Question:
    return Question(
        benchmark="smoke",
        question_id=f"{video:03d}-{number}",
        video_id=f"{video:03d}",
        youtube_id=None,
        url=None,
        question=f"What happens in video {video}, part {number}?",
        options=("A. One.", "B. Two.", "C. Three.", "D. Four."),
        answer=Letter.A,
    )


def prompt(item: Question, num_frames: int = 2) -> Prompt:
    return Prompt(
        benchmark=item.benchmark,
        question_id=item.question_id,
        video_id=item.video_id,
        template="contract_v1",
        system=None,
        text=f"Question: {item.question}\nOptions:\n" + "\n".join(item.options),
        after_frame=(),
        num_frames=num_frames,
        subtitle_lines=0,
    )


def frame_set(video: int, count: int = 2, frame_bytes: int = 600) -> FrameSet:
    chance = random.Random(video)
    return FrameSet(
        video_hash=fingerprint(video),
        fingerprint="uniform",
        media_type="image/jpeg",
        frames=tuple(
            Frame(
                requested_seconds=index * 1.5,
                pts_seconds=index * 1.5,
                index=index * 45,
                is_keyframe=True,
                width=320,
                height=240,
                picture=b"\xff\xd8\xff" + chance.randbytes(frame_bytes),
            )
            for index in range(count)
        ),
    )


def request(
    video: int = 1,
    number: int = 1,
    *,
    frames: int = 2,
    frame_bytes: int = 600,
    **generation: object,
) -> Request:
    item = question(video, number)
    return Request(
        question=item,
        prompt=prompt(item, frames),
        frames=frame_set(video, frames, frame_bytes),
        generation=Generation.model_validate(generation),
    )


def videos(
    count: int,
    questions: int = 3,
    *,
    frames: int = 2,
    frame_bytes: int = 600,
    load: Callable[[int], FrameSet] | None = None,
) -> list[VideoRequests]:
    def requests(video: int) -> VideoRequests:
        items = [question(video, number) for number in range(1, questions + 1)]

        def load_frames() -> FrameSet:
            return load(video) if load else frame_set(video, frames, frame_bytes)

        return VideoRequests(
            video_id=f"{video:03d}",
            questions=[(item, prompt(item, frames)) for item in items],
            frame_digests=[fingerprint(video, index) for index in range(frames)],
            load_frames=load_frames,
        )

    return [requests(video) for video in range(count)]


def letters(responses: Sequence[Response]) -> dict[tuple[str, int], str | None]:
    """Raw output by question and repeat. Each may occur only once."""
    texts = {(item.question_id, item.repeat): item.raw_output for item in responses}
    assert len(texts) == len(responses)
    return texts
