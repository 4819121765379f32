"""Results files of other evaluators: each format module reads and writes one format.

To add a format, write one module with a `ResultsFormat` and add it to `registry.FORMATS`.
"""
