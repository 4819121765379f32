"""A score report as a table, tab-separated text, JSON, Markdown or the official report.

The numbers come from `formats.score_file`, and the official report from `formats.official`.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from io import StringIO
from typing import Any

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import listed, one_line
from videomme_pipeline.formats.official import official_report, official_v2_report
from videomme_pipeline.formats.score_file import ScoreReport
from videomme_pipeline.judge.judge import JudgeSummary
from videomme_pipeline.reports.markdown import in_markdown, markdown_table
from videomme_pipeline.reports.published import published_cells
from videomme_pipeline.reports.terminal.console import PlainConsole
from videomme_pipeline.reports.terminal.tables import at_least, show_rows
from videomme_pipeline.scoring.findings.run import ACCURACY, GROUP_SCORE
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.breakdowns import AccuracyRow, GroupScoreRow
from videomme_pipeline.scoring.statistics.groups import rule_of

_ABSENT = "–"


class ReportKind(StrEnum):
    """Format of a score report."""

    OFFICIAL = "official"
    JSON = "json"
    TABLE = "table"
    PLAIN = "plain"
    MARKDOWN = "markdown"


def render(
    report: ScoreReport, kind: ReportKind, columns: Collection[str] = (), *, width: int = 140
) -> str:
    """`report` as text that ends with a newline.

    `columns` are the facets by which the official v1 report has tables. Tables of the kind `table`
    fit into `width` characters.
    """
    match kind:
        case ReportKind.OFFICIAL if report.rating:
            return official_v2_report(report.rows, report.rating)
        case ReportKind.OFFICIAL:
            return official_report(report.rows, report.options.durations, columns)
        case ReportKind.JSON:
            return json.dumps(as_json(report), indent=2, ensure_ascii=False) + "\n"
        case ReportKind.TABLE:
            return _as_table(report, width)
        case ReportKind.PLAIN:
            return _as_plain(report)
        case ReportKind.MARKDOWN:
            return _as_markdown(report)


def as_json(report: ScoreReport) -> dict[str, Any]:
    """Everything in `report` except its rows, after the keys of the official rating file of v2."""
    benchmark = find_benchmark(report.options.benchmark)
    columns = benchmark.breakdowns(Measure.ACCURACY) | benchmark.breakdowns(Measure.GROUP_SCORE)

    def named(breakdowns: Mapping[str, Sequence[AccuracyRow | GroupScoreRow]]) -> dict[str, Any]:
        return {
            name: [_named(columns[name], row) for row in rows] for name, rows in breakdowns.items()
        }

    return {
        **(report.rating or {}),
        "benchmark": report.options.benchmark,
        "reader": report.options.reader.value,
        "judge": asdict(report.judge) if report.judge else None,
        "group_rule": report.options.group_rule.value if report.group_breakdowns else None,
        "questions": len({row.question_id for row in report.rows}),
        "videos": len({row.video_id for row in report.rows}),
        "outcomes": _outcomes(report),
        "publishable": not report.notes,
        "notes": list(report.notes),
        "remarks": list(report.remarks),
        "breakdowns": named(report.breakdowns),
        "group_breakdowns": named(report.group_breakdowns),
        "by_reader": _by_reader(report),
        "unscored_groups": [asdict(group) for group in report.unscored_groups],
    }


def _as_table(report: ScoreReport, width: int) -> str:
    text = StringIO()
    console = PlainConsole(file=text, width=width, color_system=None, force_terminal=True)
    for title, rows in _tables(report):
        show_rows(console, rows, {"": title})
        console.print()
    for line in _closing_lines(report):
        console.print(line, markup=False, soft_wrap=True)
    return text.getvalue()


def _as_plain(report: ScoreReport) -> str:
    """One tab-separated line per row, for other programs. The breakdown is the first column."""
    lines = [
        "\t".join((title, *cells))
        for title, rows in _tables(report)
        for cells in (rows[0], *(row.values() for row in rows))
    ]
    return "\n".join([*lines, *_closing_lines(report)]) + "\n"


def _as_markdown(report: ScoreReport) -> str:
    parts = [f"### {title}\n\n{markdown_table(rows)}" for title, rows in _tables(report)]
    parts += map(in_markdown, _closing_lines(report))
    return "\n\n".join(parts) + "\n"


def _tables(report: ScoreReport) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the title and the rows of each table. The first column has no title."""
    benchmark = find_benchmark(report.options.benchmark)
    columns = benchmark.breakdowns(Measure.ACCURACY) | benchmark.breakdowns(Measure.GROUP_SCORE)
    if report.by_reader:
        yield "By reader", [_reader_row(scores) for scores in _by_reader(report)]
    for name, groups in report.group_breakdowns.items():
        if groups:
            title = f"{_title(benchmark, columns[name])} (group score)"
            yield title, [_group_row(row) for row in groups]
    for name, rows in report.breakdowns.items():
        if rows:
            yield _title(benchmark, columns[name]), [_row(row) for row in rows]


def _by_reader(report: ScoreReport) -> list[dict[str, Any]]:
    """Group score and accuracy by every reader, each with the published cells that it equals."""
    cells = published_cells(report.options.benchmark)
    return [
        {"reader": scores.reader.value, "group_rule": rule_of(scores.reader).value}
        | {name: scores.score(name) for name in (GROUP_SCORE, ACCURACY)}
        | {f"equal_{n}": scores.published_as(n, cells) for n in (GROUP_SCORE, ACCURACY)}
        for scores in report.by_reader
    ]


def _reader_row(scores: Mapping[str, Any]) -> dict[str, str]:
    return {
        "": scores["reader"],
        "group score": _points(scores[GROUP_SCORE]),
        "published group scores": listed(scores["equal_group_score"]) or _ABSENT,
        "accuracy": _points(scores[ACCURACY]),
        "published accuracies": listed(scores["equal_accuracy"]) or _ABSENT,
    }


def _row(row: AccuracyRow) -> dict[str, str]:
    return {
        "": _label(row.values),
        "accuracy": at_least(row.failed, _percent(row.accuracy)),
        "95% CI": _interval(_percent(row.accuracy_low), _percent(row.accuracy_high)),
        "error": _percent(row.standard_error),
        "of answered": _percent(row.accuracy_of_answered),
        "n": f"{row.questions}",
        "videos": f"{row.videos}",
        "unreadable": f"{row.unreadable}",
        "failed": f"{row.failed}",
    }


def _group_row(row: GroupScoreRow) -> dict[str, str]:
    return {
        "": _label(row.values),
        "group score": at_least(row.failed, _points(row.group_score)),
        "95% CI": _interval(_points(row.group_score_low), _points(row.group_score_high)),
        "error": _points(row.standard_error),
        "linear": _points(row.linear_score),
        "groups": f"{row.groups}",
        "incomplete": f"{row.incomplete_groups}",
    }


def _closing_lines(report: ScoreReport) -> list[str]:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in _outcomes(report).items())
    rule = f", group rule {report.options.group_rule}" if report.group_breakdowns else ""
    return [
        f"reader {report.options.reader}{rule}: {counts}",
        *([_judge_line(report.judge)] if report.judge else []),
        *(f"note: {one_line(note)}" for note in (*report.notes, *report.remarks)),
    ]


def _judge_line(judge: JudgeSummary) -> str:
    cost = "unknown cost" if judge.cost_dollars is None else f"{judge.cost_dollars:.4f} US dollars"
    return (
        f"judge {judge.judge}: asked about {judge.asked}, read {judge.letters} letters "
        f"({judge.correct} correct), {judge.failed} failed, {cost}; accuracy without its letters "
        f"{_percent(judge.accuracy_without_judge)}, of answered "
        f"{_percent(judge.accuracy_of_answered_without_judge)}"
    )


def _outcomes(report: ScoreReport) -> dict[str, int]:
    counts = Counter(row.outcome for row in report.rows)
    return {outcome.value: counts[outcome] for outcome in Outcome}


def _named(columns: Sequence[str], row: AccuracyRow | GroupScoreRow) -> Mapping[str, Any]:
    fields = asdict(row)
    return dict(zip(columns, fields.pop("values"), strict=True)) | fields


def _title(benchmark: Benchmark, columns: Sequence[str]) -> str:
    """Title of a breakdown, such as "Duration and task type"."""
    titles = [benchmark.facet(column).title for column in columns] or ["Overall"]
    return " and ".join([titles[0], *map(str.lower, titles[1:])])


def _label(values: Sequence[str]) -> str:
    return one_line(" · ".join(values)) or "all"


def _interval(low: str, high: str) -> str:
    return f"{low}–{high}" if low != _ABSENT else _ABSENT


def _percent(share: float | None) -> str:
    return _ABSENT if share is None else f"{100 * share:.1f}"


def _points(score: float | None) -> str:
    return _ABSENT if score is None else f"{score:.2f}"
