"""Files that are expensive to build: built once per test session, also by several xdist workers."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.builders import ODD_VIDEOS


def session_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that all workers of a test session share."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    folder.mkdir(exist_ok=True)
    return folder


def build_once(path: Path, build: Callable[[Path], object]) -> Path:
    """`path`, written by `build` if it does not exist yet. Its suffix is that of `path`."""
    with FileLock(f"{path}.lock"):
        if not path.exists():
            partial = path.with_name(f"partial-{path.name}")
            build(partial)
            partial.rename(path)
    return path


class OddVideos:
    """The videos of `ODD_VIDEOS`, each encoded when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        return build_once(self.folder / name, ODD_VIDEOS[name])
