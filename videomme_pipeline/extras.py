"""Optional packages: which extra installs them, and the error that names the extra.

Modules import these packages where they use them, so that the base installation works without.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from videomme_pipeline.errors import MissingExtraError

EXTRAS = {
    "alerts": ("apprise",),
    "charts": ("altair", "pandas", "vl_convert"),
    "decord": ("decord",),
    "demo": ("onnxruntime", "rapidocr", "xllamacpp"),
    "postgres": ("dagster_postgres", "psycopg2"),
    "torchcodec": ("torchcodec",),
}
"""Modules that each extra of `pip install 'videomme-pipeline[EXTRA]'` provides."""


def is_installed(extra: str) -> bool:
    """True if every module of `extra` can be imported. Imports nothing."""
    return all(find_spec(module) is not None for module in EXTRAS[extra])


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Import packages of `extra` within this block.

    Raises:
        MissingExtraError: if a module is not installed. `purpose` is the subject of its message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, purpose, str(error.name)) from error
