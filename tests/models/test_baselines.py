"""Baselines use only the question and its options."""

from collections import Counter

import pytest

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.demo.smoke import scripts as smoke
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.models.catalog import Baseline, ConstantSpec, LongestOptionSpec, RandomSpec
from videomme_pipeline.models.video_llm import Generation, Request, VideoLLM
from videomme_pipeline.prompts.render import Prompt


def request(question: Question, repeat: int = 0) -> Request:
    return Request(
        question=question,
        prompt=Prompt(
            benchmark=question.benchmark,
            question_id=question.question_id,
            video_id=question.video_id,
            template="none",
            system=None,
            text=question.question,
            after_frame=(),
            num_frames=0,
            subtitle_lines=0,
        ),
        frames=FrameSet(video_hash="", fingerprint="", media_type="image/jpeg", frames=()),
        generation=Generation(),
        repeat=repeat,
    )


def random(seed: int = 0) -> Baseline:
    return Baseline(RandomSpec(name="random", seed=seed))


def constant(letter: Letter) -> Baseline:
    return Baseline(ConstantSpec(name="constant", letter=letter))


LONGEST_OPTION = Baseline(LongestOptionSpec(name="longest-option"))


async def answers(model: VideoLLM, benchmark: str, repeat: int = 0) -> list[str]:
    questions = smoke.questions(benchmark)
    return [(await model.respond(request(question, repeat))).text for question in questions]


async def test_random_draws_the_same_letters_in_every_process() -> None:
    letters = await answers(random(), "smoke")
    assert "".join(letters[:12]) == "BBDDADCDADDB"
    assert await answers(random(), "smoke") == letters


async def test_random_draws_other_letters_for_another_seed_or_repeat() -> None:
    first = await answers(random(), "smoke_v2")
    assert set(first) == set(tuple(Letter)[:8])
    assert first != await answers(random(seed=1), "smoke_v2")
    assert first != await answers(random(), "smoke_v2", repeat=1)


async def test_random_chooses_only_letters_that_the_question_offers() -> None:
    for question in smoke.questions("smoke_v2"):
        for repeat in range(20):
            reply = await random().respond(request(question, repeat))
            assert reply.text in question.letters


async def test_constant_is_correct_as_often_as_its_letter() -> None:
    right = Counter(question.answer for question in smoke.questions("smoke"))
    for letter in "ABCD":
        assert set(await answers(constant(Letter(letter)), "smoke")) == {letter}
        assert right[Letter(letter)] == 18


async def test_longest_option_chooses_the_first_of_equally_long_options() -> None:
    question = Question(
        benchmark="smoke",
        question_id="001-1",
        video_id="001",
        youtube_id=None,
        url=None,
        question="Which?",
        options=("A. One.", "B. Seven.", "C. Three.", "D. Two."),
        answer=Letter.A,
    )
    assert (await LONGEST_OPTION.respond(request(question))).text == "B"


@pytest.mark.parametrize(
    ("model", "identity"),
    [
        (random(3), {"model": "random", "seed": 3}),
        (constant(Letter.C), {"model": "constant", "letter": "C"}),
        (LONGEST_OPTION, {"model": "longest-option"}),
    ],
)
async def test_a_baseline_needs_no_frames_and_keeps_its_identity(
    model: Baseline, identity: dict[str, object]
) -> None:
    assert not model.needs_frames
    assert model.identity == identity
    await model.close()
