"""Made-up benchmarks and evaluations, stored as the pipeline stores real ones.

They contain nothing of Video-MME. Sizes, columns and category counts are those of the dataset;
every text is made up here. Answers pass through the real prompt templates and the real scorer.
"""

import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from PIL import Image

from tests.support.stored_files import made_up_file, show_made_up, write_made_up
from tests.support.stored_frames import write_frames
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Duration, Letter, Question, example_ids
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import Frame
from videomme_pipeline.frames.sampling import Choice
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.prompts.render import Prompt, parse_template, render
from videomme_pipeline.responses.response import Response, Served
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import ObservedQuestion, ScoredQuestion, track
from videomme_pipeline.scoring.verdicts import (
    Checkpoint,
    CheckpointOutcome,
    RecordedLook,
    write_checkpoint,
    write_race,
)
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import write_rows
from videomme_pipeline.subtitles.align import AlignedLine, parse_alignment
from videomme_pipeline.videos.packets import Timing
from videomme_pipeline.videos.probe import StreamFacts, Video

WORDS = [
    "a",
    "red",
    "ball",
    "rolls",
    "beyond",
    "the",
    "tall",
    "blue",
    "box",
    "while",
    "music",
    "plays",
    "and",
    "somebody",
    "counts",
    "slowly",
    "from",
    "nine",
    "to",
    "one",
    "before",
    "the",
    "lights",
    "turn",
    "green",
    "over",
    "a",
    "quiet",
    "wooden",
    "table",
    "near",
    "the",
    "window",
]
NIGHTLY_RUN_TIME = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
TASK_TYPES = tuple(f"Made-up task {number}" for number in range(1, 13))
SUB_CATEGORIES = tuple(
    (f"Domain {number // 5 + 1}", f"Sub-category {number + 1}") for number in range(30)
)
STRUCTURES = ("[1,2,3,4]", "[1,[2,3],4]", "[[1,2],3,4]")
SECOND_HEADS = tuple(f"Head {number}" for number in range(1, 11))


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpEvaluation:
    """An evaluation whose model is right with probability `skill` on each question.

    `responses` maps question ids to texts that replace the responses of the model; None is a failed
    request, or a question that was not asked if `error` says so.
    """

    name: str
    model: str = "model-a"
    model_settings: Mapping[str, object] = field(default_factory=dict)
    sampling: str = "uniform_n-8"
    subtitles: str | None = None
    skill: float = 0.6
    repeats: int = 1
    reader: ReaderName = ReaderName.CAREFUL
    responses: Mapping[str, str | None] = field(default_factory=dict)
    error: str = "503 Service Unavailable, asked 12 times"
    reasoning: str | None = None
    is_conversation: bool = False

    @property
    def num_frames(self) -> int:
        """Number of frames in the name of a `uniform_n` sampling."""
        return 0 if self.sampling == "none" else int(self.sampling.split("-")[1])

    @property
    def track(self) -> str:
        return track(subtitles=self.subtitles is not None, conversation=self.is_conversation)

    @property
    def specification(self) -> dict[str, object]:
        """The same form as `Evaluation.specification`."""
        frames = None if self.sampling == "none" else parse_sampling(self.sampling)
        alignment = None if self.subtitles is None else parse_alignment(self.subtitles)
        return {
            "model": {"name": self.model, **self.model_settings},
            "sampling": frames and frames.model_dump(mode="json"),
            "alignment": alignment and alignment.model_dump(mode="json"),
            "template": parse_template("contract_v1").model_dump(mode="json"),
            "generation": {"temperature": 0.0, "max_tokens": 64},
            "reader": self.reader.value,
            "repeats": self.repeats,
            **({"conversation": "group"} if self.is_conversation else {}),
        }


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize()


def v1_questions(videos: int, benchmark: str = "videomme") -> list[Question]:
    """Three questions on each of `videos` videos, spread over the v1 columns."""
    rng = random.Random(1)
    return [
        _v1_question(rng, benchmark, video, number)
        for video in range(videos)
        for number in range(3)
    ]


def v2_questions(groups: int, benchmark: str = "videomme_v2") -> list[Question]:
    """`groups` groups of four questions with eight options, one group per video."""
    rng = random.Random(2)
    return [
        _v2_question(rng, benchmark, group, number)
        for group in range(groups)
        for number in range(4)
    ]


def _v1_question(rng: random.Random, benchmark: str, video: int, number: int) -> Question:
    domain, sub_category = SUB_CATEGORIES[video % len(SUB_CATEGORIES)]
    return Question(
        benchmark=benchmark,
        question_id=f"{video + 1:03d}-{number + 1}",
        video_id=f"{video + 1:03d}",
        youtube_id=None,
        url=None,
        question=f"{sentence(rng, 14)}?",
        options=tuple(f"{letter}. {sentence(rng, 6)}." for letter in "ABCD"),
        answer=rng.choice(tuple(Letter)[:4]),
        facets=Facets(
            {
                "duration": tuple(Duration)[video % 3].value,
                "domain": domain,
                "sub_category": sub_category,
                "task_type": rng.choice(TASK_TYPES),
            }
        ),
    )


def _v2_question(rng: random.Random, benchmark: str, group: int, number: int) -> Question:
    logic = group % 3 == 0
    return Question(
        benchmark=benchmark,
        question_id=f"{group + 1:03d}-{number + 1}",
        video_id=f"{group + 1:03d}",
        youtube_id=None,
        url=None,
        question=f"{sentence(rng, 14)}?",
        options=tuple(f"{letter}. {sentence(rng, 6)}." for letter in "ABCDEFGH"),
        answer=rng.choice(tuple(Letter)[:8]),
        facets=Facets(
            {
                "level": group % 3 + 1,
                "second_head": SECOND_HEADS[group % 10],
                "third_head": f"Third head {group % 30 + 1}",
                "group_type": "logic" if logic else "relevance",
                "group_structure": STRUCTURES[group // 3 % 3] if logic else "4",
            }
        ),
    )


def store_questions(store: Store, questions: Sequence[Question]) -> None:
    """Store the questions of one benchmark."""
    benchmark = questions[0].benchmark
    write_made_up(made_up_file(store, "questions", benchmark), questions, Question)


def store_evaluation(
    store: Store,
    questions: Sequence[Question],
    evaluation: MadeUpEvaluation,
    *,
    texts: bool = True,
    line: str | None = None,
) -> None:
    """Store the scores of `evaluation` and, with `texts`, its prompts, responses and subtitles.

    `line` is the text of every subtitle line. None makes up a text for each.
    """
    rng = random.Random(evaluation.name)
    benchmark = questions[0].benchmark
    by_video: dict[str, list[Question]] = {}
    for question in questions:
        by_video.setdefault(question.video_id, []).append(question)
    ids = example_ids(questions)
    scored: list[ScoredQuestion] = []
    for video_id, video_questions in by_video.items():
        lines = _subtitle_lines(rng, evaluation, line)
        responses = [
            _response(rng, evaluation, question, repeat)
            for question in video_questions
            for repeat in range(evaluation.repeats)
        ]
        scored += [
            score_question(
                question,
                response,
                evaluation.reader,
                example_id=ids[question.question_id],
                evaluation_fingerprint=fingerprint(evaluation.specification),
                sampling=evaluation.sampling,
                track=evaluation.track,
                pairing=f"{evaluation.model} {evaluation.sampling}",
            )
            for question in video_questions
            for response in responses
            if response.question_id == question.question_id
        ]
        if texts:
            _store_prompts(store, video_questions, evaluation, lines)
            path = made_up_file(store, "responses", benchmark, evaluation.name, video_id)
            write_made_up(path, responses, Response)
            if lines is not None:
                _store_lines(store, benchmark, video_id, evaluation, lines)
    path = made_up_file(store, "scores", benchmark, evaluation.name)
    write_made_up(path, scored, ScoredQuestion, settings=evaluation.specification)
    show_made_up(store, benchmark, evaluation.name, list(by_video))


def store_nightly_run(
    store: Store, questions: Sequence[Question], evaluation: MadeUpEvaluation, date: str
) -> None:
    """Store the nightly run of `evaluation` on `date`."""
    rng = random.Random(f"{evaluation.name} {date}")
    ids = example_ids(questions)
    scored = [
        score_question(
            question,
            _response(rng, evaluation, question, 0),
            evaluation.reader,
            example_id=ids[question.question_id],
            evaluation_fingerprint=fingerprint(evaluation.specification),
            sampling=evaluation.sampling,
            track=evaluation.track,
        )
        for question in questions
    ]
    path = store.observation(questions[0].benchmark, evaluation.name, date)
    observed = [ObservedQuestion.of(row, date) for row in scored]
    write_rows(path, observed, ObservedQuestion, fingerprint="made-up")


def store_checkpoint(
    store: Store,
    questions: Sequence[Question],
    step: int,
    skill: float,
    outcome: CheckpointOutcome = CheckpointOutcome.PASSED,
) -> None:
    """Store a checkpoint of the training run `tuned` with its scores."""
    name, benchmark = f"short-tuned-{step}", questions[0].benchmark
    evaluation = MadeUpEvaluation(name=name, model=f"tuned-{step}", skill=skill)
    store_evaluation(store, questions, evaluation, texts=False)
    row = Checkpoint(
        run="tuned",
        step=step,
        template="short",
        benchmark=benchmark,
        evaluation=name,
        folder=f"/runs/tuned/checkpoint-{step}",
        recorded_at=NIGHTLY_RUN_TIME,
        outcome=outcome,
        difference=-4.2,
        reason=f"Against short-tuned-{step - 100}: accuracy: made up",
    )
    write_checkpoint(store, [row])


def store_race(
    store: Store, baseline: str, candidate: str, looks: Sequence[tuple[int, float, str | None]]
) -> None:
    """Store a race with looks of (videos, difference in points, why it stopped)."""
    rows = [
        RecordedLook(
            benchmark="videomme",
            baseline=baseline,
            candidate=candidate,
            baseline_fingerprint="0",
            candidate_fingerprint="1",
            seed=0,
            margin=2.0,
            videos=videos,
            all_videos=900,
            questions=3 * videos,
            failed=0,
            difference=difference,
            difference_low=difference - 2,
            difference_high=difference + 2,
            boundary=3.5,
            p_value=0.01,
            verdict="worse" if stop == "decided" else "undecided",
            stop=stop,
            recorded_at=NIGHTLY_RUN_TIME,
        )
        for videos, difference, stop in looks
    ]
    write_race(store, rows)


def made_up_video(question: Question) -> Video:
    """The row of the video of `question`, whose file does not exist."""
    return Video(
        benchmark=question.benchmark,
        video_id=question.video_id,
        path=f"{question.video_id}.mp4",
        content_hash=f"{int(question.video_id):064x}",
        bytes=1,
        container="mp4",
        stream=StreamFacts(
            codec="h264",
            width=320,
            height=180,
            rotation_degrees=0,
            sample_aspect_ratio=1.0,
            pixel_format="yuv420p",
            color_space="bt709",
            color_range="tv",
            interlaced=False,
        ),
        timing=Timing(
            duration_seconds=32.0,
            missing_seconds=0.0,
            frame_count=320,
            average_fps=10.0,
            keyframe_count=32,
            start_seconds=0.0,
            time_base="1/10",
            index_source="packets",
        ),
        has_audio=False,
    )


def store_frames(store: Store, question: Question, sampling: str) -> None:
    """Store the video of `question` and its frames under `sampling`, each of one color."""
    spec = parse_sampling(sampling).for_duration(question.duration)
    video = made_up_video(question)
    content_hash = video.content_hash
    path = made_up_file(store, "videos", question.benchmark, video=question.video_id)
    write_made_up(path, [video], Video)
    times = tuple(2.0 + 4.0 * number for number in range(8))
    frames = [
        Frame(
            requested_seconds=seconds,
            pts_seconds=seconds,
            index=int(seconds * 10),
            is_keyframe=False,
            width=320,
            height=180,
            picture=_picture(number),
        )
        for number, seconds in enumerate(times)
    ]
    choice = Choice(
        frames=tuple(frame.index for frame in frames), requested_seconds=times, asked=8, limit=None
    )
    write_frames(store, content_hash, spec, choice, frames)


def _picture(number: int) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (320, 180), (30 * number, 120, 255 - 30 * number)).save(sink, "JPEG")
    return sink.getvalue()


def _subtitle_lines(
    rng: random.Random, evaluation: MadeUpEvaluation, line: str | None
) -> list[AlignedLine] | None:
    if evaluation.subtitles is None:
        return None
    return [
        AlignedLine(
            frame=number,
            cue=number,
            last_cue=number,
            start_seconds=4.0 * number,
            end_seconds=4.0 * number + 2.5,
            text=line or sentence(rng, 8),
        )
        for number in range(8)
    ]


def _response(
    rng: random.Random, evaluation: MadeUpEvaluation, question: Question, repeat: int
) -> Response:
    wrong = [letter for letter in question.letters if letter != question.answer]
    letter = question.answer if rng.random() < evaluation.skill else rng.choice(wrong)
    raw: str | None = rng.choice(
        [f"{letter}", f"{letter}.", f"The answer is {letter}.", f"Answer: ({letter})"]
    )
    if rng.random() < 0.01:
        raw = "I cannot tell from these frames."
    raw = evaluation.responses.get(question.question_id, raw)
    is_asked = raw is not None or not evaluation.error.startswith("not asked")
    return Response(
        benchmark=question.benchmark,
        evaluation=evaluation.name,
        video_id=question.video_id,
        question_id=question.question_id,
        repeat=repeat,
        request_fingerprint=is_asked * fingerprint(evaluation.name, question.question_id, repeat),
        model=evaluation.model,
        num_frames=evaluation.num_frames,
        raw_output=raw,
        reasoning=evaluation.reasoning,
        finish_reason="stop" if raw is not None else None,
        error=None if raw is not None else evaluation.error,
        reported_model=evaluation.model,
        usage=Usage(
            prompt_tokens=rng.randint(2_000, 2_400), completion_tokens=6, cached_tokens=1_900
        )
        if raw is not None
        else Usage(),
        served=Served(
            cost_dollars=0.0011,
            latency_seconds=rng.uniform(0.4, 1.9),
            attempts=1,
            answered_at=NIGHTLY_RUN_TIME + timedelta(seconds=rng.randint(0, 3_600)),
        )
        if raw is not None
        else Served(attempts=12),
    )


def _store_prompts(
    store: Store,
    questions: Sequence[Question],
    evaluation: MadeUpEvaluation,
    lines: Sequence[AlignedLine] | None,
) -> None:
    times = [2.0 + 4.0 * number for number in range(8)] if evaluation.sampling != "none" else []
    template = parse_template("contract_v1")
    prompts = [render(template, question, lines, frame_seconds=times) for question in questions]
    path = made_up_file(
        store, "prompts", questions[0].benchmark, evaluation.name, questions[0].video_id
    )
    write_made_up(path, prompts, Prompt)


def _store_lines(
    store: Store,
    benchmark: str,
    video_id: str,
    evaluation: MadeUpEvaluation,
    lines: Sequence[AlignedLine],
) -> None:
    assert evaluation.subtitles is not None
    track = f"{evaluation.sampling}.{parse_alignment(evaluation.subtitles).name}"
    path = made_up_file(store, "subtitles", benchmark, track, video_id)
    write_made_up(path, lines, AlignedLine)


EVALUATIONS = (
    MadeUpEvaluation(name="model-a", skill=0.5),
    MadeUpEvaluation(name="model-a-32", sampling="uniform_n-32", skill=0.55),
    MadeUpEvaluation(name="model-a-subtitles", skill=0.6, subtitles="window"),
    MadeUpEvaluation(name="model-b", model="model-b", skill=0.85, responses={"002-1": None}),
    MadeUpEvaluation(name="blind", sampling="none", skill=0.35),
)
"""Evaluations of the made-up store."""

PRIVATE_SETTINGS = {
    "kind": "openai_compatible",
    "model": "/private/weights/model-a",
    "revision": "r7",
    "base_url": "http://gpu7.private.example:8000/v1",
    "api_key_env": "PRIVATE_KEY",
    "prices": {"prompt": 7.7177},
    "shared_folder": "/private/frames",
    "serve": {"vllm": "/private/weights/model-a"},
}
"""An endpoint of a lab, with everything that other people need not know."""

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    '<img src=x onerror="window.hacked = 3">',
    '"><svg onload=window.hacked=4>',
    "javascript:window.hacked=5",
    "<!-- --><![CDATA[ ]]> &lt;b&gt; &amp; {{ 7 * 7 }} ${7 * 7}",
    '=HYPERLINK("http://127.0.0.1/","open")',
    "الإجابة الصحيحة هي ب \u202e txt.exe \u2066 מימין לשמאל",
    "wwwwwwwwww" * 5_000,
)

HOSTILE_NAMES = ("constructor", "hasOwnProperty")
"""Names that an evaluation may have, and that mean something else in JavaScript."""
