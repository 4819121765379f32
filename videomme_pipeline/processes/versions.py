"""The versions that processes on several machines must share, because they determine results."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from videomme_pipeline.errors import ClusterError

_SAME_VERSIONS = ("videomme-pipeline", "av", "simplejpeg")
"""Packages that determine frames and packet indexes."""


@cache
def versions() -> Mapping[str, str]:
    """The versions of this process that determine frames and packet indexes."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python} | {name: version(name) for name in _SAME_VERSIONS}


def check_versions(required: Mapping[str, str]) -> None:
    """Raise ClusterError if this process does not have the `required` versions."""
    if different := versions().items() - required.items():
        names = (f"{name} {own}, not {required.get(name)}" for name, own in sorted(different))
        reason = f"{', '.join(names)}; install the versions of the machine that starts the run"
        raise ClusterError(reason)
