"""The DuckDB file: its views agree with the library, and it is rebuilt when it is stale."""

import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.support.evidence import video
from tests.support.full_disk import files_of_at_most
from tests.support.registered import registered
from tests.support.scored_rows import group_of, questions_of, scored, v1_evaluation, v2_evaluation
from tests.support.stored_files import made_up_file, show_made_up, write_made_up
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet, Facets, Measure
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import StorageError
from videomme_pipeline.evaluation.folder import reserved_columns
from videomme_pipeline.frames.cache import DecodeTime
from videomme_pipeline.models.video_llm import FailureKind, Usage
from videomme_pipeline.responses.response import AttemptRow, Served
from videomme_pipeline.scoring.scored_question import (
    EvaluatedVideo,
    ObservedQuestion,
    Outcome,
    ScoredQuestion,
)
from videomme_pipeline.scoring.statistics.breakdowns import breakdown, group_breakdowns
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.scoring.statistics.estimates import clustered_mean, with_accuracy_interval
from videomme_pipeline.scoring.statistics.groups import GroupRule, score_groups
from videomme_pipeline.scoring.verdicts import Checkpoint, write_checkpoint
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import write_rows
from videomme_pipeline.warehouse import database, definitions, loading

WITHOUT = v1_evaluation(1, videos=60, evaluation="without", pairing="16 frames")
WITH = v1_evaluation(2, videos=60, evaluation="with", track="with_subtitles", pairing="16 frames")
V2 = (
    v2_evaluation(3, groups=40, evaluation="groups")
    + group_of([Outcome.CORRECT] * 4, video_id="900", evaluation="groups", level=1)[1:]
)

BREAKDOWNS = find_benchmark("videomme").breakdowns(Measure.ACCURACY)
GROUP_BREAKDOWNS = find_benchmark("videomme_v2").breakdowns(Measure.GROUP_SCORE)

VIEWS = {
    *BREAKDOWNS,
    *GROUP_BREAKDOWNS,
    "accuracy_by_nightly_run",
    "attempts_by_failure",
    "inputs",
    "leaderboard",
    "outcomes",
    "pass_at_k",
    "repeats",
    "track_against_track",
    "usage",
    "group_scores",
}


def put(store: Store, rows: Sequence[ScoredQuestion]) -> None:
    benchmark, evaluation = rows[0].benchmark, rows[0].evaluation
    write_made_up(made_up_file(store, "scores", benchmark, evaluation), rows, ScoredQuestion)
    show_made_up(store, benchmark, evaluation, [row.video_id for row in rows])


def attempt_row(
    question_id: str, failure: FailureKind | None = None, status: int = 200
) -> AttemptRow:
    return AttemptRow(
        benchmark="videomme",
        evaluation="with",
        video_id=question_id.partition("-")[0],
        question_id=question_id,
        repeat=0,
        model="m",
        started_at=datetime(2026, 11, 21, tzinfo=UTC),
        latency_seconds=1.5,
        status=status,
        failure=failure,
        error=failure and "slow down",
        usage=Usage() if failure else Usage(prompt_tokens=100, completion_tokens=1),
    )


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    result = connection.execute(sql)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.at(tmp_path_factory.mktemp("data"))
    for rows in (WITHOUT, WITH, V2, repeated()):
        put(store, rows)
    for date in ("2026-11-20", "2026-11-21"):
        observed = [ObservedQuestion.of(row, date) for row in WITH]
        path = store.observation("videomme", "with", date)
        write_rows(path, observed, ObservedQuestion, fingerprint="f")
    attempts = [
        attempt_row("001-1", failure=FailureKind.RATE_LIMITED, status=429),
        attempt_row("001-1"),
    ]
    path = made_up_file(store, "attempts", "videomme", "with", "001")
    write_made_up(path, attempts, AttemptRow)
    for step in (100, 200):
        checkpoint = Checkpoint(
            run="tuned",
            step=step,
            template="with",
            benchmark="videomme",
            evaluation="with" if step == 100 else "with-tuned-200",
            folder="",
            recorded_at=datetime(2026, 11, 21, tzinfo=UTC),
        )
        write_checkpoint(store, [checkpoint])
    for rows in (WITHOUT, V2):
        questions = questions_of(rows)
        path = made_up_file(store, "questions", rows[0].benchmark)
        write_made_up(path, questions, Question)
    return store


@pytest.fixture(autouse=True)
def registry_of_the_test() -> Iterator[None]:
    """Undo registrations, because every registered benchmark adds columns and views."""
    with registered():
        yield


@pytest.fixture(scope="module")
def connection(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    with database.connect(store) as connection:
        yield connection


def test_the_views_of_the_public_interface_exist() -> None:
    assert set(definitions.views()) >= VIEWS


def test_every_view_states_its_grain_and_reads_no_file() -> None:
    for name, sql in definitions.views().items():
        assert sql.startswith("-- grain: one row per ("), name
        assert "read_parquet" not in sql, name
        assert not re.search(r"from\s+'", sql), name


def test_a_skill_counts_the_questions_of_its_task_types(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    rows = rows_of(connection, "select * from by_skill where evaluation = 'with'")
    assert {row["skill"] for row in rows} == {"perception", "reasoning", "temporal"}
    for row in rows:
        members = [scored for scored in WITH if scored.facets["skill"] == row["skill"]]
        assert row["questions"] == len(members)
        assert row["correct"] == sum(scored.is_correct for scored in members)


def test_views_follow_the_views_they_read() -> None:
    order = list(definitions.views())
    assert (
        order.index("group_scores")
        < order.index("group_score_overall")
        < order.index("leaderboard")
    )


@pytest.mark.parametrize("name", sorted(definitions.views()))
def test_every_view_has_the_stated_grain(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    rows = rows_of(connection, f"select * from {name}")
    assert rows
    grain = re.match(r"-- grain: one row per \(([^)]*)\)", definitions.views()[name])
    assert grain
    keys = {
        "evaluation with subtitles": "with_subtitles",
        "evaluation without": "without_subtitles",
        "evaluation with repeats": "evaluation",
        "duration or all": "duration",
        "video": "video_id",
    }
    columns = [keys.get(key, key) for key in grain.group(1).split(", ")]
    assert len({tuple(row[column] for column in columns) for row in rows}) == len(rows)


def test_every_view_is_empty_without_evaluations(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        database.build(connection, Store.at(tmp_path / "nothing"))
        for name in definitions.views():
            assert connection.execute(f"select * from {name}").fetchall() == [], name


def batches(names: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def with_facets(benchmark: str, columns: Iterable[str]) -> Benchmark:
    """A benchmark called `own` with the rules of another one, and facets in `columns`."""
    base = find_benchmark(benchmark)
    measure = Measure.GROUP_SCORE if base.grouping else Measure.ACCURACY
    added = (Facet(column=name, title=name.capitalize(), measure=measure) for name in columns)
    return base.model_copy(update={"name": "own", "facets": (*base.facets, *added)})


@pytest.mark.parametrize(
    ("benchmark", "category"),
    [
        ("videomme", "reserved"),
        pytest.param("videomme_v2", "reserved", marks=pytest.mark.slow),
        pytest.param("videomme", "%", marks=pytest.mark.slow),
        pytest.param("videomme_v2", "%", marks=pytest.mark.slow),
    ],
)
def test_a_facet_can_have_the_name_of_an_sql_keyword(
    benchmark: str, category: str, tmp_path: Path
) -> None:
    keywords = duckdb.execute(
        "select keyword_name from duckdb_keywords() where keyword_category like ?", [category]
    )
    others = reserved_columns() | {"groups", "level", "checkpoint"}
    columns = {name for (name,) in keywords.fetchall()} - others
    # The time to bind the views grows with the square of the number of facets.
    for names in batches(sorted(columns), 30):
        own = with_facets(benchmark, names)
        rows = [
            replace(row, benchmark="own", facets=Facets({**row.facets, names[0]: "first"}))
            for row in (V2 if own.grouping else WITH)
        ]
        with registered(own):
            store = Store.at(tmp_path / names[0])
            put(store, rows)
            view = own.facet(names[0]).view
            with database.connect(store) as connection:
                for name in definitions.views():
                    connection.execute(f'describe "{name}"')
                values = database.query(connection, f"from {view}")
                assert {row[names[0]] for row in values} == {"first"}


def test_a_facet_cannot_have_the_name_of_another_column_or_view(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        database.build(connection, Store.at(tmp_path))
        columns = {
            column
            for view in ("overall", "group_score_overall", "group_scores")
            for column in connection.table(view).columns
        }
    views = {
        name.removeprefix("accuracy_by_")
        for name in definitions.sql_files("sql")
        if name.startswith("accuracy_by_")
    }
    facets = {facet.column for facet in find_benchmark("videomme_v2").facets}
    for column in views | columns - facets - reserved_columns():
        with pytest.raises(ValueError, match="another column or view has this name"):
            Facet(column=column, title="x")


def test_one_facet_may_be_a_text_and_a_number(tmp_path: Path) -> None:
    own = with_facets("videomme", ["level"])
    rows = [
        replace(row, benchmark="own", facets=Facets({**row.facets, "level": "hard"}))
        for row in WITH
    ]
    with registered(own):
        store = Store.at(tmp_path)
        put(store, rows)
        put(store, V2)
        with database.connect(store) as connection:
            levels = database.query(
                connection, "select distinct benchmark, level from scored_questions order by all"
            )
            hard = database.query(
                connection, "select level, responses from by_level where level = 'hard'"
            )
            easy = database.query(connection, "select level from group_score_by_level order by all")
    assert [row["level"] for row in levels if row["benchmark"] == "own"] == ["hard"]
    assert hard == [{"level": "hard", "responses": len(rows)}]
    assert [row["level"] for row in easy] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("benchmark", "videos"),
    [
        ("videomme", 3),
        pytest.param("videomme", 60, marks=pytest.mark.slow),
        ("videomme_v2", 12),
        pytest.param("mvbench", 12, marks=pytest.mark.slow),
        pytest.param("lvbench", 12, marks=pytest.mark.slow),
    ],
)
def test_repeats_of_every_answer_narrow_no_interval(
    benchmark: str, videos: int, tmp_path: Path
) -> None:
    declared = find_benchmark(benchmark)
    rows = v2_evaluation(4, groups=videos) if declared.grouping else v1_evaluation(4, videos=videos)
    values = {facet.column: (facet.values or ("a", "b"))[0] for facet in declared.facets}
    labelled = declared.grouping is None and benchmark != "videomme"
    rows = [
        replace(row, benchmark=benchmark, facets=Facets(values)) if labelled else row
        for row in rows
    ]
    store = Store.at(tmp_path)
    for name, repeats in (("once", 1), ("often", 10)):
        repeated = [replace(row, evaluation=name, repeat=n) for row in rows for n in range(repeats)]
        put(store, repeated)
        observed = [ObservedQuestion.of(row, "2026-11-20") for row in repeated]
        path = store.observation(benchmark, name, "2026-11-20")
        write_rows(path, observed, ObservedQuestion, fingerprint="f")
    views = [*declared.breakdowns(Measure.ACCURACY), *declared.breakdowns(Measure.GROUP_SCORE)]
    views += ["accuracy_by_nightly_run", "leaderboard"]
    views += [f"mean_over_{declared.mean_of}"] if declared.mean_of else []
    compared = 0
    with database.connect(store) as connection:
        for view in views:
            rows_of_view = database.query(connection, f'select * from "{view}"')
            numbers: dict[str, list[Any]] = {"once": [], "often": []}
            for row in sorted(rows_of_view, key=str):
                numbers[row["evaluation"]] += [
                    row[column] or 0
                    for column in row
                    if column in ("questions", "groups", "incomplete_groups", "videos")
                    or column.endswith(("_low", "_high"))
                ]
            assert sorted(numbers["once"]) == pytest.approx(sorted(numbers["often"])), view
            compared += len(numbers["once"])
    assert compared > 10


@pytest.mark.parametrize(
    "benchmark", ["videomme", pytest.param("videomme_v2", marks=pytest.mark.slow), "mvbench"]
)
def test_an_evaluation_without_any_answer_has_no_score_in_any_view(
    benchmark: str, tmp_path: Path
) -> None:
    rows = v2_evaluation(3) if benchmark == "videomme_v2" else v1_evaluation(3, videos=12)
    silent = [
        replace(
            row,
            benchmark=benchmark,
            repeat=repeat,
            outcome=Outcome.FAILED,
            is_correct=False,
            raw_output=None,
            extracted_answer=None,
            facets=Facets({**row.facets, "task": row.facets.get("task_type", "a")}),
        )
        for row in rows
        for repeat in range(2)
    ]
    store = Store.at(tmp_path)
    put(store, silent)
    observed = [ObservedQuestion.of(row, "2026-11-20") for row in silent]
    path = store.observation(benchmark, "made-up", "2026-11-20")
    write_rows(path, observed, ObservedQuestion, fingerprint="f")
    scores = re.compile("accuracy|score|standard_error|interval_kind|pass_at|majority|flip_rate$")
    find_benchmark(benchmark)  # so that its facets are columns
    with database.connect(store) as connection:
        shown = {
            f"{view}.{column}": value
            for view in definitions.views()
            if view != "group_scores"  # it has the outcomes of every single group
            for row in database.query(connection, f'select * from "{view}"')
            for column, value in row.items()
            if scores.search(column)
        }
    assert {name: value for name, value in shown.items() if value is not None} == {}
    assert "leaderboard.accuracy" in shown
    assert "accuracy_by_nightly_run.accuracy_low" in shown


def test_a_mean_without_errors_claims_no_certainty(tmp_path: Path) -> None:
    find_benchmark("mvbench")
    rows = [
        replace(scored(f"{n:03d}-1"), benchmark="mvbench", facets=Facets({"task": "a"}))
        for n in range(6)
    ]
    put(Store.at(tmp_path), rows)
    with database.connect(Store.at(tmp_path)) as connection:
        (mean,) = rows_of(connection, "select * from mean_over_task")
    assert mean["accuracy"] == pytest.approx(1)
    assert (mean["accuracy_low"], mean["accuracy_high"]) == (None, None)


def test_pass_at_k_counts_the_questions_that_were_asked_k_times(tmp_path: Path) -> None:
    rows = [
        scored(f"{question:03d}-1", repeat=repeat)
        for question in range(20)
        for repeat in range(1 + question % 3)
    ]
    put(Store.at(tmp_path), rows)
    with database.connect(Store.at(tmp_path)) as connection:
        passed = rows_of(connection, "select * from pass_at_k order by k")
    assert [(row["k"], row["questions"], row["all_questions"]) for row in passed] == [
        (1, 13, 20),
        (2, 13, 20),
        (3, 6, 20),
    ]


def test_usage_sums_reported_values_and_is_null_without_any(tmp_path: Path) -> None:
    used = [
        (
            Usage(prompt_tokens=100, cached_tokens=60),
            Served(attempts=1, latency_seconds=1.0),
        ),
        (
            Usage(prompt_tokens=300),
            Served(attempts=3, latency_seconds=9.0, cost_dollars=0.5),
        ),
    ]
    asked = [row for row in WITH if row.outcome is not Outcome.FAILED][:2]
    rows = [
        replace(row, usage=usage, served=served)
        for row, (usage, served) in zip(asked, used, strict=True)
    ]
    store = Store.at(tmp_path)
    put(store, rows)
    with database.connect(store) as connection:
        (usage,) = rows_of(connection, "select * from usage")
    assert (usage["attempts"], usage["prompt_tokens"], usage["cost_dollars"]) == (4, 400, 0.5)
    assert usage["cached_share"] == pytest.approx(0.6)
    assert (usage["latency_p50_seconds"], usage["latency_p95_seconds"]) == pytest.approx((5.0, 8.6))
    assert usage["reasoning_tokens"] is None


def test_usage_per_question_counts_shared_frames_in_each_evaluation_and_unknown_values_in_none(
    tmp_path: Path,
) -> None:
    store, sent = Store.at(tmp_path), Usage(prompt_tokens=900, text_tokens=100)
    on_001 = [row for row in WITH if row.video_id == "001"][:2]
    (on_002, *_) = [row for row in WITH if row.video_id == "002"]
    rows = [
        replace(row, outcome=Outcome.INCORRECT, is_correct=False, num_frames=8, usage=sent)
        for row in (*on_001, on_002)
    ]
    sizes: dict[str, Sequence[int | None]] = {
        "known": [800, 500],
        "shared": [800, 500],
        "partly": [800, None],
        "unknown": [None, None],
        "blind": [0, 0],
    }
    for name, of_videos in sizes.items():
        put(store, [replace(row, evaluation=name) for row in rows])
        videos = [
            replace(
                video(video_id),
                evaluation=name,
                frame_bytes=size,
                planned_frames=8 if name != "blind" else 0,
                frames_fingerprint="frames" if size else None,
            )
            for video_id, size in zip(("001", "002"), of_videos, strict=True)
        ]
        path = made_up_file(store, "evaluated_videos", "videomme", name)
        write_made_up(path, videos, EvaluatedVideo)
    put(store, [replace(row, evaluation="imported", usage=Usage()) for row in rows])
    for run, (video_id, seconds) in enumerate([("001", 0.2), ("001", 0.4), ("002", 0.9)]):
        decoded = DecodeTime(
            video_hash=f"video {video_id}", frames_fingerprint="frames", decode_cpu_seconds=seconds
        )
        write_rows(store.decode_times(str(run)), [decoded], DecodeTime, fingerprint="f")
    with database.connect(store) as connection:
        usage = {row["evaluation"]: row for row in rows_of(connection, "select * from usage")}
    assert {name: row["frame_bytes_per_question"] for name, row in usage.items()} == {
        "known": 700.0,
        "shared": 700.0,
        "partly": 800.0,
        "unknown": None,
        "blind": 0.0,
        "imported": None,
    }
    seconds_per_question = {
        name: row["decode_cpu_seconds_per_question"] for name, row in usage.items()
    }
    assert seconds_per_question == {
        "known": pytest.approx((0.3 + 0.9) / 3),
        "shared": pytest.approx((0.3 + 0.9) / 3),
        "partly": pytest.approx(0.3 / 2),
        "unknown": None,
        "blind": 0.0,
        "imported": None,
    }
    reported, imported = usage["known"], usage["imported"]
    assert reported["prompt_tokens_per_question"] == 900
    assert reported["visual_tokens_per_question"] == 800
    assert reported["frames_per_question"] == 8
    assert reported["cost_dollars_per_question"] == pytest.approx(0.001)
    assert reported["reasoning_tokens_per_question"] is None
    assert imported["prompt_tokens_per_question"] is imported["visual_tokens_per_question"] is None


def test_failed_attempts_are_counted_by_kind(connection: duckdb.DuckDBPyConnection) -> None:
    rows = rows_of(connection, "select * from attempts_by_failure order by status")
    attempts = [(row["status"], row["failure"], row["attempts"], row["example"]) for row in rows]
    assert attempts == [(200, None, 1, None), (429, "rate_limited", 1, "slow down")]


@pytest.mark.parametrize("name", BREAKDOWNS)
def test_breakdowns_in_sql_equal_those_of_the_library(
    connection: duckdb.DuckDBPyConnection, name: str
) -> None:
    columns = BREAKDOWNS[name]
    by_values = {
        tuple(row[column] for column in columns): row
        for row in rows_of(connection, f"select * from {name} where evaluation = 'with'")
    }
    cells = breakdown(WITH, [find_benchmark("videomme").facet(column) for column in columns])
    assert len(by_values) == len(cells)
    for cell in cells:
        row = by_values[cell.values]
        for field in ("questions", "videos", "responses", "correct", "unreadable", "failed"):
            assert row[field] == getattr(cell, field)
        for field in (
            "accuracy",
            "accuracy_of_answered",
            "standard_error",
            "accuracy_low",
            "accuracy_high",
        ):
            assert row[field] == pytest.approx(getattr(cell, field), abs=1e-12), field
        assert row["interval_kind"] == cell.interval_kind


@pytest.mark.parametrize("rule", GroupRule)
def test_group_scores_in_sql_equal_those_of_the_library(
    connection: duckdb.DuckDBPyConnection, rule: GroupRule
) -> None:
    column = "group_score" if rule is GroupRule.CORRECTED else "group_score_official"
    by_video = {row["video_id"]: row for row in rows_of(connection, "select * from group_scores")}
    groups, unscored = score_groups(V2, rule)
    assert [group.video_id for group in unscored] == ["900"]
    assert not by_video["900"]["whole"]
    assert by_video["900"][column] is None
    for group in groups:
        row = by_video[group.video_id]
        assert row[column] == pytest.approx(group.score, abs=1e-9)
        for facet in ("level", "second_head", "third_head"):
            assert row[facet] == group.facets.get(facet)


def test_mean_group_scores_leave_out_incomplete_groups(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    groups, _ = score_groups(V2)
    estimate = clustered_mean([group.score for group in groups], range(len(groups)))
    row = rows_of(connection, "select * from group_score_overall")[0]
    assert (row["groups"], row["incomplete_groups"]) == (40, 1)
    assert row["group_score"] == pytest.approx(estimate.mean)
    assert row["standard_error"] == pytest.approx(estimate.standard_error)
    assert row["group_score_low"] == pytest.approx(estimate.low)
    by_level = rows_of(connection, "select * from group_score_by_level order by level")
    assert [row["incomplete_groups"] for row in by_level] == [1, 0, 0]


@pytest.fixture(scope="module")
def few_groups() -> list[ScoredQuestion]:
    """Levels with one group, with two equal scores, and with three different ones."""
    right, wrong = Outcome.CORRECT, Outcome.INCORRECT
    groups = [
        (1, [right] * 4),
        (2, [right, wrong, right, right]),
        (2, [right, wrong, wrong, wrong]),
        (3, [right] * 4),
        (3, [right, right, wrong, wrong]),
        (3, [wrong] * 4),
    ]
    return [
        row
        for number, (level, outcomes) in enumerate(groups)
        for row in group_of(outcomes, video_id=f"{number:03d}", evaluation="few", level=level)
    ]


@pytest.mark.parametrize("name", GROUP_BREAKDOWNS)
@pytest.mark.parametrize("evaluation", ["groups", "few"])
def test_group_scores_have_the_same_interval_in_sql_and_in_reports(
    few_groups: list[ScoredQuestion], tmp_path: Path, name: str, evaluation: str
) -> None:
    rows = V2 if evaluation == "groups" else few_groups
    other = Store.at(tmp_path)
    put(other, rows)
    with database.connect(other) as connection:
        in_sql = rows_of(connection, f"select * from {name}")
    cells = {
        cell.values: cell for cell in group_breakdowns(find_benchmark("videomme_v2"), rows)[0][name]
    }
    assert len(in_sql) >= len(cells)
    for row in in_sql:
        cell = cells.get(tuple(str(row[column]) for column in GROUP_BREAKDOWNS[name]))
        if cell is None:
            assert (row["groups"], row["interval_kind"]) == (0, None)
            continue
        assert row["interval_kind"] == cell.interval_kind
        for field in ("group_score", "standard_error", "group_score_low", "group_score_high"):
            assert row[field] == pytest.approx(getattr(cell, field), abs=1e-9), field


def test_paired_tracks_equal_a_comparison_by_the_library(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    comparison = compare(WITHOUT, WITH)
    row = rows_of(connection, "select * from track_against_track where duration = 'all'")[0]
    assert row["difference"] == pytest.approx(comparison.accuracy.difference.mean)
    assert row["standard_error"] == pytest.approx(comparison.accuracy.difference.standard_error)
    assert row["difference_low"] == pytest.approx(comparison.accuracy.difference.low)
    assert row["interval_kind"] == comparison.accuracy.difference.interval_kind
    assert row["failed"] == len(comparison.failed) > 0
    short = rows_of(connection, "select * from track_against_track where duration = 'short'")[0]
    marginal = next(row for row in comparison.marginals if row.value == "short")
    assert short["difference"] == pytest.approx(marginal.difference.difference.mean)


@pytest.mark.parametrize("differing", [0, 1, 2, 60])
def test_paired_tracks_with_few_differences_have_the_interval_of_the_library(
    tmp_path: Path, differing: int
) -> None:
    changed = {f"{video + 1:03d}-1" for video in range(differing)}
    right = [replace(row, is_correct=True, outcome=Outcome.CORRECT) for row in WITHOUT]
    subtitled = [
        replace(
            row,
            evaluation="with",
            track="with_subtitles",
            is_correct=row.question_id not in changed,
            outcome=Outcome.INCORRECT if row.question_id in changed else Outcome.CORRECT,
        )
        for row in right
    ]
    paired = compare(right, subtitled).accuracy
    store = Store.at(tmp_path)
    put(store, right)
    put(store, subtitled)
    with database.connect(store) as connection:
        row = rows_of(connection, "select * from track_against_track where duration = 'all'")[0]
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(
        (paired.difference.low, paired.difference.high)
    )
    assert row["differing_videos"] == differing
    assert row["interval_kind"] == paired.difference.interval_kind


def test_a_single_pair_of_videos_has_no_interval(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT[:3])
    put(store, [replace(r, evaluation="with", track="with_subtitles") for r in WITHOUT[:3]])
    with database.connect(store) as connection:
        row = rows_of(connection, "select * from track_against_track where duration = 'all'")[0]
    assert (row["difference_low"], row["difference_high"], row["interval_kind"]) == (None,) * 3


def test_tracks_are_not_paired_when_more_than_the_subtitles_differs(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, [replace(row, pairing="temperature 0") for row in WITHOUT])
    put(store, [replace(row, pairing="temperature 1") for row in WITH])
    with database.connect(store) as connection:
        assert rows_of(connection, "select * from track_against_track") == []


def test_the_leaderboard_names_the_servers_that_answered(tmp_path: Path) -> None:
    servers = ['{"engine":"vllm","version":"2"}', '{"engine":"vllm","version":"1"}', None]
    put(store := Store.at(tmp_path), [replace(WITHOUT[i], server=servers[i]) for i in range(3)])
    with database.connect(store) as connection:
        [row] = rows_of(connection, "select servers from leaderboard")
    assert row["servers"] == sorted(filter(None, servers))


def test_the_leaderboard_has_score_and_cost(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    by_evaluation = {
        row["evaluation"]: row for row in rows_of(connection, "select * from leaderboard")
    }
    row = by_evaluation["without"]
    assert (row["questions"], row["benchmark_questions"]) == (180, 2700)
    assert not row["complete"]
    assert row["prompt_tokens"] == 180_000
    assert row["cost_dollars"] == pytest.approx(0.18)
    latencies = sorted(row.served.latency_seconds or 0 for row in WITHOUT)
    assert latencies[88] <= row["latency_p50_seconds"] <= latencies[91]
    assert row["latency_p95_seconds"] > row["latency_p50_seconds"]
    assert row["group_score"] is None
    assert by_evaluation["groups"]["group_score"] is not None
    assert by_evaluation["groups"]["groups"] == 40


def test_outcomes_have_their_denominator(connection: duckdb.DuckDBPyConnection) -> None:
    rows = rows_of(connection, "select * from outcomes where evaluation = 'with'")
    assert {row["outcome"]: row["responses"] for row in rows} == {
        outcome.value: count
        for outcome in Outcome
        if (count := sum(row.outcome is outcome for row in WITH))
    }
    assert {row["all_responses"] for row in rows} == {180}
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_repeats_of_a_question_count_as_one_question(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, [scored(repeat=repeat) for repeat in range(5)] + [scored("002-1")])
    with database.connect(store) as connection:
        row = rows_of(connection, "select * from overall")[0]
    assert (row["questions"], row["responses"], row["videos"]) == (2, 6, 2)


def test_the_file_opens_anywhere_without_the_data_folder(tmp_path: Path, store: Store) -> None:
    database.rebuild(store)
    moved = tmp_path / "elsewhere.duckdb"
    shutil.copy(store.warehouse, moved)
    script = (
        "import duckdb, sys; "
        "print(duckdb.connect(sys.argv[1], read_only=True)"
        ".execute('select count(*) from leaderboard').fetchone()[0])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, moved], cwd="/", capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "4"  # after a bar of progress on a slow machine


def test_tables_are_the_same_however_many_files_are_read_at_a_time(
    store: Store, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(Results(store).scores()) > 2
    monkeypatch.setattr(loading, "_FILES_AT_A_TIME", 2)
    with duckdb.connect() as in_batches:
        database.build(in_batches, store)
        for sql in ("from scored_questions order by all", "describe scored_questions"):
            assert rows_of(in_batches, sql) == rows_of(connection, sql)


def test_an_open_connection_keeps_its_data_after_a_rebuild(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT)
    with database.connect(store) as before:
        put(store, WITH)
        with database.connect(store) as after:
            assert rows_of(after, "select count(*) as n from overall") == [{"n": 2}]
            assert rows_of(before, "select count(*) as n from overall") == [{"n": 1}]


def test_a_current_file_is_not_rebuilt(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT)
    database.connect(store).close()
    built = store.warehouse.stat().st_ino
    database.connect(store).close()
    assert store.warehouse.stat().st_ino == built
    put(store, WITH)
    database.connect(store).close()
    assert store.warehouse.stat().st_ino != built
    assert {path.name for path in store.warehouse.parent.glob("*duckdb*")} == {
        "videomme.duckdb",
        ".videomme.duckdb.built_from",
    }


def test_a_damaged_file_is_rebuilt(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT)
    database.connect(store).close()
    store.warehouse.write_bytes(b"not a database")
    with database.connect(store) as connection:
        assert len(rows_of(connection, "select * from overall")) == 1


def test_a_file_with_a_flipped_bit_is_rebuilt(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT)
    database.connect(store).close()
    data = bytearray(store.warehouse.read_bytes())
    data[len(data) // 2] ^= 1
    store.warehouse.write_bytes(data)
    assert not database.is_current(store)
    with database.connect(store) as connection:
        assert len(rows_of(connection, "select * from overall")) == 1
    assert database.is_current(store)


@pytest.mark.slow
def test_one_unreadable_table_does_not_stop_the_others(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT)
    put(store, WITH)
    broken = Results(store).scores()[0].path
    broken.write_bytes(b"PAR1 no")
    left_out = database.rebuild(store)
    assert len(left_out) == 1
    assert f"{broken.name}: the file is damaged" in left_out[0]
    with database.connect(store) as connection:
        assert len(rows_of(connection, "select * from overall")) == 1


@pytest.mark.slow
def test_a_flipped_bit_that_duckdb_would_read_is_left_out(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, WITHOUT)
    put(store, WITH)
    path = Path(Results(store).scores()[0].path.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    left_out = database.rebuild(store)
    assert len(left_out) == 1
    assert f"{path}: the file is damaged" in left_out[0]
    with database.connect(store) as connection:
        assert len(rows_of(connection, "select * from overall")) == 1


def test_the_error_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"videomme\.duckdb: cannot write"):
        database.rebuild(Store.at(tmp_path / "file"))


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.8, 0.99])
def test_a_disk_that_fills_up_keeps_the_complete_file(store: Store, share: float) -> None:
    database.rebuild(store)
    path = store.warehouse
    built, files = path.read_bytes(), set(path.parent.iterdir())
    with (
        files_of_at_most(int(share * len(built))),
        pytest.raises(StorageError, match="cannot build the DuckDB file"),
    ):
        database.rebuild(store)
    assert path.read_bytes() == built
    assert set(path.parent.iterdir()) == files


def repeated(questions: int = 40, repeats: int = 5) -> list[ScoredQuestion]:
    """Questions of 20 videos, asked several times; some responses failed or have no letter."""
    chance = random.Random(5)
    rows = []
    for number in range(questions):
        right = chance.random()
        for repeat in range(repeats):
            outcome = Outcome.CORRECT if chance.random() < right else Outcome.INCORRECT
            outcome = chance.choices((outcome, Outcome.UNREADABLE, Outcome.FAILED), (8, 1, 1))[0]
            letter = chance.choice("BCD") if outcome is Outcome.INCORRECT else None
            facts = {"model": "repeated"} | ({"extracted_answer": letter} if letter else {})
            rows.append(
                scored(f"{number // 2:03d}-{number % 2 + 1}", outcome, repeat=repeat, **facts)
            )
    return rows


def by_question(rows: Sequence[ScoredQuestion]) -> list[list[ScoredQuestion]]:
    groups: dict[str, list[ScoredQuestion]] = {}
    for row in rows:
        groups.setdefault(row.question_id, []).append(row)
    return list(groups.values())


def majority(rows: Sequence[ScoredQuestion]) -> float:
    """The share of the most frequent letters that are correct."""
    votes = Counter(row.extracted_answer for row in rows if row.extracted_answer)
    winners = [letter for letter, times in votes.items() if times == max(votes.values())]
    return winners.count(rows[0].answer) / len(winners) if winners else 0.0


def flips(rows: Sequence[ScoredQuestion]) -> float:
    """The share of pairs of answered repeats with different answers."""
    answers = [(r.outcome, r.extracted_answer) for r in rows if r.outcome is not Outcome.FAILED]
    return float(np.mean([letter != other for letter, other in combinations(answers, 2)]))


def test_repeats_have_flips_a_majority_vote_and_pass_at_k_by_enumeration(tmp_path: Path) -> None:
    store, rows = Store.at(tmp_path), repeated()
    put(store, rows)
    put(store, [replace(row, evaluation="once") for row in rows if row.repeat == 0])
    with database.connect(store) as connection:
        (repeats,) = rows_of(connection, "select * from repeats")
        passed = rows_of(connection, "select * from pass_at_k order by k")
        overall = rows_of(connection, "select * from overall where evaluation = 'made-up'")[0]
    questions = by_question(rows)
    videos = [group[0].video_id for group in questions]
    assert (repeats["repeats"], repeats["questions"], repeats["videos"]) == (5, 40, 20)
    assert repeats["accuracy"] == pytest.approx(overall["accuracy"])
    assert passed[0]["pass_at_k"] == pytest.approx(overall["accuracy"])
    assert passed[0]["standard_error"] == pytest.approx(overall["standard_error"])
    vote = with_accuracy_interval(
        clustered_mean([majority(group) for group in questions], videos), 40
    )
    assert repeats["majority_vote"] == pytest.approx(np.mean([majority(g) for g in questions]))
    assert (repeats["majority_vote_low"], repeats["majority_vote_high"]) == pytest.approx(
        (vote.low, vote.high)
    )
    compared = [g for g in questions if sum(r.outcome is not Outcome.FAILED for r in g) > 1]
    assert repeats["questions_with_flip_rate"] == len(compared)
    rate = clustered_mean([flips(group) for group in compared], [g[0].video_id for g in compared])
    assert repeats["flip_rate"] == pytest.approx(rate.mean)
    assert repeats["flip_rate_low"] == pytest.approx(
        with_accuracy_interval(rate, len(compared)).low
    )
    for row in passed:
        shares = [
            np.mean([any(r.is_correct for r in drawn) for drawn in combinations(group, row["k"])])
            for group in questions
        ]
        assert row["pass_at_k"] == pytest.approx(np.mean(shares))
    assert repeats["pass_at_all"] == pytest.approx(passed[-1]["pass_at_k"])


def test_repeats_that_agree_never_flip(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    put(store, [replace(row, repeat=repeat) for repeat in range(3) for row in WITHOUT])
    with database.connect(store) as connection:
        (repeats,) = rows_of(connection, "select * from repeats")
        passed = rows_of(connection, "select pass_at_k from pass_at_k")
    assert repeats["flip_rate"] == 0
    assert repeats["flip_rate_low"] == 0 < repeats["flip_rate_high"], "no interval claims certainty"
    assert repeats["majority_vote"] == repeats["pass_at_all"] == pytest.approx(repeats["accuracy"])
    assert {round(row["pass_at_k"], 9) for row in passed} == {round(repeats["accuracy"], 9)}
