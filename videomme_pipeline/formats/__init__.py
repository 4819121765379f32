"""Results files of other evaluators. A new format is a `ResultsFormat` in `registry.FORMATS`."""
