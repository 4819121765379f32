"""Demo: the smoke benchmarks and the embedded model, with the package files that both need."""
