"""Parts that packages add by entry points: models, benchmarks, servers, workers, trackers, locks.

A package names its part in one of these groups of its `pyproject.toml`, and so do the companions of
this one (`demo`, `serving`, `cluster`). Errors name the package whose part cannot be used.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError

MODELS = "videomme_pipeline.models"
"""Kinds of models, by the `kind` in `models.yaml`. The value is a `Provider`."""
BENCHMARKS = "videomme_pipeline.benchmarks"
"""Benchmarks, by name. The value is a `Benchmark`."""
WORKERS = "videomme_pipeline.workers"
"""Kinds of workers, by the `kind` in `cluster.yaml`. The value is a subclass of `ClusterSpec`."""
SERVERS = "videomme_pipeline.servers"
"""Kinds of servers, by the `kind` in `serve` of a model. The value is a subclass of `ServeSpec`."""
TRACKERS = "videomme_pipeline.trackers"
"""Experiment trackers, by the `tracker` in `checkpoints.yaml`. The value is a function."""
LOCKS = "videomme_pipeline.locks"
"""Locks that several machines share, by the scheme of a database's URL: a subclass of `Locks`."""


def installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group, by name. Nothing is imported."""
    return _installed(group, tuple(sys.path))


@cache
def _installed(group: str, _path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """The entry points on this path. A search reads a file of every installed package (10 ms)."""
    return {point.name: point for point in entry_points(group=group)}


def find(
    group: str, name: str, is_valid: Callable[[object], bool], *, title: str, expected: str
) -> Any:
    """The part called `name` in a group.

    `title` and `expected` describe the part in messages: "benchmark smoke" and "a Benchmark".
    Raises ConfigurationError if no package has the part, or its package cannot be used.
    """
    points = installed(group)
    if name not in points:
        hint = nearest(name, tuple(points)) if points else "reinstall videomme-pipeline"
        raise ConfigurationError(f"{title}: no installed package has it, {hint}")
    point = points[name]
    package = point.dist.name if point.dist else point.module
    try:
        part = point.load()
    except Exception as error:
        raise ConfigurationError(
            f"{title} needs the package {package}, which cannot be loaded "
            f"({type(error).__name__}: {error}); repair or reinstall it"
        ) from error
    if not is_valid(part):
        raise ConfigurationError(
            f"{title} of the package {package} is {part!r}, not {expected}; report this to its "
            "authors"
        )
    return part


def find_class(group: str, name: str, base: type, title: str) -> Any:
    """The subclass of `base` called `name` in a group. Errors are those of `find`."""
    return find(
        group,
        name,
        lambda part: isinstance(part, type) and issubclass(part, base),
        title=title,
        expected=f"a subclass of {base.__module__}.{base.__name__}",
    )


def find_classes(group: str, base: type) -> list[Any]:
    """All subclasses of `base` in a group. Errors are those of `find`."""
    return [find_class(group, name, base, f"`{name}` of {group}") for name in installed(group)]
