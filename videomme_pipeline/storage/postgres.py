"""The PostgreSQL database that several machines share: connections, and errors with advice.

psycopg2 is an extra, so it is imported where it is used.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from videomme_pipeline.errors import ConfigurationError, StorageError
from videomme_pipeline.extras import needs_extra

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812 - its name is a class

Result = TypeVar("Result")

POSTGRES_VARIABLE = "VIDEOMME_POSTGRES_URL"
POSTGRES_SCHEME = "postgresql+psycopg2://"
RETRY_SECONDS = 60.0
"""A database that was reached before is awaited for this time."""
_PAUSE_SECONDS = 0.5
_absence: dict[str, float] = {}
"""The time `since` which the database has been away, for all connections of this process."""
_SERVER_OPTIONS = (
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 "
    "-c idle_session_timeout=0 -c idle_in_transaction_session_timeout=20s"
)
"""The server detects within a minute that the machine of a session is gone, and ends a transaction
whose client is silent for 20 seconds."""
_CLIENT_OPTIONS = {"keepalives_idle": 30, "keepalives_interval": 10, "tcp_user_timeout": 60_000}
"""This process detects within a minute that the server cannot be reached any more."""


def library() -> Any:
    """The module psycopg2. Raises MissingExtraError if it is not installed."""
    with needs_extra("postgres", POSTGRES_VARIABLE):
        import psycopg2  # noqa: PLC0415
    return psycopg2


def location(url: str) -> str:
    """The host, port and database of a URL, without the user's name and password."""
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


def connect(url: str, *, name: str, options: str = "") -> "Connection":
    """A connection on which every statement is a transaction, unless it begins one.

    `name` is what the server shows for the session. Raises psycopg2.OperationalError if the server
    cannot be reached, MissingExtraError if psycopg2 is not installed, and ConfigurationError for a
    connection pool such as PgBouncer, which gives the session of a lock to other clients.
    """
    psycopg2 = library()
    try:
        connection: Connection = psycopg2.connect(
            url.replace(POSTGRES_SCHEME, "postgresql://", 1),
            application_name=name,
            options=f"{_SERVER_OPTIONS} {options}",
            **_CLIENT_OPTIONS,
        )
    except psycopg2.OperationalError as error:
        if "unsupported startup parameter" in str(error):
            raise _pooled(url) from error
        raise
    connection.autocommit = True
    ((process_id,),) = rows_of(connection, "select pg_backend_pid()")
    if process_id != connection.info.backend_pid:
        connection.close()
        raise _pooled(url)
    return connection


def rows_of(connection: "Connection", sql: str, *values: object) -> list[Any]:
    """Execute `sql`, and return the rows as tuples. A statement without rows returns none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []


def await_connection(connect: Callable[[], Result], *errors: type[Exception]) -> Result:
    """The result of `connect`, which is called again after one of `errors`.

    The error is raised when the database has been away for `RETRY_SECONDS`. From then on, every
    error is raised at once until the database is back.
    """
    while True:
        try:
            result = connect()
        except errors:
            now = time.monotonic()
            since = _absence.setdefault("since", now)
            if now - since >= RETRY_SECONDS:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            _absence.clear()
            return result


@contextmanager
def turn(url: str) -> Iterator[None]:
    """Wait until no other process, on any machine, is in such a block for this database.

    Raises StorageError if the server cannot be reached, and ConfigurationError as `connect`.
    """
    with explaining(url), closing(connect(url, name="videomme")) as connection:
        rows_of(connection, "select pg_advisory_lock(hashtextextended('videomme turn', 0))")
        yield


def _pooled(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"{location(url)}: this is a connection pool (PgBouncer or the like), which gives the "
        f"session of a lock to other clients; set {POSTGRES_VARIABLE} to the PostgreSQL server "
        "itself"
    )


@contextmanager
def explaining(url: str) -> Iterator[None]:
    """Turn an error of PostgreSQL in the block into an error that says what to do."""
    try:
        yield
    except library().Error as error:
        raise unusable(url, error) from error


def unusable(url: str, error: Exception) -> StorageError:
    """The error for a database that cannot be reached, read or written."""
    problem = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
    return StorageError(
        f"{location(url)}: PostgreSQL cannot be used ({problem}); start it or correct "
        f"{POSTGRES_VARIABLE}, then run again. Everything that is already stored is kept."
    )
