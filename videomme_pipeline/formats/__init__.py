"""Results files of other evaluators.

To add a format, write a `ResultsFormat` and add it to `registry.FORMATS`.
"""
