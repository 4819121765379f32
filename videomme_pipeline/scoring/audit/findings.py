"""Findings about runs: facts that anyone who cites a score should know.

A run is the answers of one results file or of one evaluation. Each finding is one function, and its
name is the finding's stable id. A function yields facts with numbers. What a file does not contain
cannot be checked, and a fact of severity `note` says so.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from math import prod, sqrt, tau
from statistics import fmean
from typing import NamedTuple

import scipy  # submodules are imported on first use

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.errors import listed
from videomme_pipeline.scoring.audit.letters import BIASED_P_VALUE, compare_letters
from videomme_pipeline.scoring.audit.sameness import Sameness, same_answers_fact, same_pairs
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer
from videomme_pipeline.scoring.score import outcome_of
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion, is_with_subtitles
from videomme_pipeline.scoring.statistics.breakdowns import AccuracyRow, breakdown
from videomme_pipeline.scoring.statistics.estimates import MIN_P_VALUE, paired_difference

_FAILURE = re.compile(
    r"\s*(?:(?:none|null|nan|n/a|undefined)[.!]?\s*$|(?:all )?\d+ attempts failed"
    r"|failed to |(?:api |request |internal server )?(?:error|exception)\b|traceback \(most recent"
    r"|(?:request )?timed? ?out\b|<!doctype html|<html|\{\s*\"error\""
    r"|[45]\d\d (?:bad|client|forbidden|gateway|internal|not found|server|service|too|unauth))",
    re.IGNORECASE,
)
"""The beginning of a text that a program wrote when the model had not answered."""
_CANNOT = (
    r"unable to|cannot\b|can't|can not|not possible|impossible to|i(?:'m| am) (?:unable|sorry|not)"
    r"|i (?:cannot|can't|do not|don't)|sorry\b|there is (?:no|not)|insufficient|not enough"
    r"|the (?:video|frames?) (?:does|do|is|are)(?: not|n't)"
)
_REFUSAL = re.compile(rf"\W*([A-N])[.:),\s]+(?:{_CANNOT})", re.IGNORECASE)
_REFUSING_OPTION = re.compile(rf"\b(?:{_CANNOT})", re.IGNORECASE)
_SUBTITLES = re.compile(r"subtitles? (?:are|is) (?:listed|shown|below)|subtitles?:\s*\S", re.I)
_FEW_AT_LIMIT, _MIN_LIMIT = 5, 8
"""A token count that fewer answers share, or that is smaller, is not taken for a limit."""
_ONE_LETTER_SHARE, _FEW_ANSWERS = 0.98, 30
"""Fewer answers may all be one letter without an error of the model."""
_READER_SPREAD_POINTS = 1.0


class Severity(StrEnum):
    """The severity of a finding. An error makes the score of the run meaningless."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about a run, and its numbers.

    `chance` is the probability that chance produces such numbers in a run without the fault, or
    None if chance has no part in them. `Audit.findings` adds the id and the name of the run.
    """

    severity: Severity
    fact: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    chance: float | None = None
    finding: str = ""
    run: str = ""

    @property
    def by_chance(self) -> str:
        """`chance` as text, "" if it is None."""
        if self.chance is None:
            return ""
        return f"p {self.chance:.2g}" if self.chance >= MIN_P_VALUE else f"p < {MIN_P_VALUE}"


Key = tuple[str, int]
"""The id of a question, and the number of the repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFacts:
    """Facts about a results file that no score is computed from.

    `letters` are the letters that the file states, `prompts` the texts of the prompts. `copies`
    counts answers that are copies of another one, `contradictions` the questions with different
    answers that are not numbered. `hashes` counts the different hashes of documents, 0 if there are
    none. `left_out` are remarks about rows and files that were left out.
    """

    letters: Mapping[Key, Letter] = field(default_factory=dict)
    prompts: Mapping[Key, str] = field(default_factory=dict)
    copies: int = 0
    contradictions: int = 0
    hashes: int = 0
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AuditedRun:
    """The scored answers of one run, and the questions by their ids.

    `expected` is the number of questions that the run should have, or None if it is not known.
    """

    name: str
    benchmark: Benchmark
    questions: Mapping[str, Question]
    expected: int | None
    rows: Sequence[ScoredQuestion]
    stored: StoredFacts = field(default_factory=StoredFacts)

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(row.question_id for row in self.rows)

    @cached_property
    def texts(self) -> list[tuple[ScoredQuestion, str]]:
        """The answers with a text, and their texts."""
        return [(r, r.raw_output) for r in self.rows if r.raw_output and r.raw_output.strip()]

    @cached_property
    def readings(self) -> Mapping[ReaderName, Mapping[Key, Letter | None]]:
        """The letters that each reader that knows so many options reads from the texts."""
        readers = [
            reader
            for reader in ReaderName
            if len(self.benchmark.letters) <= 4 or not reader.startswith(ReaderName.OFFICIAL_V1)
        ]
        by_reader: dict[ReaderName, dict[Key, Letter | None]] = {name: {} for name in readers}
        for row, text in self.texts:
            question = self.questions[row.question_id]
            for reader, letters in by_reader.items():
                reading = read_answer(
                    reader, text, letters=question.letters, options=question.options
                )
                letters[row.question_id, row.repeat] = reading.letter
        return by_reader

    def accuracy(self, reader: ReaderName) -> float:
        """The share of all answers from which `reader` reads the correct letter."""
        letters = self.readings[reader]
        read = (letters.get((row.question_id, row.repeat)) for row in self.rows)
        right = zip(self.rows, read, strict=True)
        return fmean(outcome_of(row.answer, letter) is Outcome.CORRECT for row, letter in right)


class PublishedCell(NamedTuple):
    """Published accuracies in percent by the value of the first facet; `overall` is the total."""

    name: str
    accuracies: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Runs on one benchmark. `blind` is a run of the same model without frames."""

    runs: Sequence[AuditedRun]
    blind: AuditedRun | None = None
    published: Sequence[PublishedCell] = ()

    @cached_property
    def same(self) -> list[tuple[int, int, Sameness]]:
        """The pairs of runs with the same answers."""
        return [*same_pairs([run.rows for run in self.runs], requests_are_stored=False)]

    def findings(self) -> Iterator[Finding]:
        """Yield all findings, run by run."""
        for run in self.runs:
            for function in FINDINGS:
                for fact in function(run, self):
                    yield replace(fact, finding=function.__name__, run=run.name)


def same_answers(run: AuditedRun, audit: Audit) -> Iterator[Finding]:
    """Another run has the same answers, whatever their form."""
    for a, b, same in audit.same:
        if audit.runs[a] is run:
            yield Finding(
                Severity.ERROR,
                same_answers_fact(same, (run.name, audit.runs[b].name)),
                {"informative": same.informative, "different": same.different},
                same.p_value,
            )


def duplicated_ids(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Questions are answered several times, as after a run that was resumed."""
    copies, contradictions = run.stored.copies, run.stored.contradictions
    if contradictions:
        yield Finding(
            Severity.ERROR,
            f"{contradictions:,} questions have several different answers without a number; none "
            "of them counts here, and another tool may count any",
            {"contradictions": contradictions, "copies": copies},
        )
    elif copies:
        yield Finding(
            Severity.WARNING,
            f"{copies:,} answers are copies of another answer; a tool that counts rows has another "
            "denominator",
            {"copies": copies},
        )


def missing_questions(run: AuditedRun, audit: Audit) -> Iterator[Finding]:
    """The run does not have the questions that it should have."""
    declared = run.expected
    if declared is None:
        yield _unchecked("the benchmark does not declare how many questions it has")
    elif len(run.ids) != declared and not _is_whole(_shards_of(run, audit), declared):
        yield Finding(
            Severity.ERROR,
            f"{len(run.ids):,} of {declared:,} questions of {run.benchmark.name} are in the run",
            {"questions": len(run.ids), "declared": declared},
        )


def stored_failures(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Questions have no answer, or the text of an error in its place."""
    empty = sum(row.outcome is Outcome.FAILED for row in run.rows) - run.stored.contradictions
    texts = [text for row, text in run.texts if _is_failure(row, text)]
    if empty > 0 or texts:
        examples = (
            f": {listed([repr(text[:30]) for text in dict.fromkeys(texts)])}" if texts else ""
        )
        yield Finding(
            Severity.ERROR,
            f"{empty:,} answers are empty, and {len(texts):,} are texts of failures{examples}",
            {"empty": empty, "texts": len(texts), "answers": len(run.rows)},
        )


def guessed_letters(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """The file states letters that no reader finds in the texts, as after a random guess."""
    if not run.stored.letters:
        yield _unchecked("the run has no letters or scores beside its texts, so guesses are hidden")
        return
    guessed = [
        row
        for row, text in run.texts
        if (letter := run.stored.letters.get((row.question_id, row.repeat))) is not None
        and letter
        not in {read.get((row.question_id, row.repeat)) for read in run.readings.values()}
        and not _is_failure(row, text)
    ]
    if guessed:
        right = sum(run.stored.letters[r.question_id, r.repeat] == r.answer for r in guessed)
        expected = sum(1 / len(run.questions[row.question_id].options) for row in guessed)
        # The probability of so many right ones, or more, among random guesses.
        by_chance = float(scipy.special.bdtrc(right - 1, len(guessed), expected / len(guessed)))
        are_guesses = right == 0 or by_chance >= BIASED_P_VALUE
        yield Finding(
            Severity.ERROR if are_guesses else Severity.WARNING,
            f"{len(guessed):,} stated letters do not follow from their texts by any reader; "
            f"{right:,} of them are right, and {expected:.1f} of random guesses would be, so "
            + (
                "another scoring gives another score"
                if are_guesses
                else "a judge may have read them"
            )
            + f": {_ids(guessed)}",
            {"guessed": len(guessed), "right": right, "expected_right": expected},
            1.0 if right == 0 else by_chance,
        )


def reader_dependence(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Readers disagree about the score."""
    scores = {reader.value: 100 * run.accuracy(reader) for reader in run.readings}
    low, high = min(scores.values()), max(scores.values())
    if high > low:
        yield Finding(
            Severity.WARNING if high - low >= _READER_SPREAD_POINTS else Severity.NOTE,
            "the score depends on the reader: "
            + ", ".join(f"{name} {score:.1f}" for name, score in scores.items()),
            scores,
        )


def refusals(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Answers begin with a letter and then refuse to answer."""
    refused = [
        row
        for row, text in run.texts
        if (match := _REFUSAL.match(text))
        and not _is_refusing_option(run.questions[row.question_id], match[1].upper())
    ]
    if refused:
        right = sum(row.is_correct for row in refused)
        yield Finding(
            Severity.WARNING,
            f"{len(refused):,} answers begin with a letter and then say that the model cannot "
            f"answer; {right:,} of them count as right: {_ids(refused)}",
            {"refusals": len(refused), "right": right},
        )


def letter_bias(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """The letters of the answers are not distributed like the correct ones."""
    letters = compare_letters((r.answer, r.extracted_answer) for r in run.rows if not r.repeat)
    if letters is None or not letters.is_biased:
        return
    is_constant = letters.answers >= _FEW_ANSWERS and letters.commonest_share >= _ONE_LETTER_SHARE
    yield Finding(
        Severity.ERROR if is_constant else Severity.WARNING,
        ("nearly all answers are one letter; " if is_constant else "") + letters.summary,
        {"effect": letters.effect, "commonest_share": letters.commonest_share},
        letters.p_value,
    )


def truncation(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Answers end at a limit of tokens, or inside of the reasoning."""
    by_tokens = Counter(
        r.usage.completion_tokens for r, _ in run.texts if r.usage.completion_tokens
    )
    limit = max(by_tokens, default=0) or 0
    at_limit = by_tokens[limit] if limit >= _MIN_LIMIT else 0
    if at_limit < max(_FEW_AT_LIMIT, 0.005 * len(run.texts)) or at_limit > 0.9 * len(run.texts):
        at_limit = 0
    reported = sum(row.finish_reason in ("length", "max_tokens") for row, _ in run.texts)
    unfinished = sum(text.rfind("<think") > text.rfind("</think") for _, text in run.texts)
    if at_limit or reported or unfinished:
        yield Finding(
            Severity.WARNING,
            f"{reported:,} answers ended at the limit of tokens by their finish reason, "
            f"{at_limit:,} have exactly the largest number of tokens ({limit:,}), and "
            f"{unfinished:,} end inside of the reasoning",
            {"reported": reported, "at_limit": at_limit, "limit": limit, "unfinished": unfinished},
        )
    elif not by_tokens and not any(row.finish_reason for row in run.rows):
        yield _unchecked("the run has no token counts or finish reasons, so limits are hidden")


def shards(run: AuditedRun, audit: Audit) -> Iterator[Finding]:
    """The run is a part of a run in several files, whose numbers of documents start again."""
    parts = _shards_of(run, audit)
    if len(parts) > 1 and parts[0] is run:
        total = sum(len(part.ids) for part in parts)
        sizes = " + ".join(f"{len(part.ids):,}" for part in parts)
        yield Finding(
            Severity.NOTE,
            f"{', '.join(part.name for part in parts)} have {sizes} = {total:,} different "
            "questions and are probably one run; score them together",
            {"files": len(parts), "questions": total},
        )
    if run.stored.hashes == 1 and len(run.ids) > 1:
        yield Finding(
            Severity.NOTE,
            "all rows have the same `doc_hash`, so only the question id names a row",
            {"hashes": 1},
        )


def subtitles_in_prompts(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Prompts contain subtitles although the track has none, or only some contain them."""
    prompts = run.stored.prompts
    if not prompts:
        yield _unchecked("the run has no prompts, so subtitles cannot be checked")
        return
    count = sum(_SUBTITLES.search(prompt) is not None for prompt in prompts.values())
    if count:
        track = run.rows[0].track
        severity = Severity.NOTE if is_with_subtitles(track) else Severity.WARNING
        yield Finding(
            Severity.ERROR if track.endswith("without_subtitles") else severity,
            f"{count:,} of {len(prompts):,} prompts contain subtitles (track: {track})",
            {"with_subtitles": count, "prompts": len(prompts)},
        )


def published_cell(run: AuditedRun, audit: Audit) -> Iterator[Finding]:
    """The right answers by the first facet, and the published values that they reproduce."""
    facet = next(iter(run.benchmark.shown_facets), None)
    parts = {row.values[0]: row for row in breakdown(run.rows, [facet])} if facet else {}
    if facet is None or len(parts) < 2:
        yield _unchecked("the run has no facet whose right answers are a fingerprint")
        return
    shown = " + ".join(f"{row.correct:,} of {row.responses:,}" for row in parts.values())
    yield Finding(
        Severity.NOTE,
        f"right answers by {facet.title.lower()} ({', '.join(parts)}): {shown}",
        {value: row.correct for value, row in parts.items()},
    )
    parts |= {"overall": breakdown(run.rows, [])[0]}
    for cell in audit.published:
        shared = {value: parts[value] for value in cell.accuracies if value in parts}
        if len(shared) < 3 or not all(
            _reproduces(row, cell.accuracies[value]) for value, row in shared.items()
        ):
            continue
        # Two such runs have the same rounded value with about this probability.
        errors = [100 * sqrt(2) * (row.standard_error or 1) for row in shared.values()]
        same = prod(min(1, 0.1 / (error * sqrt(tau))) for error in errors[1:])
        yield Finding(
            Severity.NOTE,
            f"all of these are the published values of {cell.name}",
            dict(cell.accuracies),
            min(1.0, len(audit.published) * same),
        )


def same_as_blind(run: AuditedRun, audit: Audit) -> Iterator[Finding]:
    """The same model answers no better with frames than without."""
    if audit.blind is None:
        yield _unchecked("no blind run is given (--blind), so it is unknown if the frames matter")
        return
    blind = {(row.question_id, row.repeat): row for row in audit.blind.rows}
    pairs = [
        (row, blind[key]) for row in run.rows if (key := (row.question_id, row.repeat)) in blind
    ]
    if not pairs:
        yield _unchecked("the blind run has other questions")
        return
    paired = paired_difference(
        [row.is_correct for row, _ in pairs],
        [other.is_correct for _, other in pairs],
        [row.video_id for row, _ in pairs],
    )
    difference = paired.difference.mean
    if difference <= 0 or paired.p_value >= 0.05:
        yield Finding(
            Severity.WARNING,
            f"{100 * difference:+.1f} points compared with the blind run {audit.blind.name} on "
            f"{len(pairs):,} answers (p {paired.p_value:.2g}), so the frames made no difference",
            {"difference": 100 * difference, "p_value": paired.p_value},
            paired.p_value,
        )


def left_out(run: AuditedRun, _audit: Audit) -> Iterator[Finding]:
    """Files of the run, or rows of its files, cannot be used."""
    for remark in run.stored.left_out:
        yield Finding(Severity.NOTE, remark)


FINDINGS: Sequence[Callable[[AuditedRun, Audit], Iterator[Finding]]] = (
    same_answers,
    duplicated_ids,
    missing_questions,
    stored_failures,
    guessed_letters,
    reader_dependence,
    refusals,
    letter_bias,
    truncation,
    shards,
    subtitles_in_prompts,
    published_cell,
    same_as_blind,
    left_out,
)
"""All findings, in the order in which they are shown."""


def _unchecked(reason: str) -> Finding:
    return Finding(Severity.NOTE, f"not checked: {reason}")


def _ids(rows: Sequence[ScoredQuestion]) -> str:
    return listed([row.question_id for row in rows])


def _shards_of(run: AuditedRun, audit: Audit) -> list[AuditedRun]:
    """The runs without common questions that make up no more than the benchmark; one is `run`."""
    declared = run.expected
    if declared is None or len(run.ids) >= declared:
        return [run]
    parts: list[AuditedRun] = []
    for other in audit.runs:
        is_small = sum(len(part.ids) for part in (*parts, other)) <= declared
        if is_small and all(other.ids.isdisjoint(part.ids) for part in parts):
            parts.append(other)
    return parts if any(part is run for part in parts) else [run]


def _is_whole(parts: Sequence[AuditedRun], declared: int) -> bool:
    return sum(len(part.ids) for part in parts) == declared


def _is_failure(row: ScoredQuestion, text: str) -> bool:
    """True if a program wrote `text`, and it is not the text of an option."""
    return row.extracted_answer is None and _FAILURE.match(text) is not None


def _is_refusing_option(question: Question, letter: str) -> bool:
    """True if the option itself says that something is not possible or not there."""
    options = dict(zip(question.letters, question.options, strict=True))
    text = options.get(Letter(letter))
    return text is None or _REFUSING_OPTION.search(text) is not None


def _reproduces(row: AccuracyRow, percent: float) -> bool:
    """True if the accuracy, or that of the answers with a letter, is `percent` after rounding."""
    shares = (row.accuracy, row.accuracy_of_answered)
    return any(share is not None and abs(100 * share - percent) <= 0.0501 for share in shares)
