"""The comparison of two evaluations on the same questions: changes, errors and tests.

Benchmarks with groups are compared by group, others by question, both clustered by video. Only
questions that both sides answered are compared, so that failed requests do not look like wrong
answers. Failed questions are listed separately.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from videomme_pipeline.benchmarks.facets import Facets, Measure
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError, listed
from videomme_pipeline.scoring.scored_question import UNKNOWN_TRACK, Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics import estimates
from videomme_pipeline.scoring.statistics.groups import score_groups

FALSE_DISCOVERY_RATE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginal:
    """The comparison on one value of one facet.

    `significant` is the decision after Benjamini–Hochberg correction (1995) over all marginals.
    `n` is the number of compared questions, or groups. Repeats are no further ones.
    """

    column: str
    value: str
    n: int
    accuracy_a: float
    accuracy_b: float
    difference: estimates.PairedDifference
    adjusted_p_value: float
    significant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting that differs. A side without the setting has None."""

    key: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Evaluation `b` compared with evaluation `a`. All differences are `b` minus `a`.

    `n` is the number of compared questions. `accuracy` compares questions. `mean_over` compares the
    headline metric if it is a mean over the values of a facet. `group_score` (in points of 100)
    compares groups if there are any, and then the marginals compare groups too. The other fields
    contain question ids: `won` are right only in `b`, `lost` only in `a`, and `different` have
    another letter or outcome. `failed` have no answer on one side or both and count in no
    difference. `only_a` and `only_b` have no counterpart.
    """

    evaluation_a: str
    evaluation_b: str
    n: int
    accuracy_a: estimates.Estimate
    accuracy_b: estimates.Estimate
    accuracy: estimates.PairedDifference
    group_score: estimates.PairedDifference | None
    mean_over: estimates.PairedDifference | None
    flip_rate: estimates.Estimate
    marginals: tuple[Marginal, ...]
    won: tuple[str, ...]
    lost: tuple[str, ...]
    different: tuple[str, ...]
    failed: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed_settings: tuple[ChangedSetting, ...]

    @property
    def unanswered(self) -> frozenset[str]:
        """The questions without an answer on one side: `failed`, `only_a` and `only_b`."""
        return frozenset((*self.failed, *self.only_a, *self.only_b))

    @property
    def same_answers(self) -> bool:
        """True if both have the same questions, and the same letter or failure for each."""
        return not (self.different or self.only_a or self.only_b)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A compared question or group with its id, and the values of its facets."""

    unit_id: str
    video_id: str
    labels: Mapping[str, str]
    a: float
    b: float


def compare(
    rows_a: Sequence[ScoredQuestion],
    rows_b: Sequence[ScoredQuestion],
    *,
    specification_a: Mapping[str, object] | None = None,
    specification_b: Mapping[str, object] | None = None,
) -> Comparison:
    """Compare evaluation `b` with evaluation `a`, each given by its rows in any order.

    Repeats of a question are compared with each other one by one. If only one side has repeats,
    each of them is compared with the same answer of the other side, so their mean counts.

    Raises:
        ScoringError: if they are of different benchmarks (or splits), if no question was answered
            in both, if one side has duplicate rows or rows of several evaluations, or if the tracks
            differ and something else, too.
    """
    _require_comparable(rows_a, rows_b)
    by_key_a = _by_question(_repeated_like(rows_b, rows_a))
    by_key_b = _by_question(_repeated_like(rows_a, rows_b))
    shared = [key for key in by_key_a if key in by_key_b]
    pairs = [(by_key_a[key], by_key_b[key]) for key in shared]
    answered = [(a, b) for a, b in pairs if Outcome.FAILED not in (a.outcome, b.outcome)]
    if not answered:
        raise ScoringError(
            f"{rows_a[0].evaluation if rows_a else 'a'} and "
            f"{rows_b[0].evaluation if rows_b else 'b'}: no question was answered in both "
            f"({len(by_key_a)} and {len(by_key_b)} rows, {len(shared)} shared); compare "
            "evaluations of the same benchmark that have answers"
        )
    differing = [(a, b) for a, b in pairs if a.answer != b.answer]
    if differing:
        keys = [f"{a.question_id} ({a.answer}, {b.answer})" for a, b in differing]
        raise ScoringError(
            f"{len(keys):,} questions have different right answers in {rows_a[0].evaluation} and "
            f"{rows_b[0].evaluation}: {listed(keys)}; give the dataset with --annotations"
        )
    videos = [a.video_id for a, _ in answered]
    questions = len({a.question_id for a, _ in answered})
    right_a = [a.is_correct for a, _ in answered]
    right_b = [b.is_correct for _, b in answered]
    accuracy_a, accuracy_b = (
        estimates.with_accuracy_interval(estimates.clustered_mean(right, videos), questions)
        for right in (right_a, right_b)
    )
    benchmark = find_benchmark(rows_a[0].benchmark)
    groups = _group_units(answered, benchmark.tested_facets(Measure.GROUP_SCORE))
    step = 100 / benchmark.grouping.units if groups and benchmark.grouping else None
    tested = benchmark.tested_facets(Measure.ACCURACY)
    units = groups or [
        _Unit(a.question_id, a.video_id, _labels(a.facets, tested), a.is_correct, b.is_correct)
        for a, b in answered
    ]
    return Comparison(
        evaluation_a=rows_a[0].evaluation,
        evaluation_b=rows_b[0].evaluation,
        n=questions,
        accuracy_a=accuracy_a,
        accuracy_b=accuracy_b,
        accuracy=estimates.paired_difference(right_b, right_a, videos),
        group_score=_difference(groups, step) if groups else None,
        mean_over=_mean_over(answered, benchmark.mean_of),
        flip_rate=estimates.clustered_mean([_answer(a) != _answer(b) for a, b in answered], videos),
        marginals=_marginals(units, step),
        won=_ids(a for a, b in answered if b.is_correct and not a.is_correct),
        lost=_ids(a for a, b in answered if a.is_correct and not b.is_correct),
        different=_ids(a for a, b in pairs if _answer(a) != _answer(b)),
        failed=_ids(a for a, b in pairs if Outcome.FAILED in (a.outcome, b.outcome)),
        only_a=_ids(row for key, row in by_key_a.items() if key not in by_key_b),
        only_b=_ids(row for key, row in by_key_b.items() if key not in by_key_a),
        changed_settings=changed_settings(specification_a or {}, specification_b or {}),
    )


def _require_comparable(rows_a: Sequence[ScoredQuestion], rows_b: Sequence[ScoredQuestion]) -> None:
    """Check that both are of one benchmark, and of one track or differ only in their subtitles."""
    both = (*rows_a[:1], *rows_b[:1])
    names = {row.benchmark for row in both}
    if len(names) > 1:
        headlines = {find_benchmark(name).headline for name in names}
        metric = ", and their headline metrics differ" if len(headlines) > 1 else ""
        raise ScoringError(
            f"{rows_a[0].evaluation} is of {rows_a[0].benchmark} and {rows_b[0].evaluation} of "
            f"{rows_b[0].benchmark}: different benchmarks or splits have different "
            f"questions{metric}; compare evaluations of one benchmark (`videomme scores` shows "
            "several benchmarks side by side)"
        )
    tracks = {row.track for row in both} - {UNKNOWN_TRACK}
    pairings = {row.pairing for row in both}
    if len(tracks) > 1 and (len(pairings) > 1 or None in pairings):
        a, b = (f"{row.evaluation} is {row.track.replace('_', ' ')}" for row in both)
        raise ScoringError(
            f"{a} and {b}: they are of different tracks and differ in other settings too, so their "
            "difference has several causes; compare evaluations of one track, or two that differ "
            "only in `subtitles`"
        )


def changed_settings(
    a: Mapping[str, object], b: Mapping[str, object]
) -> tuple[ChangedSetting, ...]:
    """The settings that differ, in order of first appearance, with dotted keys if nested.

    Limits and prices are left out, because they change no answer.
    """
    flat_a, flat_b = dict(_flat(a)), dict(_flat(b))
    return tuple(
        ChangedSetting(key=key, a=flat_a.get(key), b=flat_b.get(key))
        for key in dict.fromkeys((*flat_a, *flat_b))
        if flat_a.get(key) != flat_b.get(key)
        and not key.startswith(("model.limits.", "model.prices."))
    )


def _repeated_like(
    others: Sequence[ScoredQuestion], rows: Sequence[ScoredQuestion]
) -> Sequence[ScoredQuestion]:
    """`rows` without repeats, once for each repeat of `others`. Rows with repeats are unchanged."""
    repeats = {row.repeat for row in others}
    if len(repeats) < 2 or any(row.repeat for row in rows):
        return rows
    return [replace(row, repeat=repeat) for repeat in sorted(repeats) for row in rows]


def _by_question(rows: Sequence[ScoredQuestion]) -> dict[tuple[str, int], ScoredQuestion]:
    by_key = {(row.question_id, row.repeat): row for row in rows}
    evaluations = {(row.benchmark, row.evaluation) for row in rows}
    if len(evaluations) > 1:
        raise ScoringError(f"one side has rows of several evaluations: {sorted(evaluations)}")
    if len(by_key) != len(rows):
        keys = Counter((row.question_id, row.repeat) for row in rows)
        question_id, repeat = keys.most_common(1)[0][0]
        raise ScoringError(f"question {question_id} (repeat {repeat}) occurs twice on one side")
    return by_key


def _labels(facets: Facets, columns: Sequence[str]) -> dict[str, str]:
    return {column: str(facets[column]) for column in columns if column in facets}


def _mean_over(
    pairs: Sequence[tuple[ScoredQuestion, ScoredQuestion]], facet: str | None
) -> estimates.PairedDifference | None:
    """The difference of the means over the values of `facet`, which all have the same weight."""
    labelled = [pair for pair in pairs if facet in pair[0].facets]
    if facet is None or not labelled:
        return None
    weights = estimates.balanced_weights([a.facets[facet] for a, _ in labelled])
    return estimates.paired_difference(
        [weight * b.is_correct for weight, (_, b) in zip(weights, labelled, strict=True)],
        [weight * a.is_correct for weight, (a, _) in zip(weights, labelled, strict=True)],
        [a.video_id for a, _ in labelled],
        unit=min(weights),
    )


def _group_units(
    pairs: Sequence[tuple[ScoredQuestion, ScoredQuestion]], tested: Sequence[str]
) -> list[_Unit]:
    """The groups that are complete and answered on both sides."""
    scored_a, _ = score_groups(a for a, _ in pairs)
    scored_b, _ = score_groups(b for _, b in pairs)
    others = {(group.video_id, group.repeat): group.score for group in scored_b}
    return [
        _Unit(group.video_id, group.video_id, _labels(group.facets, tested), group.score, other)
        for group in scored_a
        if (other := others.get((group.video_id, group.repeat))) is not None
    ]


def _marginals(units: Sequence[_Unit], step: float | None) -> tuple[Marginal, ...]:
    by_value: dict[tuple[str, str], list[_Unit]] = defaultdict(list)
    for unit in units:
        for column, value in unit.labels.items():
            by_value[column, value].append(unit)
    differences = [_difference(group, step) for group in by_value.values()]
    adjusted = estimates.adjusted_p_values([test.p_value for test in differences])
    tests = zip(by_value.items(), differences, adjusted, strict=True)
    return tuple(
        Marginal(
            column=column,
            value=value,
            n=len({unit.unit_id for unit in group}),
            accuracy_a=fmean(unit.a for unit in group),
            accuracy_b=fmean(unit.b for unit in group),
            difference=difference,
            adjusted_p_value=float(p_value),
            significant=bool(p_value <= FALSE_DISCOVERY_RATE),
        )
        for ((column, value), group), difference, p_value in tests
    )


def _difference(units: Sequence[_Unit], step: float | None) -> estimates.PairedDifference:
    """The difference of questions, or of groups whose scores are multiples of `step` up to 100."""
    return estimates.paired_difference(
        [compared.b for compared in units],
        [compared.a for compared in units],
        [compared.video_id for compared in units],
        unit=step or 1.0,
        largest=100.0 if step else 1.0,
    )


def _answer(row: ScoredQuestion) -> Hashable:
    return (row.outcome, row.extracted_answer)


def _ids(rows: Iterable[ScoredQuestion]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.question_id for row in rows))


def _flat(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", None if value is None else str(value)
