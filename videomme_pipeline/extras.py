"""Optional packages, the extras that install them, and the error for a missing package.

Modules import these packages where they use them, so that the base installation works without them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from videomme_pipeline.errors import MissingExtraError

EXTRAS = {
    "alerts": ("apprise",),
    "charts": ("altair", "pandas", "vl_convert"),
    "cluster": ("cryptography", "dask_jobqueue", "distributed"),
    "decord": ("decord",),
    "demo": ("onnxruntime", "rapidocr", "xllamacpp"),
    "kubernetes": ("dagster_k8s",),
    "postgres": ("dagster_postgres", "psycopg2"),
    "s3": ("s3fs",),
    "trackers": ("mlflow", "swanlab", "trackio", "wandb"),
}
"""Modules that each extra of `pip install 'videomme-pipeline[EXTRA]'` provides."""


def is_installed(extra: str) -> bool:
    """True if every module of `extra` can be imported. Imports nothing."""
    return all(find_spec(module) is not None for module in EXTRAS[extra])


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Raise MissingExtraError, which says that `purpose` needs `extra`, if an import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, purpose, str(error.name)) from error
