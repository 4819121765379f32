"""Where the project's own files are, for tests."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The top of the checkout."""

GOLDEN = ROOT / "tests" / "golden"
"""Recorded outputs and golden files."""
