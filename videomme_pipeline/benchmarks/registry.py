"""The benchmarks that are known by name: the built-in ones, and those that others register."""

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.smoke import declaration as smoke
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ConfigurationError

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
        Facets.declare(facet.column, facet.kind)
    _BENCHMARKS[benchmark.name] = benchmark
    return benchmark


def unregister(benchmark: Benchmark) -> None:
    """Undo `register`. Facets that no other benchmark declares are no longer columns of tables."""
    del _BENCHMARKS[benchmark.name]
    others = {facet.column for other in all_benchmarks() for facet in other.facets}
    for facet in benchmark.facets:
        if facet.column not in others:
            Facets.withdraw(facet.column)


def benchmark_names() -> tuple[str, ...]:
    """Names of all benchmarks, in the order of registration."""
    return tuple(_BENCHMARKS)


def all_benchmarks() -> tuple[Benchmark, ...]:
    """All benchmarks, in the order of registration."""
    return tuple(_BENCHMARKS.values())


def find_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`.

    Raises:
        ConfigurationError: if there is none. The message has the nearest name.
    """
    if name not in _BENCHMARKS:
        raise ConfigurationError(
            f"no benchmark `{name}`: {nearest(name, benchmark_names())}; a benchmark of your own "
            "must be registered first"
        )
    return _BENCHMARKS[name]


for built_in in (videomme.BENCHMARK, videomme_v2.BENCHMARK, smoke.SMOKE, smoke.SMOKE_V2):
    register(built_in)
