"""One configuration folder and one data folder, and everything done with both.

A `Project` opens them. A `BenchmarkState` knows what one benchmark has stored, and `Versions`
what each of its partitions would be built from now. The other modules read stored inputs, ask
models, score answers, run tracked evaluations, estimate costs and clean up. Nothing here imports
Dagster: `assets/` turns these parts into a graph, and the command line uses them directly.
"""
