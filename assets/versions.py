"""What every partition of a benchmark's chain would be made of now, as data versions.

Each follows from the configuration, the code versions, the questions and the content of the
videos: nothing has to be made to know it. A version holds those it is made from, so a change
reaches everything behind it and nothing else. Paths, timeouts and concurrency are in none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from assets.errors import NotReadyError
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.frames.cache import frames_fingerprint
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.prompts.render import RENDER_VERSION
from videomme_pipeline.responses.requests import RESPONSE_VERSION
from videomme_pipeline.scoring.readers.read_answer import READER_VERSIONS
from videomme_pipeline.scoring.score import SCORE_VERSION
from videomme_pipeline.subtitles.align import ALIGN_VERSION
from videomme_pipeline.videos.probe import Video

Version = TypeVar("Version")


class Versions:
    """The data versions of one benchmark, for the questions and video rows that are stored.

    `subtitle_hash` gives the content of a video's subtitle file. Every method raises
    `NotReadyError` when a video it needs has no row; `reasons` say why, by video. One object
    serves one look at the benchmark. `known` holds what earlier looks at the same questions found,
    by all that it follows from, so that only what changed is worked out again; samplings and
    evaluations stand in it by identity, and live as long as it does.
    """

    def __init__(
        self,
        questions: Mapping[str, Sequence[Question]],
        videos: Mapping[str, Video],
        subtitle_hash: Callable[[str], str | None],
        reasons: Mapping[str, str],
        known: dict[tuple[Any, ...], Any],
    ) -> None:
        self._questions = questions
        self._videos = videos
        self._subtitle_hash = cache(subtitle_hash)
        self._reasons = reasons
        self._known = known

    def video(self, video_id: str) -> str:
        """The content of a video's file."""
        if video_id not in self._videos:
            raise NotReadyError(
                self._reasons.get(video_id) or f"video {video_id} is not materialized"
            )
        return self._videos[video_id].content_hash

    def recipe(self, video_id: str, sampling: Sampling) -> str:
        """Everything but the content of the video that changes its frames."""
        duration = self._questions[video_id][0].duration
        return self._once(
            ("recipe", id(sampling), duration),
            lambda: frames_fingerprint(sampling, duration),
        )

    def frames(self, video_id: str, sampling: Sampling | None) -> str | None:
        """Content × sampling; None where no frames are sent."""
        if sampling is None:
            return None
        content = self.video(video_id)
        return self._once(
            ("frames", video_id, id(sampling), content),
            lambda: fingerprint(self.recipe(video_id, sampling), content),
        )

    def subtitles(self, video_id: str, evaluation: Evaluation) -> str | None:
        """The subtitle file aligned to the frames; None on a track without subtitles."""
        if evaluation.alignment is None:
            return None
        self.video(video_id)
        return self._once(
            ("subtitles", *self._made_of(video_id, evaluation)),
            lambda: fingerprint(
                "subtitles",
                ALIGN_VERSION,
                self._of_spec(evaluation.alignment),
                self._subtitle_hash(video_id),
                self.frames(video_id, evaluation.sampling),
            ),
        )

    def prompts(self, video_id: str, evaluation: Evaluation) -> str:
        """The questions of a video in a template, with the lines and times of its frames.

        A blind prompt holds nothing of the video, so not even the video has to be there.
        """
        return self._once(
            ("prompts", *self._made_of(video_id, evaluation)),
            lambda: fingerprint(
                "prompts",
                RENDER_VERSION,
                self._of_spec(evaluation.template),
                self._asked(video_id),
                self.frames(video_id, evaluation.sampling),
                self.subtitles(video_id, evaluation),
            ),
        )

    def responses(self, video_id: str, evaluation: Evaluation) -> str:
        """The prompts and frames of a video, as this model with these parameters answers them."""
        return self._once(
            ("responses", *self._made_of(video_id, evaluation)),
            lambda: fingerprint(
                "responses",
                RESPONSE_VERSION,
                self._of_spec(evaluation.model),
                self._of_spec(evaluation.decoding),
                evaluation.samples,
                self.prompts(video_id, evaluation),
                self.frames(video_id, evaluation.sampling),
            ),
        )

    def scores(self, evaluation: Evaluation) -> str:
        """All responses of an evaluation, as its reader and judge read them, against the answers.

        A video that is not there yet counts as that, so that its arrival changes the version.
        """
        return fingerprint(
            "scores",
            SCORE_VERSION,
            evaluation.reader,
            READER_VERSIONS[evaluation.reader],
            evaluation.judge and evaluation.judge.fingerprint,
            {video_id: self._scored(video_id, evaluation) for video_id in self._questions},
        )

    def _scored(self, video_id: str, evaluation: Evaluation) -> Sequence[object]:
        try:
            responses = self.responses(video_id, evaluation)
        except NotReadyError:
            responses = None
        return [
            responses,
            self._once(("key", video_id), lambda: self._key(video_id)),
        ]

    def _asked(self, video_id: str) -> str:
        """What a prompt can show of a video's questions: all but the answers."""
        return self._once(
            ("asked", video_id),
            lambda: fingerprint(
                [
                    (q.question_id, q.question, q.options, q.group_type is not None)
                    for q in self._questions[video_id]
                ]
            ),
        )

    def _key(self, video_id: str) -> str:
        """Everything of a video's questions that scores hold."""
        return fingerprint(list(self._questions[video_id]))

    def _made_of(self, video_id: str, evaluation: Evaluation) -> tuple[object, ...]:
        """What every version of a video in an evaluation follows from, given the questions."""
        video = self._videos.get(video_id)
        reads_subtitles = evaluation.alignment is not None
        return (
            video_id,
            id(evaluation),
            video and video.content_hash,
            self._subtitle_hash(video_id) if reads_subtitles else None,
        )

    def _of_spec(self, spec: Spec | None) -> str | None:
        return self._once(("spec", id(spec)), lambda: None if spec is None else spec.fingerprint)

    def _once(self, key: tuple[Any, ...], make: Callable[[], Version]) -> Version:
        if key not in self._known:
            self._known[key] = make()
        known: Version = self._known[key]
        return known
