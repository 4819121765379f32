"""Connections of Dagster to PostgreSQL, which wait for a database that is away for a moment."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from videomme_pipeline.storage.postgres import await_connection

Result = TypeVar("Result")


def wait_for_connections() -> None:
    """Let Dagster connect for a minute, and raise the error of the database then.

    Dagster itself gives up after some seconds, and logs a warning about each attempt.
    """
    from dagster_postgres import utils  # noqa: PLC0415 - an extra

    utils.retry_pg_connection_fn = _connected  # type: ignore[assignment]


def _connected(connect: Callable[[], Result], **_: object) -> Result:
    return await_connection(connect, DBAPIError)
