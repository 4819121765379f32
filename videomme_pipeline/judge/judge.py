"""An optional second reader: a model that reads the responses that `careful` could not read.

The judge is never asked about errors, refusals or responses that `careful` read, and never sees
the right answer. The journal stores its replies, so no request is sent again after a reply. A
failed request is reported as a failure of the judge. The letters of a judge have the rule `judge`,
so that every score with a judge can be shown beside the score without it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import field_validator

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.errors import ConfigurationError, VideoMMEError
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.frames.cache import NO_FRAMES
from videomme_pipeline.models.catalog import Catalog, build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.journal_databases import JournalDatabase
from videomme_pipeline.responses.requests import RequestPlan, VideoRequests, planned_requests
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.readers.careful import read_careful
from videomme_pipeline.scoring.score import with_letter
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

TEMPLATE = resources.files(__package__).joinpath("judge_prompt.txt").read_text("utf-8")

ASKED_ABOUT = frozenset(("no_letter", "several_letters"))
"""The rules of `careful` for the responses that a judge is asked about."""
JUDGE_VERSION = 1
"""Part of the fingerprint of every judged score. Raise it if the judge is asked about other
responses, sees more or less of them, or if its replies are read differently."""
RULE = "judge"
"""The rule of a letter that a judge read."""
MAX_RESPONSE_CHARACTERS = 4_000
"""Number of characters of the response that the judge sees, counted from its end."""


class JudgeSpec(Spec):
    """`judge:` of an evaluation file."""

    model: str
    """The name of a model in models.yaml."""
    generation: Generation = Generation()

    @field_validator("generation")
    @classmethod
    def _can_say_none(cls, generation: Generation) -> Generation:
        if generation.constrain_answer:
            raise ValueError("a judge must be able to say NONE; leave `constrain_answer` out")
        return generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A model that reads answers. Scores depend on it; nothing upstream of them does."""

    model: EndpointSpec
    generation: Generation

    @classmethod
    def of(cls, spec: JudgeSpec, catalog: Catalog) -> "Judge":
        """The judge of `spec`. Raises ModelError, or ConfigurationError if it has no endpoint."""
        model = catalog.find(spec.model)
        if not isinstance(model, EndpointSpec):
            raise ConfigurationError(
                f"judge {model.name}: it can only answer questions about videos; name a model of "
                "models.yaml that has an endpoint"
            )
        return cls(model=model, generation=spec.generation)

    def served_by(self, with_server: Callable[[EndpointSpec], EndpointSpec]) -> "Judge":
        """This judge, with the current server of its model."""
        return replace(self, model=with_server(self.model))

    @property
    def specification(self) -> Mapping[str, Any]:
        """Every setting of the judge that can change a score."""
        return {
            "model": dict(self.model.identity),
            "template": TEMPLATE,
            "generation": self.generation.model_dump(mode="json"),
        }

    @property
    def fingerprint(self) -> str:
        """Hash of the model's identity, the prompt and the generation."""
        return fingerprint(self.model.fingerprint, JUDGE_VERSION, TEMPLATE, self.generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """A judge's reply about one response.

    `letter` is None if the reply names no letter, or more than one. If the request failed,
    `error` is set and `output` is None. The cost is in US dollars, None if unknown.
    """

    letter: Letter | None = None
    output: str | None = None
    error: str | None = None
    cost_dollars: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSummary:
    """The effect of a judge on the score of one evaluation.

    `failed` requests returned no judgment; the next run sends them again. The accuracies are of the
    same rows, without the judge's letters.
    """

    judge: str
    asked: int
    letters: int
    correct: int
    failed: int
    cost_dollars: float | None
    accuracy_without_judge: float | None
    accuracy_of_answered_without_judge: float | None


AskJudge = Callable[[Sequence[tuple[Question, str]]], Sequence[Judgment]]
"""Judgments of pairs of a question and a response to it, in their order."""

AskModel = Callable[[ModelSpec, Sequence[VideoRequests], Journal, RequestPlan], Iterable[Response]]
"""All responses of a model to the requests, with the errors of `collect`."""


def ask_model(
    spec: ModelSpec, requests: Sequence[VideoRequests], journal: Journal, plan: RequestPlan
) -> Iterator[Response]:
    """The model's responses to `requests`, within the limits of `plan`."""
    return collect(requests, build_model(spec), journal, plan)


def ask_judge(
    judge: Judge,
    journal: JournalDatabase | Path,
    evaluation: str,
    pairs: Sequence[tuple[Question, str]],
    ask: AskModel = ask_model,
) -> list[Judgment]:
    """A judgment of each pair of a question and a response. Stored replies need no request.

    Costs are recorded under `<evaluation>@judge`. A failed request raises no error: its judgment
    contains the error, and a later call sends it again. ModelError if the API key is not set.
    """
    if not pairs:
        return []
    spec = judge.model
    plan = RequestPlan(
        evaluation=f"{evaluation}@{RULE}", generation=judge.generation, limits=spec.limits
    )
    requests = judge_requests(judge, pairs)
    replies: dict[str, Response] = {}
    reason = "never asked"
    with Journal(journal, flushes_every_commit=spec.costs_money) as opened:
        try:
            for response in ask(spec, list(dict(requests).values()), opened, plan):
                replies[response.request_fingerprint] = response
        except VideoMMEError as error:
            reason = f"not asked: {error}"
    return [
        _judgment(replies.get(key), question.letters, reason)
        for (key, _), (question, _) in zip(requests, pairs, strict=True)
    ]


def is_left_to_judge(question: Question, response: str) -> bool:
    """True if a judge is asked about this response to `question`."""
    return read_careful(response, question.letters, question.options).rule in ASKED_ABOUT


def judge_requests(
    judge: Judge, pairs: Sequence[tuple[Question, str]]
) -> list[tuple[str, VideoRequests]]:
    """The request for each question and response, with a fingerprint that equal pairs share."""
    plan = RequestPlan(evaluation="", generation=judge.generation)  # fingerprints do not contain it
    requests = []
    for question, response in pairs:
        request = VideoRequests(
            video_id=question.video_id,
            questions=[(question, _prompt(question, response))],
            frame_digests=(),
            load_frames=lambda: NO_FRAMES,
        )
        (planned,) = planned_requests(request, judge.model.identity, plan)
        requests.append((planned.fingerprint, request))
    return requests


def judge_rows(
    scored: Sequence[tuple[Question, ScoredQuestion]], judge: str, ask: AskJudge
) -> list[ScoredQuestion]:
    """The rows of `scored`, with the letters that the model `judge` reads."""
    rows = [(question, replace(row, judge=judge)) for question, row in scored]
    unread = [(question, row.raw_output or "") for question, row in rows if row.rule in ASKED_ABOUT]
    judgments = iter(ask(unread))
    return [_judged(row, next(judgments)) if row.rule in ASKED_ABOUT else row for _, row in rows]


def without_judge(row: ScoredQuestion) -> ScoredQuestion:
    """`row` without the letter of the judge."""
    return row if row.rule != RULE else with_letter(row, None, "no_letter")


def summarize_judge(rows: Sequence[ScoredQuestion]) -> JudgeSummary | None:
    """The summary of the judge of one evaluation's rows, or None without a judge."""
    if not rows or rows[0].judge is None:
        return None
    letters = [row for row in rows if row.rule == RULE]
    failed = sum(row.judge_error is not None for row in rows)
    costs = [row.judge_cost_dollars for row in rows if row.judge_cost_dollars is not None]
    outcomes = Counter(without_judge(row).outcome for row in rows)
    correct = outcomes[Outcome.CORRECT]
    answered = correct + outcomes[Outcome.INCORRECT]
    return JudgeSummary(
        judge=rows[0].judge,
        asked=failed + sum(row.judge_output is not None for row in rows),
        letters=len(letters),
        correct=sum(row.is_correct for row in letters),
        failed=failed,
        cost_dollars=sum(costs) if costs else None,
        accuracy_without_judge=correct / len(rows) if outcomes.keys() - {Outcome.FAILED} else None,
        accuracy_of_answered_without_judge=correct / answered if answered else None,
    )


def _judged(row: ScoredQuestion, judgment: Judgment) -> ScoredQuestion:
    row = replace(
        row,
        judge_output=judgment.output,
        judge_error=judgment.error,
        judge_cost_dollars=judgment.cost_dollars,
    )
    return row if judgment.letter is None else with_letter(row, judgment.letter, RULE)


def _judgment(response: Response | None, letters: Sequence[Letter], reason: str) -> Judgment:
    if response is None:
        return Judgment(error=reason)
    output, cost = response.raw_output, response.served.cost_dollars
    if output is None:
        return Judgment(error=response.error, cost_dollars=cost)
    letter = read_careful(output, letters, ()).letter
    return Judgment(letter=letter, output=output, cost_dollars=cost)


def _prompt(question: Question, response: str) -> Prompt:
    options = [f"{letter}. {question.option_text(letter)}" for letter in question.letters]
    return Prompt(
        benchmark=question.benchmark,
        question_id=question.question_id,
        video_id=question.video_id,
        template=RULE,
        system=None,
        text=TEMPLATE.format(
            question=question.question or "(not given)",
            options="\n".join(options),
            response=response[-MAX_RESPONSE_CHARACTERS:],
        ),
        after_frame=(),
        num_frames=0,
        subtitle_lines=0,
    )
