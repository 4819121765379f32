"""The DuckDB file: copies of the tables of a data folder, and views over them.

The file is disposable: it is rebuilt in seconds from the Parquet files of the data folder, `sql/`
and the declarations of the benchmarks. Its tables are copies, so any DuckDB client can open it from
any working directory. The views and `scoring` define what the numbers mean.
"""

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from blake3 import blake3
from upath import UPath

from videomme_pipeline.errors import ConfigurationError, StorageError
from videomme_pipeline.fingerprint import text_fingerprint
from videomme_pipeline.rows import to_table
from videomme_pipeline.scoring.findings.run import CitationFinding
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import publish, replacing
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import set_aside
from videomme_pipeline.warehouse import loading
from videomme_pipeline.warehouse.definitions import (
    definitions,
    identifier,
    literal,
    scalar_macros,
    sql_files,
    views,
)
from videomme_pipeline.warehouse.evidence import citation_findings

_log = logging.getLogger(__name__)


def rebuild(store: Store) -> list[str]:
    """Build the DuckDB file of `store`, and return a sentence for each file that was left out.

    Unreadable files are left out. The new DuckDB file replaces the old one by a rename, so a reader
    of the old one is not disturbed. Raises StorageError if the file cannot be written.
    """
    path = store.warehouse
    if path.is_dir():
        set_aside(path)
    fingerprint = _fingerprint(Results(store))
    try:
        with replacing(path) as new:
            left_out = _build_file(new, store)
    except duckdb.Error as error:
        raise StorageError(
            f"{path}: cannot build the DuckDB file ({error}); free some space or choose another "
            "data folder: it can be rebuilt at any time"
        ) from error
    publish(UPath(_signature_file(path)), _signature(path, fingerprint))
    return left_out


def _build_file(path: Path, store: Store) -> list[str]:
    """Build a DuckDB file, and return the sentences of `rebuild`.

    Closing a connection ignores errors of its last checkpoint, as on a full disk, and leaves data
    in the write-ahead log. So the checkpoint is explicit, and the file is opened without that log.
    """
    with duckdb.connect(path) as connection:
        left_out = build(connection, store)
        connection.execute("checkpoint")
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    with _open(path) as connection:
        for name in (*loading.TABLES, *views()):
            connection.execute(f"describe {identifier(name)}")  # fails if it is not in the file
    return left_out


_ONLY_THIS_FILE = (
    # Otherwise statements can use the folder of temporary files, `.tmp` in the working directory.
    "set temp_directory = ''; set allowed_directories = []; "
    "set enable_external_access = false; set lock_configuration = true"
)


def connect(store: Store, *, allow_files: bool = False) -> duckdb.DuckDBPyConnection:
    """A read-only connection to the DuckDB file of `store`, which is rebuilt if it is stale.

    If the data folder cannot be written, the connection is to a file in TMPDIR, which disappears
    with the connection. Its statements can read or write other files only with `allow_files`.
    """
    try:
        if not is_current(store):
            rebuild(store)
        connection = _open(store.warehouse)
    except StorageError:
        temporary = tempfile.gettempdir()
        _log.warning(
            "%s cannot be written; this command builds it in %s", store.warehouse, temporary
        )
        with tempfile.TemporaryDirectory(prefix="videomme-") as folder:
            file = Path(folder) / store.warehouse.name
            _build_file(file, store)
            connection = _open(file)  # reads the file also after its name is removed
    if not allow_files:
        connection.execute(_ONLY_THIS_FILE)
    return connection


def findings_of(store: Store, benchmark: str) -> list[CitationFinding]:
    """The citation findings about all stored evaluations of `benchmark`, without a DuckDB file."""
    results = Results(store, benchmark=benchmark)
    with duckdb.connect() as connection:
        for name in ("questions", "videos", "scored_questions", "evaluated_videos"):
            for sentence in loading.load_table(connection, name, results):
                _log.warning("%s", sentence)
        return list(citation_findings(connection, results))


def query(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> list[dict[str, Any]]:
    """The rows of a statement by column name. Raises ConfigurationError or duckdb.Error."""
    if not duckdb.extract_statements(sql):
        raise ConfigurationError("the SQL query is empty; for example: select * from leaderboard")
    result = connection.execute(sql, list(parameters))
    columns = [column[0] for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def is_current(store: Store) -> bool:
    """True if the DuckDB file is intact, and was built from the current files and views."""
    path, signature = store.warehouse, _signature_file(store.warehouse)
    if not (path.is_file() and signature.is_file()):
        return False
    return signature.read_bytes() == _signature(path, _fingerprint(Results(store)))


def _signature_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.built_from")


def _signature(path: Path, fingerprint: str) -> bytes:
    """The fingerprint of what the file at `path` was built from, and the file's checksum."""
    return f"{fingerprint} {blake3().update_mmap(path).hexdigest()}".encode()


def _open(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to the current file at `path`.

    The file is attached, because `duckdb.connect(path)` returns the replaced file as long as any
    connection to it is open in this process.
    """
    connection = duckdb.connect()
    connection.execute(f"attach {literal(str(path))} as videomme (read_only); use videomme")
    return connection


def build(connection: duckdb.DuckDBPyConnection, store: Store) -> list[str]:
    """Create all tables and views in an empty database, and return the sentences of `rebuild`."""
    left_out: list[str] = []
    results = Results(store)
    for name in loading.TABLES:
        left_out += loading.load_table(connection, name, results)
    loading.add_segments(connection, store.warehouse)
    for sentence in left_out:
        _log.warning("left out of the DuckDB file: %s", sentence)
    findings = to_table(citation_findings(connection, results), CitationFinding)
    loading.create_table(connection, "citation_findings", findings)
    loading.add_constants(connection)
    connection.execute(scalar_macros())
    macros = sql_files("macros")
    for name, sql in definitions().items():
        kind = f"macro {name}(cell) as table" if name in macros else f"view {identifier(name)} as"
        connection.execute(f"create {kind} {sql}")
    return left_out


def _fingerprint(results: Results) -> str:
    """Hash of the name of each file, and of the code. A file with a name never changes."""
    code = [module.read_bytes() for module in sorted(Path(__file__).parent.glob("*.py"))]
    sql = [*definitions().items(), scalar_macros(), loading.benchmark_rows(), loading.facet_types()]
    files = [
        str(path.relative_to(results.store.root))
        for _, list_files in loading.TABLES.values()
        for path in list_files(results)
    ]
    return text_fingerprint(*map(repr, (code, sql, files)))
