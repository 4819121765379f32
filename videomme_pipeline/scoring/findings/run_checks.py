"""The checks of any run and of results files: what anyone who cites a score should know."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod, sqrt, tau
from operator import eq
from statistics import fmean

import scipy  # submodules are imported on first use

from videomme_pipeline.benchmarks.question import Letter, Question, split_option
from videomme_pipeline.errors import Finding, Status, listed
from videomme_pipeline.scoring.findings.reader_scores import Part, ReaderScores, scores_by_reader
from videomme_pipeline.scoring.findings.run import (
    ACCURACY,
    GROUP_SCORE,
    OVERALL,
    PublishedCell,
    Run,
    Runs,
)
from videomme_pipeline.scoring.findings.sameness import MIN_INFORMATIVE, Sameness
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.breakdowns import breakdown
from videomme_pipeline.scoring.statistics.compare import changed_settings
from videomme_pipeline.scoring.statistics.estimates import clustered_mean, paired_difference

_CANNOT = (
    r"unable to|cannot\b|can't|can not|not possible|impossible to|i(?:'m| am) (?:unable|sorry|not)"
    r"|i (?:cannot|can't|do not|don't)|sorry\b|there is (?:no|not)|insufficient|not enough"
    r"|the (?:video|frames?) (?:does|do|is|are)(?: not|n't)"
)
_REFUSAL = re.compile(rf"\W*([A-N])[.:),\s]+(?:{_CANNOT})", re.IGNORECASE)
_REFUSING_OPTION = re.compile(rf"\b(?:{_CANNOT})", re.IGNORECASE)
_BIASED_EFFECT, _BIASED_P_VALUE = 0.3, 0.001
"""Smallest effect size (Cohen's w, √(chi-square / n)) and largest p-value that are reported."""
_FEW_AT_LIMIT, _MIN_LIMIT = 5, 8
"""A token count that fewer answers share, or that is smaller, is not taken for a limit."""
_ONE_LETTER_SHARE, _FEW_ANSWERS = 0.98, 30
"""Fewer answers may all be one letter without an error of the model."""
_WORDS = 10
"""A text with fewer words may be an answer without a full stop."""
_MOST_OF_A_LETTER = 4
"""Characters of a response that is a letter only, such as `(B).`."""
_READER_SPREAD_POINTS = 1.0
_LARGEST_ERROR, _TOO_ACCURATE = 0.03, 0.98
"""Above this standard error, an accuracy near guessing proves nothing. Experts: 95% of v2."""
_MISPLACED_P_VALUE = 1e-6
_SHOWN_SETTINGS = frozenset({"sampling", "alignment", "template"})
"""Settings that change what the model is shown. Others may have no effect for a good reason: one
model under two names, or a token limit that no answer reaches."""


def sameness(run: Run, runs: Runs) -> Iterator[Finding]:
    """No run with other settings has the same answers, whatever their form."""
    others = len(runs.runs) - 1
    if not others:
        return
    same = runs.same[run.name]
    copies = _runs_with_the_same_texts(run, runs)
    are_stored = any(row.request_fingerprint for row in run.answered)
    if same:
        yield _same_answers(run, same)
    elif copies:
        names = [other.name for other in runs.runs]
        if names.index(run.name) < names.index(copies[0]):
            yield Finding(
                Status.ERROR,
                f"the same text in all {len(run.texts):,} responses: {listed(copies, len(copies))}",
                "cite only one of these scores",
            )
    elif run.is_evaluation and run.answered and not are_stored:
        summary = "the fingerprints of its requests are not stored"
        yield Finding(Status.UNKNOWN, summary, f"{run.run_again}; no question is asked again")
    elif not run.is_evaluation and len(run.answered) < MIN_INFORMATIVE:
        yield _unchecked(
            f"{len(run.answered):,} answers are too few ({MIN_INFORMATIVE} are needed) to tell "
            "copies with other texts from chance"
        )
    else:
        yield Finding(Status.OK, f"none of {others:,} others has provably the same answers")


def duplicated_ids(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Questions are answered several times, as after a run that was resumed."""
    copies, contradictions = run.stored.copies, run.stored.contradictions
    if contradictions:
        yield Finding(
            Status.ERROR,
            f"{contradictions:,} questions have several different answers without a number; none "
            "of them counts here, and another tool may count any",
            numbers={"contradictions": contradictions, "copies": copies},
        )
    elif copies:
        yield Finding(
            Status.WARNING,
            f"{copies:,} answers are copies of another answer; a tool that counts rows has another "
            "denominator",
            numbers={"copies": copies},
        )


def missing_questions(run: Run, _runs: Runs) -> Iterator[Finding]:
    """The run does not have the questions that it should have: all, or all of some durations."""
    size, part, declared = run.benchmark.size, "", run.benchmark.size.questions
    if declared is None:
        yield _unchecked("the benchmark does not declare how many questions it has")
        return
    for column, videos in size.videos_by.items():
        values = run.benchmark.facet(column).values or ()
        of_rows = {row.facets.get(column) for row in run.rows}
        present = [value for value in values if value in of_rows]
        if size.questions_per_video and 0 < len(present) < len(values):
            part = f"{' and '.join(map(str, present))} "
            declared = len(present) * videos * size.questions_per_video
    of_declared = f"{len(run.ids):,} of {declared:,} {part}questions of {run.benchmark.name}"
    numbers = {"questions": len(run.ids), "declared": declared}
    if len(run.ids) != declared:
        yield Finding(
            Status.ERROR,
            f"{of_declared} are in the run",
            "if other files have the rest, name them together: their folder, or a quoted pattern",
            numbers=numbers,
        )
    elif part:
        yield Finding(Status.NOTE, f"{of_declared} are in the run, and no others", numbers=numbers)


def stored_failures(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Questions have no answer, or the text of an error in its place."""
    if run.is_evaluation:  # `answers` counts them
        return
    texts = [*run.stored.failures.values()]
    failed = sum(row.outcome is Outcome.FAILED for row in run.rows)
    empty = failed - run.stored.contradictions - len(texts)
    if empty > 0 or texts:
        examples = listed([repr(text[:40]) for text in dict.fromkeys(texts)])
        yield Finding(
            Status.ERROR,
            f"{empty:,} answers are empty, and {len(texts):,} are texts of failures"
            + (f": {examples}" if texts else ""),
            numbers={"empty": empty, "texts": len(texts), "answers": len(run.rows)},
        )


def guessed_letters(run: Run, _runs: Runs) -> Iterator[Finding]:
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
    ]
    if guessed:
        right = sum(run.stored.letters[r.question_id, r.repeat] == r.answer for r in guessed)
        expected = sum(1 / len(run.questions[row.question_id].options) for row in guessed)
        # The probability of so many right ones, or more, among random guesses.
        by_chance = float(scipy.special.bdtrc(right - 1, len(guessed), expected / len(guessed)))
        status, conclusion = Status.WARNING, "a judge may have read them"
        if right == 0 or by_chance >= _BIASED_P_VALUE:
            status, conclusion = Status.ERROR, "another scoring gives another score"
        yield Finding(
            status,
            f"{len(guessed):,} stated letters do not follow from their texts by any reader; "
            f"{right:,} of them are right, and {expected:.1f} of random guesses would be, so "
            f"{conclusion}: {listed([row.question_id for row in guessed])}",
            numbers={"guessed": len(guessed), "right": right, "expected_right": expected},
            chance=1.0 if right == 0 else by_chance,
        )


def reader_dependence(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Readers disagree about the score."""
    scores = {scores.reader.value: scores.headline for scores in scores_by_reader(run)}
    low, high = min(scores.values()), max(scores.values())
    if high > low:
        yield Finding(
            Status.WARNING if high - low >= _READER_SPREAD_POINTS else Status.NOTE,
            "the score depends on the reader: "
            + ", ".join(f"{name} {score:.1f}" for name, score in scores.items()),
            numbers=scores,
        )


def implausible_accuracy(run: Run, _runs: Runs) -> Iterator[Finding]:
    """The accuracy is that of guessing, or higher than that of any person."""
    rows = [row for row in run.rows if row.extracted_answer is not None]
    if len(rows) < _FEW_ANSWERS:
        return
    estimate = clustered_mean([row.is_correct for row in rows], [row.video_id for row in rows])
    guessed = fmean(1 / len(run.questions[row.question_id].options) for row in rows)
    accuracy, error = estimate.mean, estimate.standard_error or 1
    summary = f"{100 * accuracy:.1f}% of {len(rows):,} answers with a letter are right"
    numbers = {"accuracy": 100 * accuracy, "guessed": 100 * guessed}
    if abs(accuracy - guessed) <= 2 * error and error <= _LARGEST_ERROR:
        advice = "see that answers belong to their questions, and that the model saw the frames"
        summary = f"{summary}, as if guessed ({numbers['guessed']:.1f}%)"
        yield Finding(Status.WARNING, summary, advice, numbers)
    elif accuracy >= _TOO_ACCURATE:
        advice = "see that the model was not shown the keys"
        yield Finding(Status.WARNING, f"{summary}, more than of any person", advice, numbers)


def misplaced_answers(run: Run, _runs: Runs) -> Iterator[Finding]:
    """The letters fit the keys of other rows, or the reversed letters, better than their own keys.

    The probability is that of as many matches, or more, between unrelated letters.
    """
    rows = [row for row in run.rows if row.extracted_answer is not None and not row.repeat]
    given, keys = [row.extracted_answer for row in rows], [row.answer for row in rows]
    letters = [run.questions[row.question_id].letters for row in rows]
    reversed_keys = [of[::-1][of.index(key)] for of, key in zip(letters, keys, strict=True)]
    fits = {"with the letters in reversed order": reversed_keys}
    for apart, what in ((1, "one row"), (2, "two rows"), (3, "three rows")):
        fits[f"{what} above"] = keys[-apart:] + keys[:-apart]
        fits[f"{what} below"] = keys[apart:] + keys[:apart]
    own, right = sum(map(eq, given, keys)), {w: sum(map(eq, given, k)) for w, k in fits.items()}
    where = max(right, key=right.__getitem__)
    by_chance = sum(given.count(key) * keys.count(key) for key in {*keys}) / max(len(rows), 1) ** 2
    p_value = float(scipy.special.bdtrc(right[where] - 1, len(rows), by_chance))
    if right[where] > own and p_value < _MISPLACED_P_VALUE:
        yield Finding(
            Status.ERROR,
            f"{right[where]:,} of {len(rows):,} letters fit the keys {where}, and {own:,} their "
            "own keys",
            "join answers and questions by their ids",
            numbers={"own": own, "other": right[where]},
            chance=p_value,
        )


def contradictory_options(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Answers name a letter with the text of another option, as if the options were changed."""
    named, other = 0, list[str]()
    for row, text in run.texts:
        question = run.questions[row.question_id]
        letter, option = split_option(text.strip())
        options = [question.option_text(own).strip(" .").lower() for own in question.letters]
        if letter in question.letters and options.count(option.strip(" .").lower()) == 1:
            named += 1
            if question.letters[options.index(option.strip(" .").lower())] != letter:
                other.append(row.question_id)
    if len(other) >= max(_FEW_AT_LIMIT, 0.1 * named):
        yield Finding(
            Status.ERROR,
            f"{len(other):,} of {named:,} answers with a letter and an option have the text of "
            f"another letter: {listed(other)}",
            "use the options, in the order, that the model was shown",
            numbers={"named": named, "contradictory": len(other)},
        )


def differences(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Questions, options or keys of the file differ from the dataset."""
    for difference in run.stored.differences:
        yield Finding(Status.ERROR, difference)


def refusals(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Answers begin with a letter and then refuse to answer."""
    refused = [
        row
        for row, text in run.texts
        if (match := _REFUSAL.match(text))
        and not _is_refusing_option(run.questions[row.question_id], match[1].upper())
    ]
    if refused:
        right = sum(row.is_correct for row in refused)
        examples = listed([row.question_id for row in refused])
        yield Finding(
            Status.WARNING,
            f"{len(refused):,} answers begin with a letter and then say that the model cannot "
            f"answer; {right:,} of them count as right: {examples}",
            numbers={"refusals": len(refused), "right": right},
        )


def letters(run: Run, _runs: Runs) -> Iterator[Finding]:
    """The letters of the answers are distributed like the correct ones, by a chi-square test.

    An evaluation without frames is not checked, because a model that sees nothing has to guess.
    """
    if run.is_evaluation and not any(row.num_frames for row in run.answered):
        return
    # Repeats of a question are not independent.
    rows = [row for row in run.answered if row.extracted_answer is not None and not row.repeat]
    if not rows:
        return
    correct = Counter(row.answer for row in rows)
    given = Counter(row.extracted_answer for row in rows if row.extracted_answer is not None)
    letters = sorted(correct.keys() | given.keys())
    # A letter that is never correct is expected in less than one answer.
    expected = {letter: max(correct[letter], 0.5) for letter in letters}
    chi_square = sum((given[key] - count) ** 2 / count for key, count in expected.items())
    effect = (chi_square / len(rows)) ** 0.5
    p_value = float(scipy.special.chdtrc(max(len(letters) - 1, 1), chi_square))
    percent = 100 / len(rows)
    shares = ", ".join(
        f"{key} {percent * given[key]:.0f}% ({percent * correct[key]:.0f}%)" for key in letters
    )
    summary = (
        f"letters of {len(rows):,} answers (correct ones): {shares}; effect size {effect:.2f}, "
        f"p {p_value:.2g}"
    )
    if p_value >= _BIASED_P_VALUE or effect < _BIASED_EFFECT:
        yield Finding(Status.OK, summary)
        return
    commonest_share = max(given.values()) / len(rows)
    is_constant = len(rows) >= _FEW_ANSWERS and commonest_share >= _ONE_LETTER_SHARE
    yield Finding(
        Status.ERROR if is_constant else Status.WARNING,
        ("nearly all answers are one letter; " if is_constant else "") + summary,
        "read some responses: the model prefers letters, or the reader misreads its answers",
        numbers={"effect": effect, "commonest_share": commonest_share},
        chance=p_value,
    )


def truncation(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Answers end at a limit of tokens, or inside of the reasoning."""
    tokens = [row.usage.completion_tokens or 0 for row, _ in run.texts]
    limit = max(tokens, default=0)
    at_limit = tokens.count(limit) if limit >= _MIN_LIMIT else 0
    if at_limit < max(_FEW_AT_LIMIT, 0.005 * len(run.texts)) or at_limit > 0.9 * len(run.texts):
        at_limit = 0
    reported = sum(row.finish_reason in ("length", "max_tokens") for row, _ in run.texts)
    unfinished = sum(text.rfind("<think") > text.rfind("</think") for _, text in run.texts)
    cut = sum(row.extracted_answer is None and _is_cut(text) for row, text in run.texts)
    if at_limit or reported or unfinished or cut >= _FEW_AT_LIMIT:
        yield Finding(
            Status.WARNING,
            f"{reported:,} answers ended at the limit of tokens by their finish reason, "
            f"{at_limit:,} have exactly the largest number of tokens ({limit:,}), "
            f"{unfinished:,} end inside of the reasoning, and {cut:,} without a letter end inside "
            "of a sentence",
            numbers={
                "reported": reported,
                "at_limit": at_limit,
                "limit": limit,
                "unfinished": unfinished,
                "cut": cut,
            },
        )
    elif not limit and not any(row.finish_reason for row in run.rows):
        yield _unchecked("the run has no token counts or finish reasons, so limits are hidden")


def same_as_blind(run: Run, runs: Runs) -> Iterator[Finding]:
    """The same model answers no better with frames than without."""
    if runs.blind is None:
        yield _unchecked("no blind run is given (--blind), so it is unknown if the frames matter")
        return
    blind = {(row.question_id, row.repeat): row for row in runs.blind.rows}
    pairs = [(r, blind[key]) for r in run.rows if (key := (r.question_id, r.repeat)) in blind]
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
            Status.WARNING,
            f"{100 * difference:+.1f} points compared with the blind run {runs.blind.name} on "
            f"{len(pairs):,} answers (p {paired.p_value:.2g}), so the frames made no difference",
            numbers={"difference": 100 * difference, "p_value": paired.p_value},
            chance=paired.p_value,
        )


def left_out(run: Run, _runs: Runs) -> Iterator[Finding]:
    """Files of the run, or rows of its files, cannot be used."""
    for remark in run.stored.left_out:
        yield Finding(Status.NOTE, remark)


def published_cell(run: Run, runs: Runs) -> Iterator[Finding]:
    """The right answers by the first facet, and the published values that they reproduce.

    For a benchmark with groups, it is the group score and the accuracy by every reader.
    """
    if run.benchmark.grouping is not None:
        by_reader = scores_by_reader(run)
        yield Finding(Status.NOTE, _group_scores(by_reader, runs.published))
        for scores in by_reader:
            yield from _published_cells(scores.parts, runs, f", read by {scores.reader}")
        return
    facet = next(iter(run.benchmark.shown_facets), None)
    rows = {row.values[0]: row for row in breakdown(run.rows, [facet])} if facet else {}
    if facet is None or len(rows) < 2:
        yield _unchecked("the run has no facet whose right answers are a fingerprint")
        return
    shown = " + ".join(f"{row.correct:,} of {row.responses:,}" for row in rows.values())
    yield Finding(
        Status.NOTE,
        f"right answers by {facet.title.lower()} ({', '.join(rows)}): {shown}",
        numbers={value: row.correct for value, row in rows.items()},
    )
    rows |= {OVERALL: breakdown(run.rows, [])[0]}
    yield from _published_cells({name: Part.of(row) for name, row in rows.items()}, runs)


def _group_scores(by_reader: Sequence[ReaderScores], cells: Sequence[PublishedCell]) -> str:
    """Group score and accuracy by every reader, each with the published cells that it equals."""
    sentences = []
    for name in (GROUP_SCORE, ACCURACY):
        readers: dict[str, list[str]] = {}
        for scores in by_reader:
            equal = scores.published_as(name, cells)
            score = scores.score(name)
            value = "none" if score is None else f"{score:.2f}"
            value += f" (equal to {listed(equal)})" if equal else ""
            readers.setdefault(value, []).append(scores.reader)
        values = "; ".join(f"{', '.join(names)} {value}" for value, names in readers.items())
        sentences.append(f"{name.replace('_', ' ')} by reader: {values}")
    return ". ".join(sentences)


def _published_cells(parts: Mapping[str, Part], runs: Runs, by: str = "") -> Iterator[Finding]:
    """Yield a finding for each published cell of which at least three parts, and all, are equal."""
    for cell in runs.published:
        shared = {name: parts[name] for name in cell.parts if name in parts}
        if len(shared) < 3 or not all(p.equals(cell.parts[name]) for name, p in shared.items()):
            continue
        # Two such runs have the same rounded value with about this probability.
        errors = [sqrt(2) * (part.standard_error or 100) for part in shared.values()]
        same = prod(min(1, 0.1 / (error * sqrt(tau))) for error in errors[1:])
        yield Finding(
            Status.NOTE,
            f"all of these are the published values of {cell.name}{by}",
            numbers=dict(cell.parts),
            chance=min(1.0, len(runs.published) * same),
        )


def _unchecked(reason: str) -> Finding:
    return Finding(Status.UNKNOWN, f"not checked: {reason}")


def _same_answers(run: Run, same: Sequence[tuple[Run, Sameness]]) -> Finding:
    """The finding about a run, and the runs with the same answers."""
    least = max((compared for _, compared in same), key=lambda compared: compared.p_value)
    sentences, is_error, unknown = [], False, []
    advice = "cite only one of these scores"
    for other, compared in same:
        if run.specification is None or other.specification is None:
            unknown.append(other.name)
            continue
        changed = changed_settings(run.specification, other.specification)
        settings = {setting.key.partition(".")[0] for setting in changed}
        is_error |= bool(_SHOWN_SETTINGS & settings)
        advice = (
            "see that the endpoint used what was sent (frames, subtitles), and that no responses "
            "were copied; cite only one of these scores"
        )
        sentences.append(
            f"{other.name} has {compared.fact}, although other settings were used "
            f"({', '.join(sorted(settings)) or 'other requests'})"
        )
    if unknown:
        has = "has" if len(unknown) == 1 else "have"
        sentences.append(f"{', '.join(unknown)} {has} {least.fact}, so they are probably one run")
    return Finding(
        Status.ERROR if is_error or unknown else Status.WARNING,
        "; ".join(sentences),
        advice,
        numbers={"informative": least.informative, "different": least.different},
        chance=least.p_value,
    )


def _runs_with_the_same_texts(run: Run, runs: Runs) -> list[str]:
    """The other runs whose responses have the same texts. Equal letters alone prove nothing."""
    texts = {(row.question_id, row.repeat): text for row, text in run.texts}
    if not any(len(text.strip()) > _MOST_OF_A_LETTER for text in texts.values()):
        return []
    return [
        other.name
        for other in runs.runs
        if other is not run
        and not (run.is_evaluation and other.is_evaluation)
        and texts == {(row.question_id, row.repeat): text for row, text in other.texts}
    ]


def _is_cut(text: str) -> bool:
    """True if a text of several words ends without a mark, such as "…and walks towards the"."""
    last = text.rstrip()[-1:]
    return len(text.split(maxsplit=_WORDS)) >= _WORDS and (last.isalnum() or last == ",")


def _is_refusing_option(question: Question, letter: str) -> bool:
    options = dict(zip(question.letters, question.options, strict=True))
    text = options.get(Letter(letter))
    return text is None or _REFUSING_OPTION.search(text) is not None
