"""The questions of the smoke benchmarks, and the names of their videos.

`smoke` has the schema of Video-MME (three questions per video). `smoke_v2` has the schema of
Video-MME-v2 (groups of four questions, up to eight options) and uses some of the same videos. Most
videos are drawn from a script. A few are real clips with a free license from registry packages. A
score on them only shows that the pipeline works.
"""

import random
from collections.abc import Sequence
from functools import cache

from videomme_pipeline.benchmarks.facets import Facets, with_derived
from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.demo.smoke.clips import CLIPS, RealClip
from videomme_pipeline.demo.smoke.questions import Draft, TaskType, ask, choose_tasks, groups
from videomme_pipeline.demo.smoke.scripts import SEED, Script, scripts
from videomme_pipeline.errors import AnnotationError

SMOKE = "smoke"
SMOKE_V2 = "smoke_v2"
QUESTIONS_PER_TASK_TYPE = 6


def video_ids(benchmark: str = SMOKE) -> tuple[str, ...]:
    """Video ids of `benchmark`, from "001". The videos of `smoke_v2` are a subset of `smoke`."""
    return tuple(dict.fromkeys(question.video_id for question in questions(benchmark)))


def youtube_id(video_id: str) -> str:
    """Stem of a video's files: eleven characters, sometimes with a leading hyphen."""
    return f"{'-' if video_id.endswith('7') else 'v'}smoke-{int(video_id):04d}"


def questions(benchmark: str) -> tuple[Question, ...]:
    """The questions of `smoke` or `smoke_v2`, in the order of the videos.

    Raises:
        AnnotationError: if `benchmark` is another one.
    """
    if benchmark == SMOKE:
        return _questions_v1()
    if benchmark == SMOKE_V2:
        return _questions_v2()
    raise AnnotationError(f"{benchmark}: the smoke benchmarks are {SMOKE} and {SMOKE_V2}")


@cache
def _questions_v1() -> tuple[Question, ...]:
    clip_tasks = [task for clip in CLIPS for task, _ in clip.drafts]
    tasks = choose_tasks(clip_tasks, QUESTIONS_PER_TASK_TYPE)
    drafted = [
        (script, task, draft)
        for script in scripts()
        for task, draft in _drafts(script, tasks[script.video_id])
    ] + [(clip, task, draft) for clip in CLIPS for task, draft in clip.drafts]
    letters = _even_letters(len(drafted), 4)
    facets = find_benchmark("videomme").facets
    questions: list[Question] = []
    for number, (source, task, draft) in enumerate(drafted):
        letter, options = _lettered(draft, letters[number], f"{SMOKE}/{number}")
        questions.append(
            Question(
                benchmark=SMOKE,
                question_id=f"{source.video_id}-{number % 3 + 1}",
                video_id=source.video_id,
                youtube_id=youtube_id(source.video_id),
                url=source.url if isinstance(source, RealClip) else None,
                question=draft.text,
                options=options,
                answer=letter,
                facets=with_derived(
                    {
                        "duration": str(
                            Duration.SHORT if isinstance(source, RealClip) else source.duration
                        ),
                        "domain": source.domain,
                        "sub_category": source.sub_category,
                        "task_type": str(task),
                    },
                    facets,
                ),
            )
        )
    return tuple(questions)


def _drafts(script: Script, tasks: Sequence[TaskType]) -> list[tuple[TaskType, Draft]]:
    """One question of each task type, each about a different scene."""
    draw = random.Random(f"{SEED}/v1/{script.video_id}")
    scenes = draw.sample(script.scenes[1:], len(tasks))
    return [
        (task, ask(task, script, scene, 3, draw)) for task, scene in zip(tasks, scenes, strict=True)
    ]


@cache
def _questions_v2() -> tuple[Question, ...]:
    letters = _even_letters(4 * len(groups()), 8)
    questions: list[Question] = []
    for group in groups():
        for number, draft in enumerate(group.drafts, start=1):
            question_id = f"{group.video_id}-{number}"
            letter, options = _lettered(draft, letters[len(questions)], f"{SMOKE_V2}/{question_id}")
            questions.append(
                Question(
                    benchmark=SMOKE_V2,
                    question_id=question_id,
                    video_id=group.video_id,
                    youtube_id=None,
                    url=None,
                    question=draft.text,
                    options=options,
                    answer=letter,
                    facets=Facets(
                        {
                            "level": group.level,
                            "second_head": group.second_head,
                            "third_head": group.third_head,
                            "group_type": group.group_type,
                            "group_structure": group.group_structure,
                        }
                    ),
                )
            )
    return tuple(questions)


def _even_letters(count: int, offered: int) -> list[Letter]:
    """Letters in a seeded order. Their frequencies differ by at most one."""
    letters = [tuple(Letter)[number % offered] for number in range(count)]
    random.Random(f"{SEED}/letters/{offered}").shuffle(letters)
    return letters


def _lettered(draft: Draft, answer: Letter, seed: str) -> tuple[Letter, tuple[str, ...]]:
    """The options as published ("A. Apples."). `answer` marks the correct one, if offered."""
    wrong = list(draft.wrong)
    random.Random(f"{SEED}/{seed}").shuffle(wrong)
    letters = tuple(Letter)[: len(wrong) + 1]
    index = tuple(Letter).index(answer) % len(letters)
    texts = [*wrong[:index], draft.right, *wrong[index:]]
    options = tuple(
        f"{letter}. {text if text.endswith('.') else text + '.'}"
        for letter, text in zip(letters, texts, strict=True)
    )
    return letters[index], options
