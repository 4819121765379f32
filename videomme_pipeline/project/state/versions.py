"""Fingerprints: the hash of everything that a partition of a benchmark is built from.

A fingerprint depends on the configuration, the code versions, the questions and the content of the
videos, so it can be computed before anything is built. It contains the fingerprints of its inputs,
so a change makes everything downstream stale and nothing else. The id of the video is a part of it,
so that two ids that differ only in case never share a file on a disk that ignores case. Paths,
timeouts and concurrency are not parts.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import NotReadyError, listed
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.fetch.release import Footage
from videomme_pipeline.fingerprint import canonical_json, fingerprint, text_fingerprint
from videomme_pipeline.frames.cache import PICTURE_VERSION, PLANNER_VERSION, frames_fingerprint
from videomme_pipeline.frames.sampling import FromFile, Sampling
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.prompts.render import RENDER_VERSION
from videomme_pipeline.responses.requests import RESPONSE_VERSION
from videomme_pipeline.scoring.readers.read_answer import READERS
from videomme_pipeline.scoring.score import SCORE_VERSION
from videomme_pipeline.subtitles.align import ALIGN_VERSION
from videomme_pipeline.videos.packets import INDEX_VERSION

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
because the fingerprints of the stage contain all of them. A new column of responses raises none:
responses are copied from the journal, and a machine without the journal would have to ask again."""


@lru_cache(10_000)  # many questions have the same facets
def _json_of(facets: Facets) -> str:
    return json.dumps(dict(facets), sort_keys=True)


def code_version(stage: str) -> str:
    """The code version of a stage, such as "1.3"."""
    return ".".join(map(str, CODE_VERSIONS[stage]))


@dataclass(kw_only=True, eq=False)
class Versions:
    """The fingerprints of one benchmark, for the questions and files of one snapshot.

    `content_hash` and `subtitle_hash` return the hashes of the files of a video. `server_keys`
    returns the keys of the records that describe the current server of a model: several if two
    folders were merged, [None] if the model has no server. `is_stored(evaluation, video,
    fingerprint)` is True if there are such responses. `blind_for(evaluation)` returns the blind
    evaluation that splits its scores.

    Every method raises `NotReadyError` for a video whose content is not known yet.
    """

    questions: Mapping[str, Sequence[Question]]
    samplings: Mapping[str, Sampling]
    content_hash: Callable[[str], str]
    subtitle_hash: Callable[[str], str | None]
    server_keys: Callable[[ModelSpec], Sequence[str | None]]
    is_stored: Callable[[str, str, str], bool] = lambda *_: False
    blind_for: Callable[[Evaluation], Evaluation | None] = lambda _: None
    _known: defaultdict[Hashable, dict[Hashable, str]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )
    """Values that several stages need, by kind and video. Those under None are the same for all
    videos, and a part of each one's value."""

    def video(self, video_id: str) -> str:
        """Fingerprint of a video's row: its content, its subtitle file and its clip."""
        values = self._known["videos"]
        if None not in values:
            values[None] = code_version("videos")
        if video_id not in values:
            clip, content = self._footage(video_id).clip, self.content_hash(video_id)
            values[video_id] = text_fingerprint(
                "videos",
                values[None],
                video_id,
                content,
                self.subtitle_hash(video_id),
                canonical_json(clip) if clip else None,
            )
        return values[video_id]

    def frame_settings(self, video_id: str, sampling_name: str) -> str:
        """Fingerprint of everything that changes the frames of a video, except its content."""
        sampling, questions = self.samplings[sampling_name], self.questions[video_id]
        values = self._known["frame settings", sampling_name]
        key = (questions[0].duration, questions[0].footage.clip)
        if key not in values:
            if isinstance(sampling, FromFile):  # each video has its own settings
                return frames_fingerprint(sampling.for_questions(questions), *key)
            values[key] = frames_fingerprint(sampling, *key)
        return values[key]

    def frames(self, video_id: str, sampling_name: str) -> str:
        """Fingerprint of the frames of a video under a sampling."""
        values = self._known["frames", sampling_name]
        if video_id not in values:
            content = self.content_hash(video_id)  # first, because it may not be known yet
            settings = self.frame_settings(video_id, sampling_name)
            values[video_id] = text_fingerprint(settings, content)
        return values[video_id]

    def sent_frames(self, video_id: str, evaluation: Evaluation) -> str | None:
        """Fingerprint of the frames that an evaluation sends, or None for a blind evaluation."""
        return self.frames(video_id, evaluation.sampling_name) if evaluation.sampling else None

    def subtitles(self, video_id: str, evaluation: Evaluation) -> str | None:
        """Fingerprint of the aligned subtitle lines, or None on a track without subtitles."""
        if evaluation.alignment is None:
            return None
        values = self._known["subtitles", evaluation.track_name]
        if None not in values:
            values[None] = fingerprint(
                "subtitles", code_version("subtitles"), evaluation.alignment.fingerprint
            )
        if video_id not in values:
            footage = self._footage(video_id)
            values[video_id] = text_fingerprint(
                values[None],
                video_id,
                self.content_hash(video_id),
                self.subtitle_hash(video_id),
                self.sent_frames(video_id, evaluation),
                None if footage.subtitle_shift_seconds is None else canonical_json(footage),
            )
        return values[video_id]

    def prompts(self, video_id: str, evaluation: Evaluation) -> str:
        """Fingerprint of the prompts of a video: template, questions, frames and subtitle lines.

        The prompts of a blind evaluation do not depend on the video, so the video may be missing.
        """
        chosen = evaluation.selection.questions or ()
        values = self._known["prompts", evaluation.name]
        if None not in values:
            values[None] = fingerprint(
                *("prompts", code_version("prompts"), evaluation.name),
                evaluation.template.fingerprint,
                *filter(None, [evaluation.conversation]),
            )
        if video_id not in values:
            frames = self.sent_frames(video_id, evaluation)  # first, as in `frames`
            questions = self.questions[video_id] if chosen else ()
            values[video_id] = text_fingerprint(
                values[None],
                video_id,
                self._asked(video_id, answers=False),
                frames,
                self.subtitles(video_id, evaluation),
                *(q.question_id for q in questions if q.question_id in chosen),
            )
        return values[video_id]

    def responses(self, video_id: str, evaluation: Evaluation) -> str:
        """Fingerprint of the responses about a video: model, server, generation and prompts.

        If several records describe the current server, the first one with stored responses counts.
        """
        name = evaluation.name
        values, settings = self._known["responses", name], self._known["response settings", name]
        for server in () if settings else self.server_keys(evaluation.model):
            settings[server] = fingerprint(
                "responses",
                code_version("responses"),
                name,
                evaluation.model.fingerprint,
                server,
                evaluation.generation.fingerprint,
                evaluation.repeats,
            )
        if video_id not in values:
            prompts = self.prompts(video_id, evaluation)
            candidates = [text_fingerprint(s, video_id, prompts) for s in settings.values()]
            stored = (f for f in candidates if self.is_stored(name, video_id, f))
            first = candidates[0]
            values[video_id] = first if len(candidates) == 1 else next(stored, first)
        return values[video_id]

    def scores(self, evaluation: Evaluation) -> str:
        """Fingerprint of the scores of an evaluation: responses, correct answers, reader and judge.

        A missing video is a part of it, so its arrival changes the fingerprint, and so are the
        blind evaluation's scores. Raises NotReadyError if the evaluation selects no video.
        """
        values = self._known["scores"]
        if evaluation.name in values:
            return values[evaluation.name]
        selected, chosen = evaluation.selection.of(self.questions), evaluation.selection.questions
        asked = {question.question_id for rows in selected.values() for question in rows}
        if unknown := [name for name in chosen or () if name not in asked]:
            raise NotReadyError(
                f"{evaluation.name}: `questions` has {listed(unknown)}, but the benchmark and its "
                "selection have no such question; correct the list"
            )
        if not selected:
            raise NotReadyError(
                f"{evaluation.name}: `duration: {evaluation.selection.duration}` selects none of "
                f"the {len(self.questions)} videos that benchmarks.yaml selects; change either"
            )
        blind, judge, model = self.blind_for(evaluation), evaluation.judge, evaluation.model
        ends = model.finish_reasons if isinstance(model, EndpointSpec) else ()
        values[evaluation.name] = text_fingerprint(
            fingerprint(
                "scores",
                code_version("scores"),
                evaluation.name,
                evaluation.reader,
                READERS[evaluation.reader].version,
                judge and [judge.fingerprint, self.server_keys(judge.model)[0]],
                evaluation.sampling.content if isinstance(evaluation.sampling, FromFile) else None,
                blind and self.scores(blind),
                *filter(None, [ends, chosen]),
            ),
            *(part for video_id in selected for part in self._scored(video_id, evaluation)),
        )
        return values[evaluation.name]

    def _scored(self, video_id: str, evaluation: Evaluation) -> Sequence[str | None]:
        try:
            responses = self.responses(video_id, evaluation)
        except NotReadyError:
            responses = None
        return [video_id, responses, self._asked(video_id, answers=True)]

    def _footage(self, video_id: str) -> Footage:
        if video_id not in self.questions:
            raise NotReadyError(
                f"video {video_id} is not stored: build `videos`, or remove its partition if "
                "the benchmark has no such video"
            )
        return self.questions[video_id][0].footage

    def _asked(self, video_id: str, *, answers: bool) -> str:
        """Hash of a video's questions. Prompts do not contain the `answers`."""
        values, questions = self._known["asked", answers], self.questions[video_id]
        if video_id in values:
            return values[video_id]
        if None not in values:
            values[None] = str(find_benchmark(questions[0].benchmark).grouping is not None)
        parts: list[str | None] = [values[None]]
        for question in questions:
            parts += [question.question_id, question.question, str(len(question.options))]
            parts += question.options
            if answers:
                facets = _json_of(question.facets)
                parts += [question.answer, question.youtube_id, question.url, facets]
        values[video_id] = text_fingerprint(*parts)
        return values[video_id]
