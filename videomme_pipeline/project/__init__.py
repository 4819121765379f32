"""The project: a configuration folder, a data folder, and the operations on both.

A `Project` opens the two folders. A `BenchmarkState` has the settings and the stored data of one
benchmark, and `Versions` computes the data versions of its partitions. The other modules read
stored inputs, ask models, score answers, run tracked evaluations, estimate costs and clean up.
Nothing here imports Dagster: `assets/` builds a graph from these parts, and the command line uses
them directly.
"""
