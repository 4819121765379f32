"""Data versions: hashes of everything that the partitions of a benchmark depend on.

A version depends on the configuration, the code versions, the questions and the content of the
videos, so it can be computed before anything is built. It contains the versions of its inputs, so a
change makes everything downstream stale and nothing else. Paths, timeouts and concurrency are not
part of any version.

The version of responses contains the identity of the model. For an embedded model, the identity
contains its weights and packages.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.fetch.release import Footage
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import PICTURE_VERSION, PLANNER_VERSION, frames_fingerprint
from videomme_pipeline.frames.sampling import FromFile, Sampling
from videomme_pipeline.models.spec import WithServer
from videomme_pipeline.prompts.render import RENDER_VERSION
from videomme_pipeline.responses.requests import RESPONSE_VERSION
from videomme_pipeline.scoring.readers.read_answer import READERS
from videomme_pipeline.scoring.score import SCORE_VERSION
from videomme_pipeline.subtitles.align import ALIGN_VERSION
from videomme_pipeline.videos.packets import INDEX_VERSION
from videomme_pipeline.videos.probe import Video

CODE_VERSIONS: dict[str, tuple[int, ...]] = {
    "questions": (1,),
    "videos": (1, INDEX_VERSION),
    "frames": (PLANNER_VERSION, PICTURE_VERSION),
    "subtitles": (ALIGN_VERSION,),
    "prompts": (RENDER_VERSION,),
    "responses": (RESPONSE_VERSION,),
    "scores": (SCORE_VERSION,),
}
"""The code version of each stage. Raising any number makes the partitions of the stage stale,
because the fingerprints of the stage contain all of them."""
INCOMPLETE = "-incomplete"
"""Suffix of the fingerprint of a stored file in which some answers are missing."""


def code_version(stage: str) -> str:
    """The code version of a stage, such as "1.3"."""
    return ".".join(map(str, CODE_VERSIONS[stage]))


@dataclass(kw_only=True, eq=False)
class Versions:
    """The data versions of one benchmark, for the questions and video rows of one snapshot.

    `subtitle_hash` returns the hash of a video's subtitle file. `with_server(spec)` adds the
    model's current server to the spec. Every method raises `NotReadyError` for a video without a
    row, with the message in `reasons` if there is one. `blind_for(evaluation)` returns the
    blind evaluation that splits its scores. `memo` caches the versions that were
    computed from the same questions. Its keys contain everything else that a version depends on.
    """

    questions: Mapping[str, Sequence[Question]]
    videos: Mapping[str, Video]
    subtitle_hash: Callable[[str], str | None]
    with_server: WithServer
    reasons: Mapping[str, str]
    memo: dict[Hashable, str]
    blind_for: Callable[[Evaluation], Evaluation | None] = lambda _: None
    _models: dict[str, str] = field(default_factory=dict, init=False)
    """The fingerprint of the model with its server, by evaluation."""

    def video(self, video_id: str) -> str:
        """Hash of a video's file."""
        if video_id not in self.videos:
            raise NotReadyError(
                self.reasons.get(video_id)
                or f"video {video_id} is not stored: build `videos`, or remove its partition if "
                "the benchmark has no such video"
            )
        return self.videos[video_id].content_hash

    def frame_settings(self, video_id: str, sampling: Sampling) -> str:
        """Fingerprint of everything that changes the frames of a video, except its content."""
        duration, clip = self.questions[video_id][0].duration, self._footage(video_id).clip
        sampling = sampling.for_questions(self.questions[video_id])
        return self._once(
            ("settings", sampling, duration, clip),
            lambda: frames_fingerprint(sampling, duration, clip),
        )

    def frames(self, video_id: str, sampling: Sampling) -> str:
        """Version of the frames of a video under a sampling."""
        content, settings = self.video(video_id), self.frame_settings(video_id, sampling)
        return self._once(("frames", content, settings), lambda: fingerprint(settings, content))

    def sent_frames(self, video_id: str, evaluation: Evaluation) -> str | None:
        """Version of the frames that an evaluation sends, or None for a blind evaluation."""
        sampling = evaluation.sampling
        if sampling is None:
            return None
        return self._once(
            ("sent frames", video_id, evaluation.fingerprint, self.video(video_id)),
            lambda: self.frames(video_id, sampling),
        )

    def subtitles(self, video_id: str, evaluation: Evaluation) -> str | None:
        """Version of the aligned subtitle lines, or None on a track without subtitles."""
        alignment = evaluation.alignment
        if alignment is None:
            return None
        self.video(video_id)
        footage = self._footage(video_id)
        return self._once(
            ("subtitles", *self._inputs(video_id, evaluation)),
            lambda: fingerprint(
                "subtitles",
                *CODE_VERSIONS["subtitles"],
                alignment.fingerprint,
                self.subtitle_hash(video_id),
                self.sent_frames(video_id, evaluation),
                **({} if footage.subtitle_shift_seconds is None else {"footage": footage}),
            ),
        )

    def prompts(self, video_id: str, evaluation: Evaluation) -> str:
        """Version of the prompts of a video: template, questions, frames and subtitle lines.

        The prompts of a blind evaluation do not depend on the video, so the video may be missing.
        """
        return self._once(
            ("prompts", *self._inputs(video_id, evaluation)),
            lambda: fingerprint(
                "prompts",
                *CODE_VERSIONS["prompts"],
                evaluation.template.fingerprint,
                self._without_answers(video_id),
                self.sent_frames(video_id, evaluation),
                self.subtitles(video_id, evaluation),
            ),
        )

    def responses(self, video_id: str, evaluation: Evaluation) -> str:
        """Version of the responses about a video: model, server, generation, prompts and frames."""
        if evaluation.name not in self._models:
            self._models[evaluation.name] = self.with_server(evaluation.model).fingerprint
        model = self._models[evaluation.name]
        return self._once(
            ("responses", model, *self._inputs(video_id, evaluation)),
            lambda: fingerprint(
                "responses",
                *CODE_VERSIONS["responses"],
                model,
                evaluation.generation.fingerprint,
                evaluation.repeats,
                self.prompts(video_id, evaluation),
                self.sent_frames(video_id, evaluation),
            ),
        )

    def scores(self, evaluation: Evaluation) -> str:
        """Version of the scores of an evaluation: responses, correct answers, reader and judge.

        A missing video is part of the version, so its arrival changes the version. The version of
        the blind evaluation's scores is part of those of all other evaluations.

        Raises:
            NotReadyError: if the evaluation selects no video.
        """
        selected = evaluation.selection.of(self.questions)
        if not selected:
            raise NotReadyError(
                f"{evaluation.name}: `duration: {evaluation.selection.duration}` selects none of "
                f"the {len(self.questions)} videos that benchmarks.yaml selects; change either"
            )
        blind = self.blind_for(evaluation)
        return fingerprint(
            "scores",
            *CODE_VERSIONS["scores"],
            evaluation.reader,
            READERS[evaluation.reader].version,
            evaluation.judge and evaluation.judge.served_by(self.with_server).fingerprint,
            *([evaluation.sampling.content] if isinstance(evaluation.sampling, FromFile) else []),
            {video_id: self._scored(video_id, evaluation) for video_id in selected},
            **({"needs_video": self.scores(blind)} if blind else {}),
        )

    def _scored(self, video_id: str, evaluation: Evaluation) -> Sequence[str | None]:
        try:
            responses: str | None = self.responses(video_id, evaluation)
        except NotReadyError:
            responses = None
        questions = self._once(
            ("key", video_id), lambda: fingerprint(list(self.questions[video_id]))
        )
        return [responses, questions]

    def _footage(self, video_id: str) -> Footage:
        return self.questions[video_id][0].footage

    def _without_answers(self, video_id: str) -> str:
        """Hash of a video's questions without the answers, as prompts can contain them."""
        questions = self.questions[video_id]
        grouping = find_benchmark(questions[0].benchmark).grouping
        return self._once(
            ("asked", video_id),
            lambda: fingerprint(
                [(q.question_id, q.question, q.options) for q in questions],
                in_group=grouping is not None,
            ),
        )

    def _inputs(self, video_id: str, evaluation: Evaluation) -> tuple[Hashable, ...]:
        """Everything that the versions of a video in an evaluation depend on, except questions."""
        video = self.videos.get(video_id)
        reads_subtitles = evaluation.alignment is not None
        return (
            video_id,
            evaluation.fingerprint,
            video and video.content_hash,
            self.subtitle_hash(video_id) if reads_subtitles else None,
        )

    def _once(self, key: Hashable, compute: Callable[[], str]) -> str:
        if key not in self.memo:
            self.memo[key] = compute()
        return self.memo[key]
