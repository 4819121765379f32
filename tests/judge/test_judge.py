"""The judge reads only responses that `careful` could not read, and is reported separately."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.model_server import Fault, ModelServer, always
from tests.support.scored_rows import scored as made_up
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.formats.score_file import ScoreOptions, ScoreReport, score_file
from videomme_pipeline.judge.judge import (
    Judge,
    JudgeSpec,
    Judgment,
    ask_judge,
    is_left_to_judge,
    summarize_judge,
    without_judge,
)
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.pricing import Prices
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.reports.score_report import ReportKind, as_json, render
from videomme_pipeline.scoring.scored_question import Outcome

FOUR = tuple(Letter)[:4]
OPTIONS = ("A. Walking.", "B. Doing laps.", "C. Sleeping.", "D. Eating.")
OPEN = "She moves through the water."
READABLE = "The answer is B."
REFUSED = "I'm sorry, I can't help with that."
ASKED = """\
Someone was asked a multiple-choice question and replied in their own words.

Question: What happens?
Options:
A. Walking.
B. Doing laps.
C. Sleeping.
D. Eating.

Their reply, between the lines:
-----
She moves through the water.
-----

Which option does the reply choose? Do not answer the question yourself. Write the one letter of \
that option, or the word NONE when the reply chooses no option, or more than one."""
"""The request to a judge about `OPEN`."""


def question(number: int = 1) -> Question:
    return Question(
        benchmark="videomme",
        question_id=f"001-{number}",
        video_id="001",
        youtube_id=None,
        url=None,
        question="What happens?",
        options=OPTIONS,
        answer=Letter.B,
    )


def judge(server: ModelServer) -> Judge:
    prices = Prices(input=1.0, output=2.0)
    spec = EndpointSpec(
        name="small", base_url=server.base_url, prices=prices, limits=Limits(max_attempts=1)
    )
    return Judge.of(JudgeSpec(model="small"), Catalog(models=(spec,)))


def judgments(server: ModelServer, journal: Path, responses: Sequence[str]) -> list[Judgment]:
    pairs = [(question(number), text) for number, text in enumerate(responses)]
    return ask_judge(judge(server), journal, "mine", pairs)


def test_a_judgment_is_paid_for_once(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    with ModelServer(answer=lambda _: "B") as server:
        first = judgments(server, journal, [OPEN, OPEN])
        again = judgments(server, journal, [OPEN, OPEN])
        prompt = server.requests[0].question
    assert server.request_count == 2
    assert first == again
    assert [judgment.letter for judgment in first] == [Letter.B, Letter.B]
    assert all(judgment.cost_dollars for judgment in first)
    assert prompt == ASKED


def test_a_judge_is_left_the_responses_without_one_letter() -> None:
    left = [
        text for text in (OPEN, READABLE, REFUSED, "A or B") if is_left_to_judge(question(), text)
    ]
    assert left == [OPEN, "A or B"]


def test_a_judge_sees_the_end_of_a_long_response(tmp_path: Path) -> None:
    with ModelServer(answer=lambda _: "B") as server:
        judgments(server, tmp_path / "journal.sqlite", ["x" * 5_000 + OPEN])
        (request,) = server.requests
    assert request.question == ASKED.replace(OPEN, "x" * (4_000 - len(OPEN)) + OPEN)


def test_a_judge_is_asked_with_its_own_settings(tmp_path: Path) -> None:
    with ModelServer(answer=lambda _: "B") as server:
        own = replace(judge(server), generation=Generation(seed=7))
        ask_judge(own, tmp_path / "journal.sqlite", "mine", [(question(), OPEN)])
        (request,) = server.requests
    assert request.body["seed"] == 7


def test_a_reply_without_a_single_offered_letter_has_no_letter(tmp_path: Path) -> None:
    for reply in ("NONE", "F", "A or B"):
        with ModelServer(answer=lambda _, reply=reply: reply) as server:  # type: ignore[misc]
            (judgment,) = judgments(server, tmp_path / f"{reply}.sqlite", [OPEN])
        assert (judgment.letter, judgment.output, judgment.error) == (None, reply, None)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.SERVER_ERROR, "500"),
        (Fault.UNAUTHORIZED, "not asked: model small: "),
        (Fault.REFUSAL, "refused: I cannot help"),
    ],
)
def test_a_failed_request_has_no_letter_and_an_error(
    tmp_path: Path, fault: Fault, expected: str
) -> None:
    with ModelServer(answer=lambda _: "B", faults=always(fault)) as server:
        (judgment,) = judgments(server, tmp_path / "journal.sqlite", [OPEN])
    assert (judgment.letter, judgment.output) == (None, None)
    assert judgment.error is not None
    assert expected in judgment.error
    assert (judgment.cost_dollars is not None) == (fault is Fault.REFUSAL)


def test_the_next_call_repeats_a_failed_request(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    with ModelServer(answer=lambda _: "B", faults=always(Fault.SERVER_ERROR)) as server:
        (failed,) = judgments(server, journal, [OPEN])
        server.faults = lambda _question, _asked: None
        (judgment,) = judgments(server, journal, [OPEN])
    assert failed.error
    assert judgment.letter is Letter.B


def results_file(folder: Path) -> Path:
    """Four answers to one made-up video: readable, open, refused and missing."""
    rows = [
        {
            "video_id": "001",
            "question_id": f"001-{number}",
            "duration": "short",
            "domain": "Knowledge",
            "sub_category": "Astronomy",
            "task_type": "Action Recognition",
            "question": "What happens?",
            "options": list(OPTIONS),
            "answer": "B",
            "response": response,
        }
        for number, response in enumerate([READABLE, OPEN, REFUSED, None], start=1)
    ]
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(server: ModelServer, folder: Path) -> ScoreReport:
    ask = partial(ask_judge, judge(server), folder / "journal.sqlite", "mine")
    return score_file(results_file(folder), ScoreOptions(judge="small"), ask)


def test_a_score_with_a_judge_includes_the_score_without_it(tmp_path: Path) -> None:
    with ModelServer(answer=lambda _: "B") as server:
        report = scored(server, tmp_path)
    assert server.request_count == 1
    assert [row.rule for row in report.rows] == ["declared", "judge", "refusal", None]
    assert as_json(report)["breakdowns"]["overall"][0]["accuracy"] == 0.5
    summary = as_json(report)["judge"]
    assert summary.pop("cost_dollars") > 0
    assert summary == {
        "judge": "small",
        "asked": 1,
        "letters": 1,
        "correct": 1,
        "failed": 0,
        "accuracy_without_judge": 0.25,
        "accuracy_of_answered_without_judge": 1.0,
    }
    text = render(report, ReportKind.TABLE)
    assert "judge small: asked about 1, read 1 letters (1 correct), 0 failed" in text
    assert "accuracy without its letters 25.0" in text
    assert [without_judge(row).extracted_answer for row in report.rows] == [Letter.B, *[None] * 3]
    assert {row.judge for row in report.rows} == {"small"}
    judged = report.rows[1]
    assert (judged.extracted_answer, judged.outcome) == (Letter.B, Outcome.CORRECT)
    assert (judged.span_start, judged.span_end, judged.is_correct) == (None, None, True)
    assert (judged.judge_output, judged.judge_error) == ("B", None)
    assert not without_judge(judged).is_correct


def test_a_summary_without_answers_and_costs_has_none() -> None:
    assert summarize_judge([]) is None
    (row,) = [made_up("001-1", Outcome.UNREADABLE, judge="small", judge_error="timeout")]
    summary = summarize_judge([row])
    assert summary is not None
    assert (summary.asked, summary.failed, summary.cost_dollars) == (1, 1, None)
    assert summary.accuracy_of_answered_without_judge is None
    wrong = made_up("001-2", Outcome.INCORRECT, judge="small")
    right = made_up("001-3", Outcome.CORRECT, judge="small")
    summary = summarize_judge([row, right, wrong, right])
    assert summary is not None
    assert summary.accuracy_without_judge == 1 / 2
    assert summary.accuracy_of_answered_without_judge == 2 / 3


def test_rows_without_a_judge_have_the_letters_of_strict(tmp_path: Path) -> None:
    with ModelServer() as server:
        judged = scored(server, tmp_path).rows
    read = score_file(results_file(tmp_path), ScoreOptions()).rows
    columns = ("extracted_answer", "rule", "outcome", "is_correct")
    assert [[getattr(without_judge(row), name) for name in columns] for row in judged] == [
        [getattr(row, name) for name in columns] for row in read
    ]


def test_a_score_notes_failed_requests_to_the_judge(tmp_path: Path) -> None:
    with ModelServer(faults=always(Fault.SERVER_ERROR)) as server:
        report = scored(server, tmp_path)
    assert report.judge is not None
    assert (report.judge.asked, report.judge.letters, report.judge.failed) == (1, 0, 1)
    assert any("1 requests to the judge failed" in note for note in report.notes)


def test_the_fingerprint_depends_on_judge_and_generation() -> None:
    small, large = (EndpointSpec(name=name) for name in ("small", "large"))
    catalog = Catalog(models=(small, large))
    specs = [
        {"model": "small"},
        {"model": "large"},
        {"model": "small", "generation": {"seed": 1}},
    ]
    judges = [Judge.of(JudgeSpec.model_validate(spec), catalog) for spec in specs]
    assert len({judge.fingerprint for judge in judges}) == 3
    moved = Catalog(models=(small.model_copy(update={"base_url": "http://elsewhere/v1"}), large))
    assert Judge.of(JudgeSpec(model="small"), moved).fingerprint == judges[0].fingerprint


def test_a_baseline_cannot_be_a_judge() -> None:
    with pytest.raises(ConfigurationError, match="judge constant-A"):
        Judge.of(JudgeSpec(model="constant-A"), Catalog())


def test_a_judge_must_be_able_to_say_none() -> None:
    with pytest.raises(ValueError, match="NONE"):
        JudgeSpec.model_validate({"model": "small", "generation": {"constrain_answer": True}})
