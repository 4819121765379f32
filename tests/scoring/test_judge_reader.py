"""The judge is asked only about what the strict reader left open, and told apart by its rule."""

from videomme_pipeline.annotations.question import Letter, Question
from videomme_pipeline.scoring.judge_reader import JudgeSpec, read_with_judge
from videomme_pipeline.scoring.reading import Reading

QUESTION = Question(
    benchmark="smoke",
    question_id="001-1",
    video_id="001",
    youtube_id=None,
    url=None,
    question="What happens?",
    options=("A. Walking.", "B. Swimming.", "C. Sleeping.", "D. Eating."),
    answer=Letter.B,
)


async def read(response: str, verdict: str) -> tuple[Reading, list[str]]:
    prompts: list[str] = []

    async def ask(prompt: str) -> str:
        prompts.append(prompt)
        return verdict

    reading = await read_with_judge(response, QUESTION, ask=ask)
    return reading, prompts


async def test_a_readable_response_costs_nothing() -> None:
    reading, prompts = await read("The answer is B.", "A")
    assert (reading.letter, reading.rule) == (Letter.B, "declared")
    assert prompts == []


async def test_a_letter_by_the_judge_says_so() -> None:
    reading, prompts = await read("She is doing laps in the pool.", "B")
    assert reading == Reading(letter=Letter.B, rule="judge", span=None)
    assert "She is doing laps in the pool." in prompts[0]
    assert "B. Swimming." in prompts[0]


async def test_a_judge_that_names_no_offered_letter_changes_nothing() -> None:
    for verdict in ("NONE", "F", "A or B", ""):
        reading, prompts = await read("She moves.", verdict)
        assert (reading.letter, reading.rule, len(prompts)) == (None, "no_letter", 1)


async def test_errors_and_refusals_are_not_sent_to_the_judge() -> None:
    for response in ("Error code: 429", "I'm sorry, I can't help with that.", "<think>Hm", ""):
        reading, prompts = await read(response, "A")
        assert reading.letter is None
        assert prompts == []


def test_another_judge_model_or_template_is_another_result() -> None:
    specs = [
        JudgeSpec(model="small"),
        JudgeSpec(model="large"),
        JudgeSpec(model="small", template="{question} {options} {response}"),
    ]
    assert len({spec.fingerprint for spec in specs}) == 3
