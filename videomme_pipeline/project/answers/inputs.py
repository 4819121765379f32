"""Stored inputs of an evaluation about one video: frames, subtitle lines, prompts and responses.

Only up-to-date files are used. One that was built with other settings or inputs counts as missing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import ConfigurationError, NotReadyError, VideoError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.frames.cache import NO_FRAMES, FrameSet, ShownFrame, read_frames, read_shown
from videomme_pipeline.frames.sampling import FromFile
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.project.state.versions import Versions
from videomme_pipeline.prompts.render import Prompt, render
from videomme_pipeline.responses.response import Response
from videomme_pipeline.rows import Row
from videomme_pipeline.scoring.statistics.groups import question_order
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import RemoteFile
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.subtitles.align import AlignedLine, SampledFrames
from videomme_pipeline.videos.probe import video_hash

Stored = TypeVar("Stored")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Stored data about one video for one evaluation.

    Frames, and everything that depends on them, raise `NotReadyError` if the video or its frames
    are missing, and `DamagedFileError` if the frame file is damaged.
    """

    benchmark: BenchmarkState
    video_id: str
    evaluation: Evaluation

    @property
    def questions(self) -> Sequence[Question]:
        return self.benchmark.snapshot.questions_of(self.evaluation)[self.video_id]

    @property
    def parts(self) -> list[tuple[str | None, Sequence[Question]]]:
        """The questions with the same frames: all with None, or each with its id."""
        if self.evaluation.conversation:  # in the order of its turns
            return [(None, sorted(self.questions, key=lambda q: question_order(q.question_id)))]
        if not isinstance(self.evaluation.sampling, FromFile):
            return [(None, self.questions)]
        return [(question.question_id, (question,)) for question in self.questions]

    def load_frames(self, question_id: str | None = None) -> FrameSet:
        """The frames to send. Raises ConfigurationError if the question of a part has none."""
        return self._read(read_frames, question_id) or NO_FRAMES

    def shown_frames(self, question_id: str | None = None) -> Sequence[ShownFrame]:
        """Digest and time of each frame to send, without pictures. A question may have none."""
        return self.shown_or_error(question_id)[0]

    def shown_or_error(self, question_id: str | None) -> tuple[Sequence[ShownFrame], str | None]:
        """The result of `shown_frames`, and the reason if a question of `parts` has no frames."""
        try:
            return self._read(read_shown, question_id) or (), None
        except ConfigurationError as error:
            return (), str(error)

    def sampled_frames(self, frames: Sequence[ShownFrame]) -> SampledFrames:
        """Shown frames of the video, in order of time, to align subtitles with."""
        timing = self.benchmark.snapshot.video(self.video_id).timing
        return SampledFrames.of(
            frames, fps=timing.average_fps, video_end_seconds=timing.duration_seconds
        )

    def whole_video(self) -> Path:
        """The video file, to send it instead of frames. Raises VideoError without a usable file."""
        snapshot, video_id = self.benchmark.snapshot, self.video_id
        reference = snapshot.reference(video_id)
        path = snapshot.video_file(video_id)
        has_clip = reference.footage.clip is not None and not self.evaluation.model.reads_parts
        if not isinstance(path, Path) or has_clip:
            media = "in an object store" if isinstance(path, RemoteFile) else "a folder of pictures"
            raise VideoError(
                video_id,
                f"{path}: the video is {reference.footage.clip or media}, which cannot be sent; "
                "send its frames instead",
            )
        if video_hash(path, video_id, self.benchmark.hashes) != snapshot.content_hash(video_id):
            raise VideoError(video_id, f"{path}: the file changed after it was probed; run again")
        return path

    def lines(self) -> list[AlignedLine] | None:
        """The subtitle lines, or None without a track. Raises NotReadyError if they are missing."""
        track = self.evaluation.track_name
        version = self._versions.subtitles(self.video_id, self.evaluation)
        if track is None or version is None:
            return None
        return self._rows("subtitles", track, version, AlignedLine)

    def prompts(self) -> list[Prompt]:
        """The stored prompts. Raises NotReadyError if there are none of the current inputs."""
        version = self._versions.prompts(self.video_id, self.evaluation)
        return self._rows("prompts", self.evaluation.name, version, Prompt)

    def _rows(self, stage: str, variant: str, fingerprint: str, row_class: type[Row]) -> list[Row]:
        path = self._path(stage, variant, fingerprint)
        try:
            return read_rows(path, row_class)
        except FileNotFoundError:
            raise self._not_ready(stage, variant) from None

    def _path(self, stage: str, variant: str, fingerprint: str) -> UPath:
        return self.benchmark.snapshot.path(
            stage, fingerprint, variant=variant, video=self.video_id
        )

    @property
    def _versions(self) -> Versions:
        return self.benchmark.snapshot.versions

    def render_prompts(self) -> list[Prompt]:
        """One prompt per question, rendered from the stored frames and subtitle lines.

        Later turns of a conversation have neither, because the model has seen those of the first.
        Raises NotReadyError if these are missing, PromptError if the template does not fit, and
        ConfigurationError if the evaluation has a part of a conversation.
        """
        lines, alignment = self.lines(), self.evaluation.alignment
        template, prompts = self.evaluation.template, list[Prompt]()
        size, chosen = len(self.benchmark.snapshot.questions[self.video_id]), len(self.questions)
        if self.evaluation.conversation and chosen < size:
            raise ConfigurationError(
                f"`questions` has {chosen} of the {size} questions on {self.video_id}, which are "
                "one conversation; name all of them, or none"
            )
        for part, questions in self.parts:
            frame_seconds = [frame.pts_seconds for frame in self.shown_frames(part)]
            own = lines and [line for line in lines if line.question_id == part]
            prompts += [
                render(template, question, own, frame_seconds=frame_seconds, alignment=alignment)
                if number == 0 or not self.evaluation.conversation
                else render(template, question, None, frame_seconds=())
                for number, question in enumerate(questions)
            ]
        return prompts

    def responses(self) -> dict[tuple[str, int], Response]:
        """The responses to the current requests, by question id and repeat."""
        try:
            version = self._versions.responses(self.video_id, self.evaluation)
            rows = read_rows(self._path("responses", self.evaluation.name, version), Response)
        except (NotReadyError, FileNotFoundError):
            return {}
        return {(row.question_id, row.repeat): row for row in rows}

    def _read(
        self, read: Callable[[Store, str, str, str | None], Stored], question_id: str | None
    ) -> Stored | None:
        """The result of `read` for the frame file of the video, or None without frames."""
        if self.evaluation.sampling is None:
            return None
        content = self.benchmark.snapshot.content_hash(self.video_id)
        settings = self._versions.frame_settings(self.video_id, self.evaluation.sampling_name)
        try:
            return read(self.benchmark.store, content, settings, question_id)
        except FileNotFoundError:
            raise self._not_ready("frames", self.evaluation.sampling_name) from None

    def _not_ready(self, stage: str, variant: str) -> NotReadyError:
        return self.benchmark.failures(stage).not_ready(VideoVariant(self.video_id, variant))
