"""A configuration folder for the tests of evaluation files."""

from pathlib import Path

import pytest

MODELS = """
served:
  base_url: http://127.0.0.1:8000/v1
  model: Served/Model-7B
qwen2.5-vl-7b:
  base_url: http://127.0.0.1:8000/v1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration folder without an evaluation."""
    (tmp_path / "evaluations").mkdir()
    (tmp_path / "benchmarks.yaml").write_text("smoke:\nsmoke_v2:\n")
    (tmp_path / "models.yaml").write_text(MODELS)
    return tmp_path
