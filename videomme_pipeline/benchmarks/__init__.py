"""Benchmarks: one declaration each, and how their published files become questions."""
