"""Each finding names its fault in files of four formats, and clean runs have no error."""

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.registered import registered
from videomme_pipeline.benchmarks.benchmark import Size
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Letter, Question, example_ids
from videomme_pipeline.benchmarks.registry import find_benchmark, register
from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.formats.registry import FORMATS
from videomme_pipeline.formats.score_file import ScoreOptions, audited_file
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.findings.checks import FILE_CHECKS, TEXT_CHECKS, audit
from videomme_pipeline.scoring.findings.run import PublishedCell, Run, Runs, StoredFacts
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import ScoredQuestion

VIDEOS, PER_VIDEO = 100, 6
LABELS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "videomme": [{"duration": duration} for duration in ("short", "medium", "long")],
    "longvideobench_val": [{"duration_group": group} for group in ("15", "60", "600", "3600")],
    "mlvu_dev": [{"task_type": task} for task in ("needle", "count", "order")],
}
"""The facets of the questions of three published benchmarks, in turn."""
LETTERS = {"videomme": 4, "longvideobench_val": 5, "mlvu_dev": 4}
WORDS = ("Apples", "Boats", "Cars", "Dogs", "Eggs")
FORMAT_NAMES = ("official", "contract", "lmms_eval", "vlmevalkit")


@pytest.fixture(autouse=True, scope="module")
def small_benchmarks() -> Iterator[None]:
    """The three benchmarks with as many questions as the made-up runs have."""
    size = Size(videos=VIDEOS, questions=VIDEOS * PER_VIDEO)
    changes = {"size": size, "export_columns": None}
    with registered():
        for name in LABELS:
            register(find_benchmark(name).model_copy(update=changes), replaces=True)
        yield


def questions_of(benchmark: str) -> list[Question]:
    chance = random.Random(benchmark)
    letters = tuple(Letter)[: LETTERS[benchmark]]
    labels = LABELS[benchmark]
    return [
        Question(
            benchmark=benchmark,
            question_id=f"{video:03d}-{number}",
            video_id=f"{video:03d}",
            youtube_id=None,
            url=None,
            question=f"What is shown in part {number}?",
            options=tuple(f"{letter}. {WORDS[n]}." for n, letter in enumerate(letters)),
            answer=chance.choice(letters),
            facets=Facets(labels[video % len(labels)]),
        )
        for video in range(VIDEOS)
        for number in range(PER_VIDEO)
    ]


def letters_of(questions: Sequence[Question], seed: int, accuracy: float) -> list[Letter]:
    """The letters of a model. Hard questions are hard for all models, and share a wrong answer."""
    chance, shared = random.Random(seed), random.Random("difficulty")
    letters = []
    for question in questions:
        difficulty, popular = shared.gauss(0, 1.5), shared.random()
        wrong = [letter for letter in question.letters if letter != question.answer]
        tempting = wrong[int(popular * len(wrong))]
        logit = math.log(accuracy / (1 - accuracy)) * 1.4 - difficulty
        if chance.random() < 1 / (1 + math.exp(-logit)):
            letters.append(question.answer)
        else:
            letters.append(tempting if chance.random() < 0.6 else chance.choice(wrong))
    return letters


@dataclass
class MadeUp:
    """Texts and columns of a file, before it is written in a format."""

    questions: list[Question]
    texts: list[str]
    columns: list[dict[str, Any]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)

    def write(self, path: Path, form: str) -> Path:
        rows = []
        for number in self.order or range(len(self.questions)):
            question, text = self.questions[number], self.texts[number]
            answers = {question.question_id: scored(question, text)}
            columns = self.columns[number] if self.columns else {}
            rows_of = FORMATS[form].rows
            assert rows_of is not None
            for row in rows_of([question], answers):
                target: Any = row["questions"][0] if form == "official" else row
                if form == "lmms_eval":
                    target |= {"videomme_perception_score": {"question_id": question.question_id}}
                target |= columns
                rows.append(row)
        path.write_text(FORMATS[form].text(rows), encoding="utf-8")
        return path


def scored(question: Question, text: str | None) -> ScoredQuestion:
    response = Response(
        benchmark=question.benchmark,
        evaluation="made-up",
        video_id=question.video_id,
        question_id=question.question_id,
        repeat=0,
        request_fingerprint=f"{question.question_id} {text}",
        model="made-up",
        num_frames=8,
        raw_output=text,
        error=None,
    )
    return score_question(
        question,
        response,
        ReaderName.CAREFUL,
        example_id=example_ids([question])[question.question_id],
        evaluation_fingerprint="f",
        sampling="uniform_n-8",
        track="without_subtitles",
    )


def clean(benchmark: str, seed: int = 1, accuracy: float = 0.6) -> MadeUp:
    questions = questions_of(benchmark)
    return MadeUp(questions, [letter.value for letter in letters_of(questions, seed, accuracy)])


Plant = Callable[[MadeUp, Path, str], dict[str, Any]]
"""Writes the files of a run with one fault, and returns the arguments of `audit`."""


def sameness(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts = [letter.value for letter in letters_of(run.questions, 5, 0.3)]
    other = replace(run, texts=[f"['{text}']" for text in run.texts])
    return {"files": [run.write(folder / "a", form), other.write(folder / "b", "contract")]}


def duplicated_ids(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.order = [*range(len(run.questions)), *range(20)]
    run.order.reverse()
    return {"files": [run.write(folder / "a", form)]}


def missing_questions(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.order = [*range(len(run.questions) - 30)]
    return {"files": [run.write(folder / "a", form)]}


def stored_failures(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts[3:7] = ["None", "", "All 5 attempts failed", "<!DOCTYPE html><html>502</html>"]
    return {"files": [run.write(folder / "a", form)]}


def guessed_letters(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.columns = [{"pred_answer": text} for text in run.texts]
    for number in range(0, 60, 2):
        run.texts[number] = "it is hard to say what happens here"
        run.columns[number] = {"pred_answer": "ABCD"[number % 4]}
    if form == "contract":
        run.columns = [{"extracted_answer": row["pred_answer"]} for row in run.columns]
    return {"files": [run.write(folder / "a", form)]}


def reader_dependence(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts = [f"A first look is not enough. The answer is ({text})." for text in run.texts]
    return {"files": [run.write(folder / "a", form)]}


def implausible_accuracy(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts = [letter.value for letter in (question.answer for question in run.questions)]
    run.texts[:2] = ["ABCD"["ABCD".find(text) - 1] for text in run.texts[:2]]
    return {"files": [run.write(folder / "a", form)]}


def misplaced_answers(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts = [run.texts[-1], *run.texts[:-1]]
    return {"files": [run.write(folder / "a", form)]}


def contradictory_options(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts = [
        f"{text}. {question.option_text(question.letters[-1 - question.letters.index(text)])}"
        for question, text in zip(run.questions, map(Letter, run.texts), strict=True)
    ]
    return {"files": [run.write(folder / "a", form)]}


def differences(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    rows = [dataset_row(question) for question in run.questions]
    rows[0]["question"] = "Another one?"
    (folder / "dataset.json").write_text(json.dumps(rows))
    return {"files": [run.write(folder / "a", form)], "annotations": folder / "dataset.json"}


def refusals(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    run.texts[:12] = ["A. Unable to determine this from the frames."] * 12
    return {"files": [run.write(folder / "a", form)]}


def letters(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    chance = random.Random(3)
    run.texts = ["A" if chance.random() < 0.4 else text for text in run.texts]
    return {"files": [run.write(folder / "a", form)]}


def truncation(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    chance = random.Random(4)
    run.columns = [
        {"token_counts": [{"output_tokens": min(16, chance.randint(2, 24))}]} for _ in run.texts
    ]
    if form == "vlmevalkit":
        run.columns = [{"completion_tokens": min(16, chance.randint(2, 24))} for _ in run.texts]
    return {"files": [run.write(folder / "a", form)]}


def published_cell(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    file = run.write(folder / "a", form)
    audited = audited_file(file, ScoreOptions(benchmark=run.questions[0].benchmark))
    facet = audited.benchmark.shown_facets[0].column
    by_value: dict[str, list[bool]] = {}
    for row in audited.rows:
        by_value.setdefault(str(row.facets[facet]), []).append(row.is_correct)
        by_value.setdefault("overall", []).append(row.is_correct)
    rates = {name: round(100 * sum(rights) / len(rights), 1) for name, rights in by_value.items()}
    return {"files": [file], "published": [PublishedCell("the paper's model", rates)]}


def same_as_blind(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    blind = MadeUp(run.questions, [x.value for x in letters_of(run.questions, 8, 0.6)])
    return {
        "files": [run.write(folder / "a", form)],
        "blind": blind.write(folder / "blind", "contract"),
    }


def left_out(run: MadeUp, folder: Path, form: str) -> dict[str, Any]:
    (folder / "run").mkdir()
    (folder / "run" / "README.md").write_text("a run")
    run.write(folder / "run" / "part.json", form)
    return {"files": [folder / "run"]}


PLANTED: Mapping[str, tuple[Plant, Status, str]] = {
    "sameness": (sameness, Status.ERROR, "the same letter in all but 0 of"),
    "duplicated_ids": (duplicated_ids, Status.WARNING, "20 answers are copies"),
    "missing_questions": (missing_questions, Status.ERROR, "570 of 600 questions"),
    "stored_failures": (stored_failures, Status.ERROR, "texts of failures"),
    "guessed_letters": (guessed_letters, Status.ERROR, "30 stated letters do not follow"),
    "reader_dependence": (reader_dependence, Status.WARNING, "official_v2"),
    "implausible_accuracy": (implausible_accuracy, Status.WARNING, "more than of any person"),
    "misplaced_answers": (misplaced_answers, Status.ERROR, "fit the keys one row above"),
    "contradictory_options": (contradictory_options, Status.ERROR, "the text of another letter"),
    "differences": (differences, Status.ERROR, "1 rows differ from the dataset"),
    "refusals": (refusals, Status.WARNING, "12 answers begin with a letter"),
    "letters": (letters, Status.WARNING, "effect size"),
    "truncation": (truncation, Status.WARNING, "the largest number of tokens (16)"),
    "published_cell": (published_cell, Status.NOTE, "published values of the paper's model"),
    "same_as_blind": (same_as_blind, Status.WARNING, "the frames made no difference"),
    "left_out": (left_out, Status.NOTE, "left out: README.md"),
}


def audited(
    benchmark: str,
    files: Sequence[Path],
    blind: Path | None = None,
    track: str = "unknown",
    published: Sequence[PublishedCell] = (),
    annotations: Path | None = None,
) -> list[Finding]:
    options = ScoreOptions(benchmark=benchmark, track=track, annotations=annotations)
    runs = Runs(
        runs=[audited_file(path, options) for path in files],
        blind=audited_file(blind, options) if blind else None,
        published=published,
    )
    return [row for row in audit(runs) if row.status is not Status.OK]


def facts(findings: Sequence[Finding]) -> list[Finding]:
    return [row for row in findings if row.status is not Status.UNKNOWN]


def test_every_finding_is_planted() -> None:
    checks = (*FILE_CHECKS, *TEXT_CHECKS)
    assert {check.__name__ for check in checks} == PLANTED.keys()


CASES = [
    pytest.param(fault, form, id=f"{fault}-{form}", marks=[pytest.mark.slow] * (rank > 0))
    for number, fault in enumerate(PLANTED)
    for rank, form in enumerate((*FORMAT_NAMES[number % 4 :], *FORMAT_NAMES[: number % 4]))
]
"""Every fault in every format. The everyday run has one format per fault."""


@pytest.mark.parametrize(("fault", "form"), CASES)
def test_a_planted_fault_is_named(fault: str, form: str, tmp_path: Path) -> None:
    plant, status, text = PLANTED[fault]
    number = list(PLANTED).index(fault) + FORMAT_NAMES.index(form)
    benchmark = list(LABELS)[number % len(LABELS)]
    findings = audited(benchmark, **plant(clean(benchmark), tmp_path, form))
    named = [row for row in facts(findings) if row.check == fault and text in row.summary]
    assert named, findings
    assert named[0].status is status
    serious = {row.check for row in facts(findings) if row.status is not Status.NOTE}
    assert serious - {fault} <= ALSO.get(fault, set())


ALSO = {
    "refusals": {"reader_dependence"},
    "stored_failures": {"reader_dependence", "missing_questions"},
    "guessed_letters": {"reader_dependence"},
    "misplaced_answers": {"implausible_accuracy"},
    "contradictory_options": {"reader_dependence"},
}
"""Other findings that the planted fault also causes."""


@pytest.mark.parametrize(
    ("benchmark", "form"), [*zip([*LABELS, "mlvu_dev"], FORMAT_NAMES, strict=True)]
)
def test_a_clean_file_has_only_notes(benchmark: str, form: str, tmp_path: Path) -> None:
    findings = audited(benchmark, [clean(benchmark).write(tmp_path / "a", form)])
    assert {row.status for row in findings} == {Status.NOTE, Status.UNKNOWN}
    shown = {row.check for row in findings if row.status is Status.UNKNOWN}
    assert {"same_as_blind", "truncation"} <= shown


def test_an_accuracy_that_is_guessed_is_named(tmp_path: Path) -> None:
    run = clean("videomme", accuracy=0.6)
    chance = random.Random(7)
    run.texts = [chance.choice("ABCD") for _ in run.texts]
    findings = facts(audited("videomme", [run.write(tmp_path / "a", "official")]))
    (finding,) = [row for row in findings if row.check == "implausible_accuracy"]
    assert "as if guessed (25.0%)" in finding.summary


def test_reversed_letters_are_named(tmp_path: Path) -> None:
    run = clean("videomme")
    run.texts = ["DCBA"["ABCD".index(text)] for text in run.texts]
    findings = facts(audited("videomme", [run.write(tmp_path / "a", "official")]))
    (finding,) = [row for row in findings if row.check == "misplaced_answers"]
    assert "with the letters in reversed order" in finding.summary


@pytest.mark.parametrize("last", ["the", "the hill,"])
def test_reasoning_that_is_cut_without_tags_is_named(tmp_path: Path, last: str) -> None:
    run = clean("videomme")
    run.texts[::40] = [f"Let me look: the man takes the box and walks towards {last}"] * 15
    findings = facts(audited("videomme", [run.write(tmp_path / "a", "official")]))
    (finding,) = [row for row in findings if row.check == "truncation"]
    assert finding.numbers["cut"] == 15


def test_one_group_of_equal_runs_is_one_finding(tmp_path: Path) -> None:
    run = clean("videomme", accuracy=0.3)
    names = [run.write(tmp_path / name, "official") for name in "abcde"]
    (finding,) = [row for row in audited("videomme", names) if row.check == "sameness"]
    assert finding.run == str(names[0])
    assert all(str(name) in finding.summary for name in names[1:])


@pytest.mark.parametrize(("most_tokens", "is_limit"), [(7, False), (8, True)])
def test_few_tokens_are_no_limit(most_tokens: int, is_limit: bool, tmp_path: Path) -> None:
    run = clean("videomme")
    run.columns = [
        {"token_counts": [{"output_tokens": most_tokens - number % 5}]}
        for number, _ in enumerate(run.texts)
    ]
    findings = audited("videomme", [run.write(tmp_path / "a", "lmms_eval")])
    assert ("truncation" in {row.check for row in facts(findings)}) is is_limit


def test_letters_that_a_judge_read_are_no_guesses(tmp_path: Path) -> None:
    run = clean("videomme")
    run.columns = [{"pred_answer": text} for text in run.texts]
    for number in range(40):
        run.texts[number] = "it is hard to say what happens here"
        run.columns[number] = {"pred_answer": run.questions[number].answer}
    findings = audited("videomme", [run.write(tmp_path / "a", "official")])
    (finding,) = [row for row in findings if row.check == "guessed_letters"]
    assert finding.status is Status.WARNING
    assert "40 of them are right" in finding.summary
    assert "a judge may have read them" in finding.summary


FORMS = ("{0}", "{0}.", "({0})", "The answer is {0}.", "{0}. {1}")


def clean_run(name: str, benchmark: str, seed: int, accuracy: float) -> Run:
    questions = questions_of(benchmark)
    chance = random.Random(seed)
    form = FORMS[seed % len(FORMS)]
    letters = letters_of(questions, seed, accuracy)
    texts = [
        form.format(letter.value, question.option_text(letter))
        for question, letter in zip(questions, letters, strict=True)
    ]
    keys = [(question.question_id, 0) for question in questions]
    rows = [scored(*pair) for pair in zip(questions, texts, strict=True)]
    usage = [replace(row.usage, completion_tokens=chance.randint(1, 60)) for row in rows]
    return Run(
        name=name,
        benchmark=find_benchmark(benchmark),
        questions={question.question_id: question for question in questions},
        answers=[replace(row, usage=used) for row, used in zip(rows, usage, strict=True)],
        stored=StoredFacts(letters=dict(zip(keys, letters, strict=True))),
    )


@pytest.mark.slow
def test_200_clean_runs_have_no_error() -> None:
    runs = [
        clean_run(f"run {seed}", "videomme", seed, 0.25 + 0.65 * seed / 199) for seed in range(200)
    ]
    shares = [
        sum(row.is_correct for row in run.rows) / len(run.rows) for run in (runs[0], runs[-1])
    ]
    assert shares[0] < 0.35
    assert shares[1] > 0.8
    assert [row for row in audit(Runs(runs=runs)) if row.status is Status.ERROR] == []
