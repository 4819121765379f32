"""Errors of an object store, whatever their class, are storage errors, and never damage."""

from typing import Any, NoReturn

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from videomme_pipeline.errors import StorageError
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import file_states
from videomme_pipeline.storage.publish import publish


class UnreachableError(Exception):
    """An error as packages of object stores raise them: no OSError, and without a number."""


class Unreachable(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """An object store of which every request fails."""

    protocol = "unreachable"
    cachable = False

    def fail(self, *_: object, **__: Any) -> NoReturn:
        raise UnreachableError("connection\nrefused")

    info = ls = find = cat_file = pipe_file = _open = fail


register_implementation("unreachable", Unreachable, clobber=True)
PATH = UPath("unreachable://bucket/data/a.parquet")


def test_reading_and_writing_name_the_object_and_the_reason() -> None:
    with pytest.raises(StorageError, match=r"a\.parquet: cannot read \(connection refused\)"):
        parquet.read_table(PATH)
    with pytest.raises(StorageError, match=r"a\.parquet: cannot read \(connection refused\)"):
        parquet.read_metadata(PATH)
    with pytest.raises(StorageError, match=r"a\.parquet: cannot write \(connection refused\)"):
        publish(PATH, b"data")


def test_listing_says_what_to_check() -> None:
    message = r"cannot list \(connection refused\); check the address, the credentials, the network"
    with pytest.raises(StorageError, match=message):
        Store.at("unreachable://bucket/data").benchmarks()
    with pytest.raises(StorageError, match=message):
        file_states(PATH.parent)
