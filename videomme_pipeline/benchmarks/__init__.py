"""Benchmarks: what each benchmark asks, where it is published, and how its files become rows."""
