"""Import what commands need, for a process that forks commands."""

import importlib
import pkgutil

import tests.support.migrations  # noqa: F401 - changes Alembic
import videomme_pipeline

USED_LATER = ("alembic.command", "altair", "duckdb", "pandas", "scipy.special", "sqlalchemy")
"""Packages that commands import only when they use them."""

for name in USED_LATER:
    importlib.import_module(name)
for module in pkgutil.walk_packages(videomme_pipeline.__path__, "videomme_pipeline."):
    importlib.import_module(module.name)
