"""Formats: each module reads and writes the results files of one evaluator."""
