"""Benchmarks: one declaration each, and how their published files become questions.

Importing this package registers the built-in benchmarks, because the facets that they declare are
columns of the tables.
"""

from videomme_pipeline.benchmarks import registry as registry
