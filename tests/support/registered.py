"""Benchmarks that are registered only during a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from videomme_pipeline.benchmarks import registry
from videomme_pipeline.benchmarks.benchmark import Benchmark


@contextmanager
def registered(*benchmarks: Benchmark) -> Iterator[None]:
    """Register `benchmarks`. On exit, restore the registry."""
    before = dict(registry._BENCHMARKS)
    try:
        for benchmark in benchmarks:
            registry.register(benchmark)
        yield
    finally:
        registry._BENCHMARKS.clear()
        registry._BENCHMARKS.update(before)
