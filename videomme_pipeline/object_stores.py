"""Paths in object stores, and the errors of the packages that reach them."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upath import UPath


def is_local(path: UPath | Path) -> bool:
    """Return True if `path` is on a file system, where a rename publishes a file."""
    return not isinstance(path, UPath) or path.protocol in ("", "file", "local")


@contextmanager
def reaching(path: UPath | Path) -> Iterator[None]:
    """Turn every error of an object store in the block into an OSError with number and text.

    The package of each store has its own classes of errors, of which many are no OSError.

    Raises:
        FileNotFoundError: if there is no such object.
        OSError: for all other errors.
    """
    try:
        yield
    except Exception as error:
        if is_local(path) or isinstance(error, FileNotFoundError):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        raise OSError(getattr(error, "errno", None) or errno.EIO, text) from error
