"""An optional second reader: a model is asked about the responses that `strict` could not read.

What the model costs is counted by whoever passes `ask`; which responses it read is told apart by
their rule, `judge`. It is never asked about errors, refusals or what `strict` did read, and it
never sees the right answer.
"""

from collections.abc import Awaitable, Callable

from videomme_pipeline.annotations.question import Question
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.scoring.reading import Reading
from videomme_pipeline.scoring.strict_reader import read_strict

JUDGE_TEMPLATE = """\
Someone was asked a multiple-choice question and replied in their own words.

Question: {question}
Options:
{options}

Their reply, between the lines:
-----
{response}
-----

Which option does the reply choose? Do not answer the question yourself. Write the one letter of \
that option, or the word NONE when the reply chooses no option, or more than one."""

ASKED_ABOUT = frozenset(("no_letter", "several_letters"))
"""The rules of `strict` after which a judge is asked."""
LONGEST_RESPONSE_SHOWN = 4_000
"""Characters of the response that the judge sees, from its end."""


class JudgeSpec(Spec):
    """The judge as a part of an evaluation: another model or template is another result."""

    model: str
    template: str = JUDGE_TEMPLATE


async def read_with_judge(
    response: str,
    question: Question,
    *,
    ask: Callable[[str], Awaitable[str]],
    template: str = JUDGE_TEMPLATE,
) -> Reading:
    """What `strict` reads, or else what a model says that the response chooses.

    A letter by the judge has the rule `judge` and no span. When the judge names no single
    offered letter the reading of `strict` stands. Errors of `ask` are the caller's.

    Args:
        ask: sends a prompt to the judge model and gives its reply.
        template: a prompt with {question}, {options} and {response}.
    """
    reading = read_strict(response, question.letters, question.options)
    if reading.rule not in ASKED_ABOUT:
        return reading
    prompt = template.format(
        question=question.question,
        options="\n".join(question.options),
        response=response[-LONGEST_RESPONSE_SHOWN:],
    )
    verdict = read_strict(await ask(prompt), question.letters, ())
    if verdict.letter is None:
        return reading
    return Reading(letter=verdict.letter, rule="judge", span=None)
