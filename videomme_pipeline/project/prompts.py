"""The prompts of a video for an evaluation, rendered from its stored frames and subtitle lines."""

from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.project.state import BenchmarkState
from videomme_pipeline.project.stored import shown_frames, stored_lines
from videomme_pipeline.prompts.render import Prompt, render


def render_prompts(
    benchmark: BenchmarkState, video_id: str, evaluation: Evaluation
) -> list[Prompt]:
    """One prompt per question of a video.

    Raises:
        NotReadyError: if the frames or subtitle lines are missing.
        DamagedFileError: if the frame file is damaged.
        PromptError: if the template does not fit a question.
    """
    frames = shown_frames(benchmark, video_id, evaluation)
    lines = stored_lines(benchmark, video_id, evaluation)
    alignment = evaluation.alignment
    return [
        render(
            evaluation.template,
            question,
            lines,
            frame_seconds=[frame.pts_seconds for frame in frames],
            interleaved=alignment is not None and alignment.is_interleaved,
        )
        for question in benchmark.snapshot.questions[video_id]
    ]
