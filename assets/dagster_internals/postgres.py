"""Connections of Dagster to PostgreSQL, which wait for a database that is away for a moment."""

import io
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from videomme_pipeline.storage.postgres import await_connection

Result = TypeVar("Result")


def wait_for_connections() -> None:
    """Let Dagster connect for a minute, and raise the error of the database then.

    Dagster itself gives up after some seconds, and logs a warning about each attempt. Before it
    raises the error, it would also write the error to standard error.
    """
    from dagster._core.instance import types  # noqa: PLC0415 - slow to import
    from dagster_postgres import utils  # noqa: PLC0415 - an extra

    utils.retry_pg_connection_fn = _connected  # type: ignore[assignment]
    vars(types)["sys"] = SimpleNamespace(stderr=io.StringIO(), exc_info=sys.exc_info)


def _connected(connect: Callable[[], Result], **_: object) -> Result:
    return await_connection(connect, DBAPIError)
