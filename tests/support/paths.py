"""Paths of the project's files, for tests."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The root folder of the repository."""

GOLDEN = ROOT / "tests" / "golden"
"""Recorded outputs and golden files."""


def modules() -> Iterator[str]:
    """Every module of the package."""
    for path in sorted((ROOT / "videomme_pipeline").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__")
