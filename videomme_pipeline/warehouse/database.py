"""The DuckDB file: copies of the tables of a data folder, and views over them.

The file is disposable: it is rebuilt in seconds from the Parquet files of the data folder, `sql/`
and the declarations of the benchmarks. Its tables are copies, so any DuckDB client can open it from
any working directory. The views and `scoring` define what the numbers mean.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from blake3 import blake3
from scipy.special import ndtri, stdtrit
from upath import UPath

from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import registered_benchmarks
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, StorageError
from videomme_pipeline.responses.response import AttemptRow
from videomme_pipeline.rows import arrow_schema, to_table
from videomme_pipeline.scoring.citation_checks import CitationFindingRow, EvaluatedVideo
from videomme_pipeline.scoring.nightly.observation import ObservedQuestion
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import CONFIDENCE, FEW_DIFFERENCES
from videomme_pipeline.scoring.statistics.groups import (
    GroupRule,
    group_score,
    linear_score,
)
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.listing import Listing
from videomme_pipeline.storage.objects import is_local
from videomme_pipeline.storage.publish import publish, replacing
from videomme_pipeline.storage.tables import read_table, set_aside, verify
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.citation_findings import citation_findings
from videomme_pipeline.warehouse.segments import add_segments

_log = logging.getLogger(__name__)
_PART_BYTES = 4 << 20
_FILES_AT_A_TIME = 250
"""Parquet files in one statement. DuckDB needs about 150 kB of memory for each of them."""
_UNREADABLE = (DamagedFileError, FileNotFoundError, StorageError)
"""Errors of reading one file that do not concern the others."""

TABLES: Mapping[str, tuple[type, Callable[[Store], list[UPath]]]] = {
    "questions": (Question, Store.question_files),
    "videos": (Video, Store.video_files),
    "scored_questions": (ScoredQuestion, Store.score_files),
    "evaluated_videos": (EvaluatedVideo, Store.evaluated_video_files),
    "attempts": (AttemptRow, lambda store: store.variant_files("attempts")),
    "nightly_runs": (ObservedQuestion, Store.observation_files),
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

_MACRO_OF = {Measure.ACCURACY: "accuracy_by", Measure.GROUP_SCORE: "group_score_by"}
"""Table macro that computes each measure."""

GROUP_FACETS_MARK = ", /* facets */"
"""Mark in `sql/group_scores.sql` for the facets that benchmarks declare."""

CHAIN_MARK = "/* chain */"
"""Mark in `sql/group_scores.sql` for the columns that follow from the rules of benchmarks."""

_LONGEST_T_TABLE = 4_096
"""Degrees of freedom in `t_quantiles`: more than any benchmark has videos."""

SMALL_CELL_VIDEOS = 10
"""With fewer videos, an accuracy has a Wilson interval (`statistics.accuracy_interval`)."""

_Z_975 = float(ndtri(0.975))

# The standard error takes the sum `s` and the count `n` of one cluster (video) per row; rows with a
# null `n` do not count. Tests compare all macros with `scoring.statistics`.
_MACROS = f"""
create macro clustered_standard_error(s, n) as
    sqrt(greatest(0, sum(s * s) - 2 * (sum(s) / sum(n)) * sum(s * n)
                     + (sum(s) / sum(n)) ** 2 * sum(n * n))
         * count(n) / nullif(count(n) - 1, 0)) / sum(n);

create macro interval_kind(clusters, standard_error) as
    case when clusters >= {SMALL_CELL_VIDEOS} and standard_error > 0
         then 'clustered_t' else 'wilson' end;

create macro wilson_middle(s, n) as
    (s + {_Z_975**2 / 2}) / (n + {_Z_975**2});

create macro wilson_half_width(s, n) as
    {_Z_975} / (n + {_Z_975**2}) * sqrt(s * (n - s) / n + {_Z_975**2 / 4});

create macro interval_low(s, n, clusters, standard_error, t) as
    case interval_kind(clusters, standard_error)
        when 'wilson' then wilson_middle(s, n) - wilson_half_width(s, n)
        else greatest(s / n - t * standard_error, 0) end;

create macro interval_high(s, n, clusters, standard_error, t) as
    case interval_kind(clusters, standard_error)
        when 'wilson' then wilson_middle(s, n) + wilson_half_width(s, n)
        else least(s / n + t * standard_error, 1) end;

create macro difference_kind(clusters, differing, standard_error) as
    case when clusters < 2 then null
         when differing < {FEW_DIFFERENCES} or standard_error < 1e-9 then 'exact'
         else 'clustered_t' end;

create macro same_share(clusters) as
    {1 - CONFIDENCE} ** (1 / clusters);

create macro difference_low(mean, clusters, differing, standard_error, t) as
    case difference_kind(clusters, differing, standard_error)
        when 'exact' then greatest(-1, least(mean - t * standard_error,
                                             same_share(clusters) * (mean + 1) - 1))
        when 'clustered_t' then greatest(-1, mean - t * standard_error) end;

create macro difference_high(mean, clusters, differing, standard_error, t) as
    case difference_kind(clusters, differing, standard_error)
        when 'exact' then least(1, greatest(mean + t * standard_error,
                                            same_share(clusters) * (mean - 1) + 1))
        when 'clustered_t' then least(1, mean + t * standard_error) end;
"""


def rebuild(store: Store, path: Path | None = None) -> tuple[Path, list[str]]:
    """Build the DuckDB file of `store` at `path` (default: `store.warehouse`).

    The new file replaces the old one by a rename. A reader of the old file is not disturbed, and
    sees the new file when it opens it again.

    Returns:
        The path, and one sentence for each Parquet file that was left out because it is unreadable.

    Raises:
        StorageError: if the file cannot be written.
    """
    path = store.warehouse if path is None else path
    if path == store.warehouse and path.is_dir():
        set_aside(path)
    try:
        with replacing(path) as new:
            left_out = _build_file(new, store)
    except duckdb.Error as error:
        raise StorageError(
            f"{path}: cannot build the DuckDB file ({error}); free some space or choose another "
            "path: it can be rebuilt at any time"
        ) from error
    if path == store.warehouse:
        publish(UPath(_checksum_file(store)), _checksum(path))
    return path, left_out


def _build_file(path: Path, store: Store) -> list[str]:
    """Build a DuckDB file, and return the sentences of `rebuild`.

    Closing a connection ignores errors of its last checkpoint, for example on a full disk, and
    leaves the data in the write-ahead log. So the checkpoint is explicit, and the file is opened
    again without that log.
    """
    with duckdb.connect(path) as connection:
        left_out = build(connection, store)
        connection.execute("checkpoint")
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    with _open(path) as connection:
        for name in (*TABLES, *views()):
            connection.execute(f'describe "{name}"')  # fails if it is not in the file
    return left_out


def connect(store: Store, *, allow_files: bool = False) -> duckdb.DuckDBPyConnection:
    """A read-only connection to the DuckDB file of `store`, which is rebuilt if it is stale.

    Its statements can read or write other files only with `allow_files`.

    Raises:
        StorageError: if the file has to be built and cannot be written.
    """
    if not is_current(store):
        rebuild(store)
    connection = _open(store.warehouse)
    if not allow_files:
        connection.execute("set enable_external_access = false; set lock_configuration = true")
    return connection


def findings_of(store: Store, benchmark: str) -> list[CitationFindingRow]:
    """The citation findings about all stored evaluations of `benchmark`.

    They are computed now, without the DuckDB file.
    """
    files: Mapping[str, list[UPath]] = {
        "questions": [store.questions(benchmark)],
        "videos": store.video_files(benchmark),
        "scored_questions": store.score_files(benchmark),
        "evaluated_videos": store.evaluated_video_files(benchmark),
    }
    with duckdb.connect() as connection:
        for name, paths in files.items():
            _load(connection, name, TABLES[name][0], paths)
        return list(citation_findings(connection, store))


def query(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> list[dict[str, Any]]:
    """Run a select statement, and return its rows by column name.

    Raises:
        ConfigurationError: if `sql` contains no statement.
        duckdb.Error: if the statement fails.
    """
    if not duckdb.extract_statements(sql):
        raise ConfigurationError("the SQL query is empty; for example: select * from leaderboard")
    result = connection.execute(sql, list(parameters))
    columns = [column[0] for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def is_current(store: Store) -> bool:
    """True if the DuckDB file is intact, and was built from the current files and views."""
    if not store.warehouse.is_file():
        return False
    checksum = _checksum_file(store)
    if not checksum.is_file() or checksum.read_bytes() != _checksum(store.warehouse):
        return False
    try:
        with _open(store.warehouse) as connection:
            row = connection.execute("select fingerprint from built_from").fetchone()
    except duckdb.Error:
        return False
    return row is not None and row[0] == _fingerprint(store)


def _checksum_file(store: Store) -> Path:
    """The file with the checksum of the DuckDB file."""
    return store.warehouse.with_name(f".{store.warehouse.name}.checksum")


def _checksum(path: Path) -> bytes:
    with path.open("rb") as file:
        digest = blake3(max_threads=blake3.AUTO)
        while part := file.read(_PART_BYTES):
            digest.update(part)
        return digest.hexdigest().encode()


def _open(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to the current file at `path`.

    The file is attached, because `duckdb.connect(path)` returns the replaced file as long as any
    connection to it is open in this process.
    """
    connection = duckdb.connect()
    connection.execute(f"attach {_quoted(str(path))} as videomme (read_only); use videomme")
    return connection


def build(connection: duckdb.DuckDBPyConnection, store: Store) -> list[str]:
    """Create all tables and views in an empty database, and return the sentences of `rebuild`."""
    left_out: list[str] = []
    _create(connection, "built_from", pa.table({"fingerprint": [_fingerprint(store)]}))
    for name, (row_class, list_files) in TABLES.items():
        left_out += _load(connection, name, row_class, list_files(store))
    add_segments(connection, store.warehouse)
    for sentence in left_out:
        _log.warning("left out of the DuckDB file: %s", sentence)
    findings = to_table(citation_findings(connection, store), CitationFindingRow)
    _create(connection, "citation_findings", findings)
    _create(connection, "benchmarks", _benchmarks())
    _create(connection, "t_quantiles", _t_quantiles())
    _create(connection, "group_outcomes", _group_outcomes())
    connection.execute(_MACROS)
    macros = _sql_files("macros")
    for name, sql in _definitions().items():
        kind = f"macro {name}(cell) as table" if name in macros else f'view "{name}" as'
        connection.execute(f"create {kind} {sql}")
    return left_out


def views() -> Mapping[str, str]:
    """The SQL of every view by name, each after the views it reads."""
    macros = _sql_files("macros")
    return {name: sql for name, sql in _definitions().items() if name not in macros}


def _definitions() -> Mapping[str, str]:
    """The SQL of every view and table macro by name, each after the ones it reads.

    A macro takes the facets that it groups by: views of one family differ only in these.
    """
    files = {**_sql_files("macros"), **_sql_files("sql")}
    groups = files["group_scores"].replace(GROUP_FACETS_MARK, _group_facets())
    files["group_scores"] = groups.replace(CHAIN_MARK, _chain_columns())
    return _ordered(tuple((files | _facet_views() | _headline_views()).items()))


@cache
def _ordered(definitions: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The definitions by name, each after the ones it reads."""
    sql_of = dict(definitions)
    with duckdb.connect() as connection:
        sources = {name: table_names(connection, sql) & set(sql_of) for name, sql in sql_of.items()}
    try:
        return {name: sql_of[name] for name in TopologicalSorter(sources).static_order()}
    except CycleError as error:
        raise StorageError(f"views read each other in a circle: {error.args[1]}") from error


def _facet_views() -> dict[str, str]:
    """The SQL of the views that break a score down by declared facets, by name."""
    return {
        name: (
            f"-- grain: one row per ({', '.join(('benchmark', 'evaluation', *columns))})\n"
            f"from {_MACRO_OF[measure]}({list(columns)})\n"
        )
        for benchmark in registered_benchmarks()
        for measure in Measure
        for name, columns in benchmark.breakdowns(measure).items()
    }


def _headline_views() -> dict[str, str]:
    """The SQL of the views of headline metrics that are means over a facet, by name.

    `headlines` combines them with the accuracies and group scores of the other benchmarks.
    """
    headlines = [benchmark.headline for benchmark in registered_benchmarks()]
    means = {
        headline.view: (
            "-- grain: one row per (benchmark, evaluation)\n"
            f"from mean_accuracy_over([{headline.facet!r}])\n"
        )
        for headline in headlines
        if headline.view is not None
    }
    parts = [
        f"select benchmark, evaluation, '{metric}' as metric, {score} as score, "
        f"{low} as score_low, {high} as score_high\n"
        f"from {view} join benchmarks using (benchmark) where headline = '{metric}'"
        for metric, view, score, low, high in (
            ("accuracy", "overall", "accuracy", "accuracy_low", "accuracy_high"),
            (
                "group_score",
                "group_score_overall",
                "group_score / 100",
                "group_score_low / 100",
                "group_score_high / 100",
            ),
            *(
                (view, f'"{view}"', "accuracy", "accuracy_low", "accuracy_high")
                for view in sorted(means)
            ),
        )
    ]
    grain = "-- grain: one row per (benchmark, evaluation)\n"
    scores = "-- The score that ranks evaluations of the benchmark, as a fraction of one.\n"
    return means | {"headlines": grain + scores + "\nunion all\n".join(parts)}


def _benchmarks() -> pa.Table:
    """The registered benchmarks: title, headline metric, and declared numbers of questions."""
    types: dict[str, pa.DataType] = {
        "benchmark": pa.string(),
        "title": pa.string(),
        "headline": pa.string(),
        "declared_questions": pa.int64(),
        "group_size": pa.int64(),
    }
    return pa.Table.from_pylist(
        [
            {
                "benchmark": benchmark.name,
                "title": benchmark.title,
                "headline": benchmark.headline.view or benchmark.headline.metric.value,
                "declared_questions": benchmark.size.questions,
                "group_size": benchmark.grouping.size if benchmark.grouping else None,
            }
            for benchmark in registered_benchmarks()
        ],
        schema=pa.schema(types),
    )


def _group_facets() -> str:
    """The declared facets of a group in SQL: each from the last question that has it."""
    columns = dict.fromkeys(
        facet.column
        for benchmark in registered_benchmarks()
        for facet in benchmark.shown_facets
        if facet.measure is Measure.GROUP_SCORE
    )
    return "".join(
        f",\n           arg_max({_name(column)}, group_place) as {_name(column)}"
        for column in columns
    )


def _chain_columns() -> str:
    """Columns of a question in SQL: true if its group is a chain, and the structure of a chain."""
    is_chain, structure = "", ""
    for benchmark in registered_benchmarks():
        if benchmark.grouping and (chain := benchmark.grouping.chain):
            condition = f'"{chain.facet}"::text = {_quoted(chain.value)}'
            text = f"replace(\"{chain.structure}\"::text, ' ', '')"
            is_chain += f" when {_quoted(benchmark.name)} then {condition}"
            structure += (
                f" when {_quoted(benchmark.name)} then case when {condition} then {text} end"
            )
    if not is_chain:
        return "false as is_chain, null::text as chain_structure"
    return (
        f"case benchmark{is_chain} else false end as is_chain, "
        f"case benchmark{structure} end as chain_structure"
    )


@cache
def _sql_files(folder: str) -> dict[str, str]:
    files_in = sorted(
        (files("videomme_pipeline.warehouse") / folder).iterdir(), key=lambda file: file.name
    )
    return {
        Path(file.name).stem: file.read_text(encoding="utf-8")
        for file in files_in
        if file.name.endswith(".sql")
    }


def table_names(connection: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """Names of the tables, views and table macros that a select statement reads, without binding.

    Raises:
        ValueError: if `sql` is not one select statement.
    """
    row = connection.execute("select json_serialize_sql(?)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        raise ValueError(f"not a select statement: {tree.get('error_message')}")
    nodes = list(_nodes(tree))
    tables = {node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"}
    macros = {
        node["function"]["function_name"] for node in nodes if node.get("type") == "TABLE_FUNCTION"
    }
    return tables | macros


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _fingerprint(store: Store) -> str:
    """Hash of the path and state of each file, and of the code."""
    digest = blake3(Path(__file__).read_bytes())
    for name, sql in _definitions().items():
        digest.update(f"{name}\n{sql}\n".encode())
    listing = Listing(store.root)
    digest.update(repr((_benchmarks().to_pylist(), facet_types())).encode())
    for _, list_files in TABLES.values():
        for path in list_files(store):
            state = listing.state(path)
            digest.update(f"{path} {state.bytes} {state.version}\n".encode())
    return digest.hexdigest(length=12)


def _create(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("incoming", table)
    connection.execute(f'create table "{name}" as select * from incoming')
    connection.unregister("incoming")


def _load(
    connection: duckdb.DuckDBPyConnection, name: str, row_class: type, paths: Sequence[UPath]
) -> list[str]:
    """Create a table from Parquet files, and return a sentence for each unreadable file."""
    schema = arrow_schema(row_class)
    intact, left_out = verify(paths)  # DuckDB itself verifies no checksums
    if not intact:
        _fill(connection, name, schema, [])
        return left_out
    if all(map(is_local, intact)):
        with suppress(duckdb.Error):  # one without a checksum is damaged: load them one by one
            _fill(connection, name, schema, [*_batches(intact)])
            return left_out
    left_out += _stage(connection, schema, intact)
    _fill(connection, name, schema, ["staged"])
    connection.execute("drop table staged")
    return left_out


def _batches(paths: Sequence[UPath]) -> Iterator[str]:
    """Yield the SQL that reads the next `_FILES_AT_A_TIME` local files."""
    for start in range(0, len(paths), _FILES_AT_A_TIME):
        files = ", ".join(_quoted(path.path) for path in paths[start : start + _FILES_AT_A_TIME])
        yield f"read_parquet([{files}], union_by_name = true)"


def _fill(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, sources: Sequence[str]
) -> None:
    """Create a table with the columns of `schema` and the rows of all `sources`.

    Labels of scored questions become enums. Clients see text, but grouping compares numbers, and
    views over millions of rows take half the time.
    """
    connection.execute(f'drop table if exists "{name}"')
    _create(connection, name, schema.empty_table())
    if name == "scored_questions" and sources:
        _number_labels(connection, name, _LABELS, sources)
    columns = ", ".join(map(_quoted, schema.names))
    if FACETS not in schema.names:
        for source in sources:
            connection.execute(
                f"insert into {_name(name)} by name "
                f"select columns(lambda name: name in ({columns})) from {source}"
            )
        return
    facets = _add_facet_columns(connection, name, sources)
    for source in sources:
        connection.execute(
            f"insert into {_name(name)} by name select source.*, {facets} from "
            f"(select columns(lambda name: name in ({columns})) from {source}) as source "
            f"left join facet_values using ({FACETS})"
        )
    connection.execute("drop table facet_values")


def facet_types() -> dict[str, str]:
    """The SQL type of each declared facet by column: text, unless every benchmark has numbers."""
    kinds: dict[str, set[type]] = {}
    for benchmark in registered_benchmarks():
        for facet in benchmark.facets:
            kinds.setdefault(facet.column, set()).add(facet.kind)
    own = {name for row_class, _ in TABLES.values() for name in arrow_schema(row_class).names}
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
        f", try_cast({FACETS} ->> {_quoted(column)} as {kind}) as {_name(column)}"
        for column, kind in types.items()
    )
    connection.execute(
        f"create or replace temp table facet_values as select {FACETS}{values} from ({texts})"
    )
    for column, kind in types.items():
        connection.execute(f"alter table {_name(table)} add column {_name(column)} {kind}")
    labels = [column for column, kind in types.items() if kind == "varchar"]
    _number_labels(connection, table, labels, ["facet_values"])
    return ", ".join(f"facet_values.{_name(column)}" for column in types)


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
    names = [_name(label) for label in labels]
    values = ", ".join(f"list(distinct {name}) filter ({name} is not null)" for name in names)
    lists_by_source = [
        connection.execute(f"select {values} from {source}").fetchone() or () for source in sources
    ]
    for label, lists in zip(labels, zip(*lists_by_source, strict=True), strict=True):
        distinct = {value for values in lists for value in values or ()}
        if distinct:
            label_type = _name(f"{table}_{label}_label")
            listed = ", ".join(map(_quoted, sorted(distinct)))
            connection.execute(f"drop type if exists {label_type}")
            connection.execute(f"create type {label_type} as enum ({listed})")
            connection.execute(
                f"alter table {_name(table)} alter {_name(label)} set data type {label_type}"
            )


def _name(identifier: str) -> str:
    """`identifier` as a quoted SQL name, so that it may be a keyword."""
    return '"' + identifier.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _t_quantiles() -> pa.Table:
    degrees = np.arange(1, _LONGEST_T_TABLE + 1)
    quantiles = stdtrit(degrees, 0.975)
    return pa.table({"degrees_of_freedom": pa.array(degrees), "t_975": pa.array(quantiles)})


def _group_outcomes() -> pa.Table:
    """The score of every possible group of each benchmark under both rules.

    `code` contains the outcomes in question order as base-3 digits, the first question lowest:
    0 incorrect, 1 correct, 2 without a letter.
    """
    digits = (Outcome.INCORRECT, Outcome.CORRECT, Outcome.UNREADABLE)
    types: dict[str, pa.DataType] = {
        "benchmark": pa.string(),
        "is_chain": pa.bool_(),
        "structure": pa.string(),
        "code": pa.int64(),
        "group_score": pa.float64(),
        "group_score_official": pa.float64(),
        "linear_score": pa.float64(),
    }
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
        ],
        schema=pa.schema(types),
    )
