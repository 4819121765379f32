"""The benchmarks that are known by name.

They are the built-in ones, those that a program registers, and those of installed packages. A
package declares a benchmark with an entry point in the group `videomme_pipeline.benchmarks`: its
name is the name of the benchmark, its value a `Benchmark`. It is loaded when it is first used.
"""

from importlib.metadata import EntryPoint, entry_points

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.smoke import declaration as smoke
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError

ENTRY_POINT_GROUP = "videomme_pipeline.benchmarks"

_BENCHMARKS: dict[str, Benchmark] = {}


def register(benchmark: Benchmark) -> Benchmark:
    """Make `benchmark` known by its name, and return it. Its facets become columns of tables.

    Raises:
        ValueError: if another benchmark has its name, or another type for one of its facets.
    """
    if _BENCHMARKS.get(benchmark.name, benchmark) != benchmark:
        raise ValueError(f"there is another benchmark called {benchmark.name}; rename one of them")
    for facet in benchmark.facets:
        known = Facets.declared.get(facet.column, facet.kind)
        if known is not facet.kind:
            raise ValueError(
                f"benchmark {benchmark.name}: facet {facet.column} is {facet.kind.__name__}, but "
                f"{known.__name__} in another benchmark; rename one of them"
            )
    for facet in benchmark.facets:
        if facet.derivation is None:
            Facets.declare(facet.column, facet.kind)
        else:
            Facets.derivations[facet.column] = facet.derivation
    _BENCHMARKS[benchmark.name] = benchmark
    return benchmark


def registered_benchmarks() -> tuple[Benchmark, ...]:
    """All built-in, registered and loaded benchmarks, in this order."""
    return tuple(_BENCHMARKS.values())


def find_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`.

    Raises:
        ConfigurationError: if there is none; the message has the nearest name. Also if the package
            that declares it cannot be loaded; the message names the package.
    """
    if name in _BENCHMARKS:
        return _BENCHMARKS[name]
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in installed:
        known = (*_BENCHMARKS, *installed)
        raise ConfigurationError(f"there is no benchmark `{name}`, {nearest(name, known)}")
    return _load(installed[name])


def _load(entry_point: EntryPoint) -> Benchmark:
    """Register the benchmark of an entry point."""
    package = entry_point.dist.name if entry_point.dist else entry_point.module
    try:
        benchmark = entry_point.load()
    except Exception as error:
        raise ConfigurationError(
            f"benchmark {entry_point.name} needs the package {package}, which cannot be loaded "
            f"({type(error).__name__}: {error}); repair or reinstall it"
        ) from error
    if not isinstance(benchmark, Benchmark) or benchmark.name != entry_point.name:
        raise ConfigurationError(
            f"benchmark {entry_point.name} of the package {package} is {benchmark!r}, not a "
            "Benchmark with this name; report this to its authors"
        )
    try:
        return register(benchmark)
    except ValueError as error:
        raise ConfigurationError(f"package {package}: {error}") from error


for built_in in (videomme.BENCHMARK, videomme_v2.BENCHMARK, smoke.SMOKE, smoke.SMOKE_V2):
    register(built_in)
