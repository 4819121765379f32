"""Score reports as JSON, table and Markdown."""

import json

import pytest

from tests.support.scored_rows import group_of, scored, v1_evaluation, v2_evaluation
from videomme_pipeline.formats.official import official_report
from videomme_pipeline.formats.score_file import ScoreOptions, score_rows
from videomme_pipeline.reports.score_report import ReportKind, render
from videomme_pipeline.reports.terminal.tables import interval, percent
from videomme_pipeline.scoring.scored_question import Outcome

V1 = score_rows(v1_evaluation(1), ScoreOptions())
V2 = score_rows(v2_evaluation(1), ScoreOptions(benchmark="videomme_v2"))


def test_json_has_every_breakdown_with_both_denominators() -> None:
    report = json.loads(render(V1, ReportKind.JSON))
    overall = report["breakdowns"]["overall"][0]
    assert overall["accuracy"] == overall["correct"] / overall["responses"]
    assert overall["accuracy_of_answered"] == overall["correct"] / (
        overall["correct"] + overall["incorrect"]
    )
    assert overall["accuracy_low"] < overall["accuracy"] < overall["accuracy_high"]
    assert [cell["duration"] for cell in report["breakdowns"]["by_duration"]] == [
        "short",
        "medium",
        "long",
    ]
    assert set(report["breakdowns"]["by_duration_and_task_type"][0]) >= {"duration", "task_type"}
    assert sum(report["outcomes"].values()) == report["questions"] == 90


def test_json_of_v2_has_the_keys_of_the_official_rating_file() -> None:
    report = json.loads(render(V2, ReportKind.JSON))
    assert list(report)[:3] == ["final_rating", "second_head_rating", "third_head_rating"]
    assert list(report["final_rating"]) == [
        "level_1",
        "level_2",
        "level_3",
        "relevance_score",
        "relevance_linear_score",
        "logic_score",
        "total",
    ]
    overall = report["group_breakdowns"]["group_score_overall"][0]
    assert overall["group_score"] == pytest.approx(report["final_rating"]["total"])


@pytest.mark.parametrize("kind", sorted(set(ReportKind) - {ReportKind.OFFICIAL}))
def test_every_format_notes_failed_requests(kind: ReportKind) -> None:
    assert "answers are missing" in render(V1, kind)
    assert "do not publish this score" in render(V1, kind)


@pytest.mark.parametrize("kind", sorted(set(ReportKind) - {ReportKind.OFFICIAL}))
def test_every_format_reports_groups_without_a_score(kind: ReportKind) -> None:
    rows = group_of([Outcome.CORRECT] * 4) + group_of([Outcome.CORRECT] * 4, video_id="002")[:2]
    report = score_rows(rows, ScoreOptions(benchmark="videomme_v2"))
    assert "video 002 is not scored: 2 questions" in render(report, kind)


def test_the_table_shows_standard_errors() -> None:
    text = render(V1, ReportKind.TABLE)
    cell = V1.breakdowns["overall"][0]
    assert percent(cell.accuracy)[:-1] in text
    assert interval(cell.accuracy_low, cell.accuracy_high) in text
    assert "Duration and task type" in text


def test_plain_lines_are_tab_separated_with_the_breakdown_first() -> None:
    lines = [line.split("\t") for line in render(V1, ReportKind.PLAIN).splitlines()]
    cell = V1.breakdowns["overall"][0]
    assert lines[1][:3] == ["Overall", "all", f"≥ {percent(cell.accuracy)[:-1]}"]
    assert {len(line) for line in lines} == {10, 1}


def test_markdown_escapes_labels() -> None:
    report = score_rows([scored(domain="a | b")], ScoreOptions())
    row = next(
        line for line in render(report, ReportKind.MARKDOWN).splitlines() if "a \\| b" in line
    )
    assert row.replace("\\|", "").count("|") == 10


def test_the_official_format_is_the_official_report() -> None:
    assert render(V1, ReportKind.OFFICIAL, ["task_type"]) == official_report(
        V1.rows, V1.options.durations, ["task_type"]
    )


@pytest.mark.parametrize("kind", [ReportKind.TABLE, ReportKind.PLAIN, ReportKind.MARKDOWN])
def test_a_score_with_failed_questions_is_a_lower_bound(kind: ReportKind) -> None:
    rows = [scored("001-1"), scored("002-1", Outcome.FAILED)]
    assert "≥ 50.0" in render(score_rows(rows, ScoreOptions()), kind)
    assert "≥" not in render(score_rows(rows[:1], ScoreOptions()), kind)
    silent = render(score_rows(rows[1:], ScoreOptions()), kind)
    assert "0.0" not in silent
    assert "≥" not in silent
