"""The requests about one video, and the fingerprints that identify them in the journal.

No request is sent here. `collect`, cost estimates and judges use these types.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import NO_FRAMES, FrameSet
from videomme_pipeline.models.spec import Limits, Schedule
from videomme_pipeline.models.video_llm import Decoding, Request
from videomme_pipeline.prompts.render import Prompt

RESPONSE_VERSION = 1
"""Part of every request's fingerprint. Increase it when the same request is sent differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRequests:
    """All questions about one video.

    `frame_digests` identify the frames in the order in which they are sent, so the journal can be
    checked without reading images. `load_frames` reads the frames. It is called at most once, in
    a thread, and only if a question is not answered yet.
    """

    video_id: str
    questions: Sequence[tuple[Question, Prompt]]
    frame_digests: Sequence[str]
    load_frames: Callable[[], FrameSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """Settings of the requests of one evaluation, except the questions and the model.

    Responses contain the name `evaluation`, and costs are counted under it. Each question is
    asked `repeats` times. With a new `observation` (for example a date), an unchanged evaluation
    is asked again. `max_cost_dollars` limits one collection. `limits` limit the whole evaluation.
    """

    evaluation: str
    decoding: Decoding = field(default_factory=Decoding)
    repeats: int = 1
    schedule: Schedule = Schedule.TOGETHER
    observation: str | None = None
    limits: Limits = field(default_factory=Limits)
    max_cost_dollars: float | None = None


def planned_requests(
    video: VideoRequests,
    identity: Mapping[str, object],
    plan: RequestPlan,
    *,
    needs_frames: bool = True,
) -> list[Request]:
    """Return one request per repeat and question of `video`, for the model with `identity`.

    The frames are not loaded yet, so the requests have none.
    """
    video_part = fingerprint(
        version=RESPONSE_VERSION,
        model=identity,
        decoding=plan.decoding,
        observation=plan.observation,
        frames=list(video.frame_digests) if needs_frames else [],
    )
    return [
        Request(
            question=question,
            prompt=prompt,
            frames=NO_FRAMES,
            decoding=plan.decoding,
            repeat=repeat,
            fingerprint=fingerprint(
                video_part,
                question.benchmark,
                question.question_id,
                question.options,
                prompt.system,
                prompt.text,
                prompt.after_frame,
                repeat,
            ),
        )
        for repeat in range(plan.repeats)
        for question, prompt in video.questions
    ]
