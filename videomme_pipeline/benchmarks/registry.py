"""The benchmarks that are known by name.

A benchmark is declared by a YAML file in the configuration folder or in `published/`, registered by
a program, or provided by an installed package, such as the smoke benchmarks. A package declares a
benchmark with an entry point in the group `videomme_pipeline.benchmarks`: its name is the name of
the benchmark, its value a `Benchmark`. It is loaded when it is first used.
"""

from collections.abc import Collection
from functools import cache, partial
from pathlib import Path

from videomme_pipeline import plugins
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.declaration import PUBLISHED, Declaration
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError

_BENCHMARKS: dict[str, Benchmark] = {}


def register(benchmark: Benchmark, *, replaces: bool = False) -> Benchmark:
    """Make `benchmark` known by its name, and return it.

    ValueError if another benchmark has its name, unless it `replaces` that one.
    """
    if not replaces and _BENCHMARKS.get(benchmark.name, benchmark) != benchmark:
        raise ValueError(f"there is another benchmark called {benchmark.name}; rename one of them")
    _BENCHMARKS[benchmark.name] = benchmark
    return benchmark


def registered_benchmarks() -> tuple[Benchmark, ...]:
    """All registered and loaded benchmarks, in this order."""
    return tuple(_BENCHMARKS.values())


def find_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`.

    A ConfigurationError has the nearest name, or names the package that declares the benchmark and
    cannot be loaded.
    """
    if name in _BENCHMARKS:
        return _BENCHMARKS[name]
    if name in published_benchmarks():
        return register_declared(PUBLISHED / f"{name}.yaml")
    if name not in known_benchmarks():
        hint = nearest(name, known_benchmarks())
        raise ConfigurationError(f"there is no benchmark `{name}`, {hint}")
    benchmark: Benchmark = plugins.find(
        plugins.BENCHMARKS,
        name,
        lambda part: isinstance(part, Benchmark) and part.name == name,
        title=f"benchmark {name}",
        expected="a Benchmark with this name",
    )
    return register(benchmark)


def known_benchmarks() -> tuple[str, ...]:
    """The names of all benchmarks, registered or not."""
    installed = plugins.installed(plugins.BENCHMARKS)
    return tuple(dict.fromkeys((*_BENCHMARKS, *published_benchmarks(), *installed)))


@cache
def published_benchmarks() -> tuple[str, ...]:
    """The names of the published benchmarks that this package declares in YAML files."""
    return tuple(sorted(path.stem for path in PUBLISHED.glob("*.yaml")))


def register_declared(path: Path, reserved: Collection[str] = ()) -> Benchmark:
    """Register the benchmark that a YAML file declares, under the stem of its file name.

    `reserved` are column names that a facet must not use. A ConfigurationError names a mistake in
    the file.
    """
    others = {*published_benchmarks(), *plugins.installed(plugins.BENCHMARKS)}
    if path.stem in others and path.parent != PUBLISHED:
        raise ConfigurationError(
            f"{path}: there is a published benchmark called {path.stem}; rename the file"
        )
    declaration = Declaration.read(path)
    declared = declaration.benchmark(path, partial(DeclaredSource, declaration=declaration))
    clashing = [facet.column for facet in declared.facets if facet.column in reserved]
    if clashing:
        raise ConfigurationError(
            f"{path}: `{clashing[0]}` is a column of the tables; give the facet another name, and "
            f"the name of the dataset's column as `column: {clashing[0]}`"
        )
    return register(declared, replaces=True)


# The views of these benchmarks exist in every DuckDB file.
for built_in in ("videomme", "videomme_v2"):
    find_benchmark(built_in)
