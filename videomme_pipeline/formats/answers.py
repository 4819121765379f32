"""The answers in a results file: at most one to each question and repeat.

A response is missing if its cell is empty or the file states a failure beside it. In a table, a
text that pandas reads as missing is a missing response, too, unless an option has this text:
VLMEvalKit and the official v2 script score tables that pandas has read.

Logs of several GPUs pad their batches, and a resumed run may append rows that exist already. Equal
copies are one answer. Different answers are repeats only if the file numbers them, or has the same
number of texts for every question. Otherwise nobody knows which one counts, and none does.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass

from videomme_pipeline.benchmarks.columns import letters_of, text_in
from videomme_pipeline.benchmarks.question import Question, with_own_ids
from videomme_pipeline.errors import listed
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.formats.dataset_rows import name_of, response_in
from videomme_pipeline.formats.results_format import (
    Row,
    completion_tokens,
    failure,
    finish_reason,
    stated_letter,
)
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.responses.response import Response, Served
from videomme_pipeline.scoring.findings.run import StoredFacts
from videomme_pipeline.scoring.readers.careful import is_error_text

_MISSING_IN_PANDAS = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)  # fmt: skip
"""Texts that `pandas.read_csv` reads as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Pairs of question and response, in the order of the file.

    `remarks` say which copies were left out. `notes` are reasons not to publish the score. `stored`
    are facts for an audit.
    """

    pairs: tuple[tuple[Question, Response], ...]
    remarks: tuple[str, ...]
    notes: tuple[str, ...]
    stored: StoredFacts


def answers_of(
    rows: Sequence[tuple[Question, Row]], evaluation: str, *, is_table: bool = False
) -> Answers:
    """The answers in the rows of a file, or of a table with texts, whose order does not matter."""
    missing = _MISSING_IN_PANDAS if is_table else frozenset[str]()
    copies_of: dict[str, int] = defaultdict(int)
    for question, row in rows:
        copies_of[question.question_id] = max(copies_of[question.question_id], row.get("copy", 0))
    # If every question has the same number of texts, they are repeats.
    numbers_copies = len(set(copies_of.values())) == 1
    given: dict[tuple[str, int], list[tuple[Question, Row]]] = defaultdict(list)
    questions = with_own_ids([question for question, _ in rows])
    for question, (_, row) in zip(questions, rows, strict=True):
        number = name_of(row, "repeat") or ""
        repeat = int(number) if number.isdecimal() else 0
        if numbers_copies and "copy" in row:
            repeat = row["copy"]
        given[question.question_id, repeat].append((question, row))
    pairs: list[tuple[Question, Response]] = []
    copied, contradicted = Counter[str](), list[str]()
    firsts: dict[tuple[str, int], tuple[Question, Row]] = {}
    for (question_id, repeat), copies in given.items():
        answered = [own for own in copies if _response_text(*own, missing) is not None]
        if len(answered) > 1:  # a later row may repeat a request that failed
            answered = [own for own in answered if not _is_error(*own)] or answered
        counted = answered or copies
        question, row = firsts[question_id, repeat] = counted[0]
        texts = {(other.answer, _response_text(other, copy, missing)) for other, copy in counted}
        error = failure(row) or "no response in the results file"
        if len(texts) > 1:
            error = f"{len(texts)} different answers in the results file"
            contradicted.append(question_id)
        elif len(counted) > 1:
            copied[question_id] += len(counted) - 1
        raw_output = texts.pop()[1] if len(texts) == 1 else None
        response = Response(
            benchmark=question.benchmark,
            evaluation=evaluation,
            video_id=question.video_id,
            question_id=question_id,
            repeat=repeat,
            request_fingerprint=fingerprint(evaluation, question_id, raw_output),
            model=evaluation,
            num_frames=0,
            raw_output=raw_output,
            error=error if raw_output is None else None,
            finish_reason=finish_reason(row),
            usage=Usage(completion_tokens=completion_tokens(row)),
            served=Served(attempts=1),
        )
        pairs.append((question, response))
    remarks, notes = [], []
    if copied:
        remarks.append(
            f"{copied.total():,} answers are copies of another answer to the same question, which "
            f"counts once: {listed(list(copied))}"
        )
    if contradicted:
        notes.append(
            f"{len(contradicted):,} questions have several different answers, and the file does "
            f"not number them, so none of them counts: {listed(contradicted)}; add a column "
            "`repeat` (0, 1, …) if they are repeats, or keep one answer per question"
        )
    letters = {key: stated_letter(row, question) for key, (question, row) in firsts.items()}
    stored = StoredFacts(
        letters={key: letter for key, letter in letters.items() if letter},
        failures={key: text for key, (_, row) in firsts.items() if (text := failure(row))},
        copies=copied.total(),
        contradictions=len(contradicted),
    )
    return Answers(pairs=tuple(pairs), remarks=tuple(remarks), notes=tuple(notes), stored=stored)


def _is_error(question: Question, row: Row) -> bool:
    return is_error_text(str(response_in(row)), question.letters, question.options)


def _response_text(question: Question, row: Row, missing: Set[str]) -> str | None:
    """The response in `row`; None for an empty one, a failed one, and a text that is `missing`."""
    text = text_in(response_in(row))
    is_missing = text in missing and not letters_of(text or "", question.options)
    return None if text is None or is_missing or failure(row) else str(response_in(row))
