"""The texts of the smoke questions, generated from the scripts of the videos.

A correct answer is a value of the script, and wrong ones are values of the same kind. `clips`
contains the questions about the real clips, which were written by watching them. Options have no
letters yet.
"""
# ruff: noqa: ARG001 - functions for all kinds of questions have the same arguments

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from videomme_pipeline.demo.smoke.scripts import (
    ITEMS,
    MAX_COUNT,
    MIN_COUNT,
    PEOPLE,
    REASONS,
    SEED,
    SIGNS,
    Color,
    Corner,
    Motion,
    Scene,
    Script,
    Shape,
    clock_text,
    scripts,
)


class TaskType(StrEnum):
    """The twelve task types of Video-MME, with the dataset's names."""

    TEMPORAL_PERCEPTION = "Temporal Perception"
    SPATIAL_PERCEPTION = "Spatial Perception"
    ATTRIBUTE_PERCEPTION = "Attribute Perception"
    ACTION_RECOGNITION = "Action Recognition"
    OBJECT_RECOGNITION = "Object Recognition"
    OCR_PROBLEMS = "OCR Problems"
    COUNTING_PROBLEM = "Counting Problem"
    TEMPORAL_REASONING = "Temporal Reasoning"
    SPATIAL_REASONING = "Spatial Reasoning"
    ACTION_REASONING = "Action Reasoning"
    OBJECT_REASONING = "Object Reasoning"
    INFORMATION_SYNOPSIS = "Information Synopsis"


SPOKEN = (TaskType.ACTION_REASONING, TaskType.OBJECT_REASONING)
"""Task types whose answers are only in the subtitles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A question whose options have no letters yet. `wrong` has no particular order."""

    text: str
    right: str
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Four questions on one video that are scored together (v2)."""

    video_id: str
    group_type: str
    group_structure: str
    level: int
    second_head: str
    third_head: str
    drafts: tuple[Draft, Draft, Draft, Draft]


def ask(task: TaskType, script: Script, scene: Scene, wrong: int, draw: random.Random) -> Draft:
    """A question of one task type about one scene, with up to `wrong` wrong answers."""
    text, right, others = _QUESTIONS[task](script, scene, draw)
    return _draft(text, right, others, draw, wrong)


_Parts = tuple[str, str, Iterable[str]]
"""Text, correct answer, and answers of the same kind, which may include the correct one."""


def _when(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    middle = draw.randint(scene.start_seconds + 1, scene.end_seconds - 2)
    text = f"Which heading is on the screen when the clock shows {clock_text(middle)}?"
    return text, scene.heading, (other.heading for other in script.scenes)


def _corner(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = f"In which corner of the picture is the code {scene.code} shown?"
    return text, scene.corner, Corner


def _color(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    return f'What colour are the shapes under the heading "{scene.heading}"?', scene.colour, Color


def _motion(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = f'How do the shapes under the heading "{scene.heading}" move?'
    return text, scene.motion, Motion


def _shape(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    return f'Which shapes are shown under the heading "{scene.heading}"?', scene.shape, Shape


def _code(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    shown = [other.code for other in script.scenes]
    similar = [f"{scene.code[0]}{draw.randint(1000, 9999)}" for _ in range(7)]
    text = f'Which code is shown together with the heading "{scene.heading}"?'
    return text, scene.code, [*shown, *similar][:8]


def _count(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = f'How many {scene.shape} are shown under the heading "{scene.heading}"?'
    return text, str(scene.count), map(str, range(MIN_COUNT, MAX_COUNT + 1))


def _next(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    index = max(1, script.scenes.index(scene))
    before = script.scenes[index - 1].heading
    text = f'Which heading comes directly after the heading "{before}"?'
    right = script.scenes[index].heading
    seen = [other.heading for other in script.scenes if other.heading != before]
    return text, right, (*seen, *(heading for heading in script.headings if heading != before))


def _passed_last(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = (
        f'Under the heading "{scene.heading}", someone walks from the left edge to the right edge '
        "of the picture. Which sign is reached last?"
    )
    return text, scene.right_sign, (scene.left_sign, *_signs_of_others(script, scene), *SIGNS)


def _signs_of_others(script: Script, scene: Scene) -> tuple[str, ...]:
    return tuple(other.right_sign for other in script.scenes if other is not scene)


def _why(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = f"Why does {scene.person} stop at the {scene.heading.lower()}?"
    return text, scene.reason, REASONS


def _what_for(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = f"Which object does {scene.person} need at the {scene.heading.lower()}?"
    return text, f"The {scene.item}", (f"The {item}" for item in ITEMS)


def _topic(script: Script, scene: Scene, draw: random.Random) -> _Parts:
    text = "What is this video mainly about?"
    return text, script.topic, (other.topic for other in scripts())


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


_QUESTIONS: Mapping[TaskType, Callable[[Script, Scene, random.Random], _Parts]] = {
    TaskType.TEMPORAL_PERCEPTION: _when,
    TaskType.SPATIAL_PERCEPTION: _corner,
    TaskType.ATTRIBUTE_PERCEPTION: _color,
    TaskType.ACTION_RECOGNITION: _motion,
    TaskType.OBJECT_RECOGNITION: _shape,
    TaskType.OCR_PROBLEMS: _code,
    TaskType.COUNTING_PROBLEM: _count,
    TaskType.TEMPORAL_REASONING: _next,
    TaskType.SPATIAL_REASONING: _passed_last,
    TaskType.ACTION_REASONING: _why,
    TaskType.OBJECT_REASONING: _what_for,
    TaskType.INFORMATION_SYNOPSIS: _topic,
}


def choose_tasks(taken: Iterable[TaskType], times: int) -> dict[str, tuple[TaskType, ...]]:
    """Choose three task types per script, so that each occurs `times` times including `taken`.

    Videos without subtitles choose first, among the types that can be seen.
    """
    left = Counter(dict.fromkeys(TaskType, times))
    left.subtract(taken)
    chosen: dict[str, tuple[TaskType, ...]] = {}
    for script in sorted(scripts(), key=lambda script: script.narrated):
        possible = [task for task in TaskType if script.narrated or task not in SPOKEN]
        turn = int(script.video_id)
        possible = possible[turn % len(possible) :] + possible[: turn % len(possible)]
        best = sorted(possible, key=lambda task: -left[task])[:3]
        left.subtract(best)
        chosen[script.video_id] = tuple(best)
    return chosen


@cache
def groups(seed: int = SEED) -> tuple[Group, ...]:
    """The v2 groups, one for each of ten drawn videos."""
    by_id = {script.video_id: script for script in scripts(seed)}
    return tuple(
        make(by_id[video_id], random.Random(f"{seed}/v2/{video_id}"))
        for video_id, make in _GROUPS.items()
    )


def _relevance(
    task: TaskType, level: int, second_head: str, third_head: str
) -> Callable[[Script, random.Random], Group]:
    """A relevance group: four questions on one ability."""

    def make(script: Script, draw: random.Random) -> Group:
        indexes = draw.sample(range(1, len(script.scenes)), 4)
        drafts = [ask(task, script, script.scenes[index], 7, draw) for index in sorted(indexes)]
        return Group(
            video_id=script.video_id,
            group_type="relevance",
            group_structure="4",
            level=level,
            second_head=second_head,
            third_head=third_head,
            drafts=_four(drafts),
        )

    return make


def _chain(script: Script, draw: random.Random) -> Group:
    """`[1,2,3,4]`: from a code to its heading, the next heading, its color and count."""
    index = draw.randrange(1, len(script.scenes))
    before, scene = script.scenes[index - 1], script.scenes[index]
    others = (heading for heading in script.headings if heading != before.heading)
    return _logic(
        script,
        "[1,2,3,4]",
        (2, "Order", "Object Appearance Ordering"),
        [
            _draft(
                f"Which heading is shown together with the code {before.code}?",
                before.heading,
                script.headings,
                draw,
            ),
            _draft(
                f"Which heading comes directly after the scene with the code {before.code}?",
                scene.heading,
                others,
                draw,
            ),
            _draft(
                f"What colour are the shapes in the scene that follows the code {before.code}?",
                scene.colour,
                Color,
                draw,
            ),
            _draft(
                f"How many shapes are in the scene that follows the code {before.code}?",
                str(scene.count),
                map(str, range(MIN_COUNT, MAX_COUNT + 1)),
                draw,
            ),
        ],
    )


def _converging(script: Script, draw: random.Random) -> Group:
    """`[1,[2,3],4]`: the heading of a moment, then its shapes and their color, then all."""
    scene = draw.choice(script.scenes)
    moment = clock_text((scene.start_seconds + scene.end_seconds) // 2)
    described = [
        f"{color} {shape} under {scene.heading}"
        for color in draw.sample(list(Color), 4)
        for shape in draw.sample(list(Shape), 4)
    ]
    return _logic(
        script,
        "[1,[2,3],4]",
        (3, "Complex Plot Comprehension", "Narrative Cloze Inference"),
        [
            _draft(
                f"Which heading is on the screen when the clock shows {moment}?",
                scene.heading,
                script.headings,
                draw,
            ),
            _draft(f"Which shapes are shown at {moment}?", scene.shape, Shape, draw),
            _draft(f"What colour are the shapes at {moment}?", scene.colour, Color, draw),
            _draft(
                f"Which description fits the picture at {moment}?",
                f"{scene.colour} {scene.shape} under {scene.heading}",
                described,
                draw,
            ),
        ],
    )


def _two_roots(script: Script, draw: random.Random) -> Group:
    """`[[1,2],3,4]`: the people at two places, who comes later, and why."""
    earlier = draw.randrange(len(script.scenes) - 1)
    first, second = script.scenes[earlier], script.scenes[earlier + 1]
    return _logic(
        script,
        "[[1,2],3,4]",
        (2, "Temporal Reasoning", "Causal Reasoning"),
        [
            _draft(
                f"Who stops at the {first.heading.lower()}?",
                first.person,
                (*_people(script), *PEOPLE),
                draw,
            ),
            _draft(
                f"Who stops at the {second.heading.lower()}?",
                second.person,
                (*_people(script), *PEOPLE),
                draw,
            ),
            _draft(
                f"Who is named directly after {first.person}?",
                second.person,
                (name for name in (*_people(script), *PEOPLE) if name != first.person),
                draw,
            ),
            _draft(
                f"Why does the person who is named directly after {first.person} stop?",
                second.reason,
                REASONS,
                draw,
            ),
        ],
    )


def _people(script: Script) -> tuple[str, ...]:
    return tuple(scene.person for scene in script.scenes)


def _logic(
    script: Script, structure: str, heads: tuple[int, str, str], drafts: Sequence[Draft]
) -> Group:
    level, second_head, third_head = heads
    return Group(
        video_id=script.video_id,
        group_type="logic",
        group_structure=structure,
        level=level,
        second_head=second_head,
        third_head=third_head,
        drafts=_four(drafts),
    )


def _draft(
    text: str, right: str, others: Iterable[str], draw: random.Random, wrong: int = 7
) -> Draft:
    """A draft with `wrong` wrong answers, or all of that kind if there are fewer."""
    pool = sorted(set(map(str, others)) - {str(right)})
    chosen = draw.sample(pool, min(wrong, len(pool)))
    return Draft(text=text, right=_sentence(right), wrong=tuple(map(_sentence, chosen)))


def _four(drafts: Sequence[Draft]) -> tuple[Draft, Draft, Draft, Draft]:
    first, second, third, fourth = drafts
    return first, second, third, fourth


_GROUPS: Mapping[str, Callable[[Script, random.Random], Group]] = {
    "001": _relevance(TaskType.COUNTING_PROBLEM, 1, "Frame-Only", "Basic Counting"),
    "002": _chain,
    "004": _two_roots,
    "005": _converging,
    "006": _relevance(
        TaskType.OBJECT_REASONING, 1, "Frames & Audio", "Visual-Audio Collaborative Reasoning"
    ),
    "007": _relevance(TaskType.TEMPORAL_REASONING, 2, "Order", "Event Sequence Ordering"),
    "010": _chain,
    "011": _relevance(
        TaskType.ACTION_RECOGNITION, 2, "Action & Motion", "Motion Properties Analysis"
    ),
    "012": _two_roots,
    "015": _converging,
}
