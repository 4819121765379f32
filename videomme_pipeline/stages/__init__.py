"""The stages of a benchmark, the results of all benchmarks, and the plan over them."""
