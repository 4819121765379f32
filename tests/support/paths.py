"""Paths of the project's files, for tests."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The root folder of the repository."""

GOLDEN = ROOT / "tests" / "golden"
"""Recorded outputs and golden files."""


def modules() -> Iterator[str]:
    """Every module of the library and of the Dagster project."""
    for package in ("videomme_pipeline", "assets"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__")
