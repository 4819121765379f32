"""Tables of the DuckDB file, loaded from the Parquet files of the data folder."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa
from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import registered_benchmarks
from videomme_pipeline.frames.cache import DecodeTime
from videomme_pipeline.responses.response import AttemptRow
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.scoring.checkpoint import Checkpoint
from videomme_pipeline.scoring.findings.run import EvaluatedVideo
from videomme_pipeline.scoring.recorded_look import RecordedLook
from videomme_pipeline.scoring.scored_question import ObservedQuestion, ScoredQuestion
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_tables
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.definitions import identifier

_FILES_AT_A_TIME = 250
"""The files whose rows are in memory at the same time."""


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
    "checkpoints": (Checkpoint, lambda results: results.store.checkpoint_files()),
    "races": (RecordedLook, lambda results: results.store.race_files()),
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
