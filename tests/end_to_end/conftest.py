"""A small real project whose model is behind an endpoint."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.resources import Project
from tests.assets.conftest import WriteProject, copy, instance, root, write_project

__all__ = ["copy", "instance", "root", "write_project"]

SERVED: Mapping[str, Any] = {
    "benchmark": "videomme",
    "model": "served",
    "sampling": "uniform_n-4",
}

WriteServed = Callable[..., Project]


@pytest.fixture
def write_served(root: Path, write_project: WriteProject) -> WriteServed:
    """Write a project that asks the model `served` at an address, and open it."""

    def write_served(
        base_url: str,
        evaluations: Mapping[str, Mapping[str, Any]] = {"served": SERVED},
        videos: Sequence[str] = ("002",),
        **model: Any,
    ) -> Project:
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        models = {"served": {"base_url": base_url} | model}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        return write_project(evaluations, videos=list(videos))

    return write_served
