"""Tables of the DuckDB file, loaded from the Parquet files of the data folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import duckdb
import pyarrow as pa
from upath import UPath

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import registered_benchmarks
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, StorageError
from videomme_pipeline.frames.cache import DecodeTime
from videomme_pipeline.responses.response import AttemptRow
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.scoring.checkpoint import Checkpoint
from videomme_pipeline.scoring.findings.run import EvaluatedVideo
from videomme_pipeline.scoring.nightly.observation import ObservedQuestion
from videomme_pipeline.scoring.recorded_look import RecordedLook
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import is_local
from videomme_pipeline.storage.tables import read_table, verify
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.quoting import identifier, literal

_FILES_AT_A_TIME = 250
"""Parquet files in one statement. DuckDB needs about 150 kB of memory for each of them."""

_UNREADABLE = (DamagedFileError, FileNotFoundError, StorageError)
"""Errors of reading one file that do not concern the others."""

TABLES: Mapping[str, tuple[type, Callable[[Store], list[UPath]]]] = {
    "questions": (Question, Store.question_files),
    "videos": (Video, Store.video_files),
    "scored_questions": (ScoredQuestion, Store.score_files),
    "evaluated_videos": (EvaluatedVideo, Store.evaluated_video_files),
    "decode_times": (DecodeTime, Store.decode_times_files),
    "attempts": (AttemptRow, lambda store: store.variant_files("attempts")),
    "nightly_runs": (ObservedQuestion, Store.observation_files),
    "checkpoints": (Checkpoint, Store.checkpoint_files),
    "races": (RecordedLook, Store.race_files),
}
"""Tables loaded from the data folder: their row class and their files."""

_LABELS = (
    "benchmark",
    "evaluation",
    "video_id",
    "question_id",
    "outcome",
    "model",
    "sampling",
    "track",
    "pairing",
    "reader",
    "judge",
)
"""Text columns of `scored_questions` with few values, by which views group and join."""

FACETS = "facets"
"""The column with all facets of a question as JSON. Each declared facet has a column, too."""


def load_table(
    connection: duckdb.DuckDBPyConnection, name: str, row_class: type, paths: Sequence[UPath]
) -> list[str]:
    """Create a table from Parquet files, and return a sentence for each unreadable file.

    Raises:
        ConfigurationError: if a file of scores has another name than the evaluation in it.
    """
    schema = arrow_schema(row_class)
    intact, left_out = verify(paths)  # DuckDB itself verifies no checksums
    left_out += _load(connection, name, schema, intact)
    if name == "scored_questions":
        _require_names(connection, intact)
    return left_out


def _load(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, intact: Sequence[UPath]
) -> list[str]:
    if all(map(is_local, intact)):
        with suppress(duckdb.Error):  # a file without a checksum is damaged: load each file alone
            _fill(connection, name, schema, [*_batches(intact)])
            return []
    left_out = _stage(connection, schema, intact)
    _fill(connection, name, schema, ["staged"])
    connection.execute("drop table staged")
    return left_out


def _require_names(connection: duckdb.DuckDBPyConnection, paths: Sequence[UPath]) -> None:
    """Raise an error if the name of a file is not the name of the evaluation with its scores."""
    query = "select distinct evaluation::text from scored_questions"
    names = {name for (name,) in connection.execute(query).fetchall()}
    for path in paths:
        with suppress(*_UNREADABLE):
            if path.stem in names or not read_table(path).num_rows:
                continue
            raise ConfigurationError(
                f"{path}: no score in this file belongs to an evaluation `{path.stem}`; the file "
                "was renamed or copied: give it its name again, or remove it"
            )


def create_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("incoming", table)
    connection.execute(f"create table {identifier(name)} as select * from incoming")
    connection.unregister("incoming")


def _batches(paths: Sequence[UPath]) -> Iterator[str]:
    """Yield the SQL that reads the next `_FILES_AT_A_TIME` local files."""
    for start in range(0, len(paths), _FILES_AT_A_TIME):
        files = ", ".join(literal(path.path) for path in paths[start : start + _FILES_AT_A_TIME])
        yield f"read_parquet([{files}], union_by_name = true)"


def _fill(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, sources: Sequence[str]
) -> None:
    """Create a table with the columns of `schema` and the rows of all `sources`.

    Labels of scored questions become enums. Clients see text, but grouping compares numbers, and
    views over millions of rows take half the time.
    """
    connection.execute(f"drop table if exists {identifier(name)}")
    create_table(connection, name, schema.empty_table())
    if name == "scored_questions" and sources:
        _number_labels(connection, name, _LABELS, sources)
    columns = ", ".join(map(literal, schema.names))
    if FACETS not in schema.names:
        for source in sources:
            connection.execute(
                f"insert into {identifier(name)} by name "
                f"select columns(lambda name: name in ({columns})) from {source}"
            )
        return
    facets = _add_facet_columns(connection, name, sources)
    for source in sources:
        connection.execute(
            f"insert into {identifier(name)} by name select source.*, {facets} from "
            f"(select columns(lambda name: name in ({columns})) from {source}) as source "
            f"left join facet_values using ({FACETS})"
        )
    connection.execute("drop table facet_values")


def facet_types() -> dict[str, str]:
    """SQL type of each declared facet, by column. Text, unless all its benchmarks have numbers."""
    kinds: dict[str, set[type]] = {}
    for benchmark in registered_benchmarks():
        for facet in benchmark.facets:
            kinds.setdefault(facet.column, set()).add(facet.kind)
    tables = [arrow_schema(row_class).names for row_class, _ in TABLES.values()]
    own = {name for names in tables if FACETS in names for name in names}
    return {
        column: "bigint" if types == {int} else "varchar"
        for column, types in kinds.items()
        if column not in own
    }


def _add_facet_columns(
    connection: duckdb.DuckDBPyConnection, table: str, sources: Sequence[str]
) -> str:
    """Add a column for each declared facet to `table`, and return the SQL of their values.

    Creates the temporary table `facet_values`, which has the values in each text of the column
    `facets`. Text columns are enums, like other labels.
    """
    none = f"select null::varchar as {FACETS} where false"
    texts = " union ".join([none, *(f"select {FACETS} from {source}" for source in sources)])
    types = facet_types()
    values = "".join(
        f", try_cast({FACETS} ->> {literal(column)} as {kind}) as {identifier(column)}"
        for column, kind in types.items()
    )
    connection.execute(
        f"create or replace temp table facet_values as select {FACETS}{values} from ({texts})"
    )
    for column, kind in types.items():
        connection.execute(
            f"alter table {identifier(table)} add column {identifier(column)} {kind}"
        )
    labels = [column for column, kind in types.items() if kind == "varchar"]
    _number_labels(connection, table, labels, ["facet_values"])
    return ", ".join(f"facet_values.{identifier(column)}" for column in types)


def _stage(
    connection: duckdb.DuckDBPyConnection, schema: pa.Schema, paths: Sequence[UPath]
) -> list[str]:
    """Load the readable files into a temporary table, one by one."""
    left_out = []
    connection.register("incoming", schema.empty_table())
    connection.execute("create or replace temp table staged as from incoming")
    for path in paths:
        try:
            table = read_table(path)
            columns = [column for column in schema.names if column in table.schema.names]
            connection.register("incoming", table.select(columns))
        except _UNREADABLE as error:
            left_out.append(str(error))
            continue
        connection.execute("insert into staged by name from incoming")
    connection.unregister("incoming")
    return left_out


def _number_labels(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    labels: Sequence[str],
    sources: Sequence[str],
) -> None:
    """Change columns of `table`, which is empty, to enums of their values in `sources`."""
    if not labels:
        return
    values: dict[str, set[str]] = {label: set() for label in labels}
    # `list(distinct …)` of each label takes 50 ms of CPU time even for a few rows.
    columns = ", ".join(map(identifier, labels))
    distinct = " union all ".join(
        f"select distinct {literal(label)}, {identifier(label)} from labels" for label in labels
    )
    for source in sources:
        pairs = connection.execute(
            f"with labels as materialized (select {columns} from {source}) {distinct}"
        ).fetchall()
        for label, value in pairs:
            if value is not None:
                values[label].add(value)
    for label, distinct_values in values.items():
        if distinct_values:
            label_type = identifier(f"{table}_{label}_label")
            listed = ", ".join(map(literal, sorted(distinct_values)))
            connection.execute(f"drop type if exists {label_type}")
            connection.execute(f"create type {label_type} as enum ({listed})")
            connection.execute(
                f"alter table {identifier(table)} alter {identifier(label)} "
                f"set data type {label_type}"
            )
