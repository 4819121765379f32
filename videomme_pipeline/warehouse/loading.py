"""Tables of the DuckDB file: loaded from files of the data folder, or constants for views."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import scipy  # submodules are imported on first use
from blake3 import blake3
from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import registered_benchmarks
from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.frames.cache import DecodeTime
from videomme_pipeline.responses.response import AttemptRow
from videomme_pipeline.rows import NOT_STORED, arrow_schema, to_table
from videomme_pipeline.scoring.scored_question import (
    EvaluatedVideo,
    ObservedQuestion,
    Outcome,
    ScoredQuestion,
)
from videomme_pipeline.scoring.statistics.groups import GroupRule, group_score, linear_score
from videomme_pipeline.scoring.verdicts import Checkpoint, RecordedLook
from videomme_pipeline.storage.objects import reaching
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_tables
from videomme_pipeline.subtitles.cues import Cue, read_subtitles
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.definitions import identifier, literal

_log = logging.getLogger(__name__)

_FILES_AT_A_TIME = 250
"""The files whose rows are in memory at the same time."""
_MAX_DEGREES = 4_096
"""Degrees of freedom in `t_quantiles`: more than any benchmark has videos."""


def _questions(results: Results) -> list[UPath]:
    return [path for name in results.benchmarks if (path := results.questions(name))]


def _videos(results: Results) -> list[UPath]:
    return [path for name in results.benchmarks for path in results.videos(name).values()]


def _attempts(results: Results) -> list[UPath]:
    return [path for scores in results.scores() for path in scores.files("attempts").values()]


TABLES: Mapping[str, tuple[type, Callable[[Results], list[UPath]]]] = {
    "questions": (Question, _questions),
    "videos": (Video, _videos),
    "scored_questions": (ScoredQuestion, lambda results: [s.path for s in results.scores()]),
    "evaluated_videos": (
        EvaluatedVideo,
        lambda results: [s.evaluated_videos for s in results.scores()],
    ),
    "decode_times": (DecodeTime, lambda results: results.store.files("decode_times")),
    "attempts": (AttemptRow, _attempts),
    "nightly_runs": (ObservedQuestion, lambda results: results.store.observation_files()),
    "checkpoints": (Checkpoint, lambda results: results.store.newest_files("checkpoints")),
    "races": (RecordedLook, lambda results: results.store.newest_files("races")),
}
"""Tables loaded from the data folder: their row class and their files."""

FACETS = "facets"
"""The column with all facets of a question as JSON. Each declared facet has a column, too."""


def load_table(connection: duckdb.DuckDBPyConnection, name: str, results: Results) -> list[str]:
    """Create one of `TABLES` from Parquet files, and return a sentence for each unreadable file.

    A table with the column `facets` also gets a column for each declared facet.
    """
    row_class, list_files = TABLES[name]
    schema, paths = arrow_schema(row_class), list_files(results)
    facets = facet_types() if FACETS in schema.names else {}
    for column, kind in facets.items():
        schema = schema.append(pa.field(column, pa.int64() if kind is int else pa.string()))
    create_table(connection, name, schema.empty_table())
    left_out: list[str] = []
    for start in range(0, len(paths), _FILES_AT_A_TIME):
        tables, problems = read_tables(paths[start : start + _FILES_AT_A_TIME])
        left_out += problems
        if tables:
            rows = pa.concat_tables(tables, promote_options="permissive")
            rows = _with_facets(rows, facets) if facets else rows
            columns = [column for column in schema.names if column in rows.schema.names]
            insert(connection, name, rows.select(columns))
    return left_out


def create_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Create or replace a table with these rows."""
    connection.register("incoming", table)
    connection.execute(f"create or replace table {identifier(name)} as from incoming")
    connection.unregister("incoming")


def insert(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Insert rows into a table. Columns that they lack are null."""
    connection.register("incoming", rows)
    connection.execute(f"insert into {identifier(name)} by name from incoming")
    connection.unregister("incoming")


def facet_types() -> dict[str, type]:
    """The type of each declared facet: text, unless all its benchmarks have numbers."""
    kinds: dict[str, set[type]] = {}
    for benchmark in registered_benchmarks():
        for facet in benchmark.facets:
            kinds.setdefault(facet.column, set()).add(facet.kind)
    tables = [arrow_schema(row_class).names for row_class, _ in TABLES.values()]
    own = {name for names in tables if FACETS in names for name in names}
    return {
        column: int if types == {int} else str
        for column, types in kinds.items()
        if column not in own
    }


def _with_facets(rows: pa.Table, types: Mapping[str, type]) -> pa.Table:
    encoded = rows[FACETS].combine_chunks().dictionary_encode()
    facets = [json.loads(str(text)) for text in encoded.dictionary.to_pylist()]
    for column in types.keys() & set().union(*facets):
        values = [of.get(column) for of in facets]
        array: pa.Array[Any] = (
            pa.array([value if isinstance(value, int) else None for value in values], pa.int64())
            if types[column] is int
            else pa.array([None if value is None else str(value) for value in values], pa.string())
        )
        rows = rows.append_column(column, array.take(encoded.indices))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleSegment:
    """One cue, not aligned, of the subtitle file whose BLAKE3 is `subtitle_hash`."""

    benchmark: str
    video_id: str
    subtitle_hash: str
    cue: Cue = field(metadata={NOT_STORED: ("line",)})


def add_segments(connection: duckdb.DuckDBPyConnection, previous: Path) -> None:
    """Create the table `subtitle_segments` from the subtitle files of the table `videos`.

    Segments of unchanged files are copied from the DuckDB file `previous`, if there is one. A file
    that is missing, unreadable or changed since its video was read has no segments.
    """
    create_table(connection, "subtitle_segments", to_table([], SubtitleSegment))
    if previous.is_file():
        with suppress(duckdb.Error):  # it is damaged: read the files instead
            connection.execute(f"attach {literal(str(previous))} as previous (read_only)")
            connection.execute(
                "insert into subtitle_segments by name select * from previous.subtitle_segments "
                "semi join videos using (benchmark, video_id, subtitle_hash)"
            )
        connection.execute("detach database if exists previous")
    files = connection.execute(
        "select benchmark, video_id, subtitle_path, subtitle_hash from videos "
        "where subtitle_path is not null and subtitle_hash is not null "
        "except select v.benchmark, v.video_id, v.subtitle_path, v.subtitle_hash from videos as v "
        "semi join subtitle_segments using (benchmark, video_id, subtitle_hash)"
    ).fetchall()
    segments = to_table((row for file in files for row in _segments(*file)), SubtitleSegment)
    insert(connection, "subtitle_segments", segments)


def _segments(
    benchmark: str, video_id: str, path: str, subtitle_hash: str
) -> Iterator[SubtitleSegment]:
    file = UPath(path)
    problem = ""
    try:
        with reaching(file):
            cues = read_subtitles(file).in_file_order
            if blake3(file.read_bytes()).hexdigest() != subtitle_hash:
                problem = f"{path} changed; materialize the `videos` asset again"
    except (OSError, SubtitleError) as error:
        problem = str(error)
    if problem:
        _log.warning("no segments of %s, video %s: %s", benchmark, video_id, problem)
        return
    for cue in cues:
        yield SubtitleSegment(
            benchmark=benchmark, video_id=video_id, subtitle_hash=subtitle_hash, cue=cue
        )


def add_constants(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables `benchmarks`, `t_quantiles` and `group_outcomes`."""
    degrees = np.arange(1, _MAX_DEGREES + 1)
    quantiles = pa.array(scipy.special.stdtrit(degrees, 0.975))
    by_degrees = pa.table({"degrees_of_freedom": pa.array(degrees), "t_975": quantiles})
    create_table(connection, "benchmarks", pa.Table.from_pylist(benchmark_rows()))
    create_table(connection, "t_quantiles", by_degrees)
    create_table(connection, "group_outcomes", _group_outcomes())


def benchmark_rows() -> list[dict[str, Any]]:
    """The registered benchmarks: title, headline metric, and declared numbers of questions."""
    return [
        {
            "benchmark": benchmark.name,
            "title": benchmark.title,
            "headline": benchmark.headline,
            "declared_questions": benchmark.size.questions,
            "group_size": benchmark.grouping.size if benchmark.grouping else None,
        }
        for benchmark in registered_benchmarks()
    ]


def _group_outcomes() -> pa.Table:
    """The score of every possible group of each benchmark under both rules.

    `code` contains the outcomes in question order as base-3 digits, the first question lowest:
    0 incorrect, 1 correct, 2 without a letter.
    """
    digits = (Outcome.INCORRECT, Outcome.CORRECT, Outcome.UNREADABLE)
    return pa.Table.from_pylist(
        [
            {
                "benchmark": benchmark.name,
                "is_chain": structure is not None,
                "structure": structure,
                "code": sum(digit * 3**position for position, digit in enumerate(code)),
                "group_score": group_score(grouping, structure, outcomes),
                "group_score_official": group_score(
                    grouping, structure, outcomes, GroupRule.OFFICIAL
                ),
                "linear_score": linear_score(outcomes),
            }
            for benchmark in registered_benchmarks()
            if (grouping := benchmark.grouping) is not None
            for structure in (None, *(grouping.chain.scores if grouping.chain else ()))
            for code in product(range(3), repeat=grouping.size)
            if (outcomes := [digits[digit] for digit in code])
        ]
    )
