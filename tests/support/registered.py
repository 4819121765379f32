"""Benchmarks that are registered only during a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from videomme_pipeline.benchmarks import registry
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facets


@contextmanager
def registered(*benchmarks: Benchmark) -> Iterator[None]:
    """Register `benchmarks`. On exit, restore the registry and the columns of tables."""
    known, columns = dict(registry._BENCHMARKS), dict(Facets.declared)
    derivations = dict(Facets.derivations)
    try:
        for benchmark in benchmarks:
            registry.register(benchmark)
        yield
    finally:
        registry._BENCHMARKS.clear()
        registry._BENCHMARKS.update(known)
        Facets.derivations.clear()
        Facets.derivations.update(derivations)
        Facets.declared.clear()
        for column, kind in columns.items():
            Facets.declare(column, kind)
