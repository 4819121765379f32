"""The project: one configuration folder and one data folder, opened together."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation import Configuration, read_configuration
from videomme_pipeline.project.progress import Progress, no_progress
from videomme_pipeline.project.slots import NoSlots, Slots
from videomme_pipeline.project.spending import Spending
from videomme_pipeline.project.state import BenchmarkState
from videomme_pipeline.store import Store
from videomme_pipeline.videos.probe import HashCache

CONFIGURATION_VARIABLE = "VIDEOMME_CONFIGURATION"
DATA_VARIABLE = "VIDEOMME_DATA"


@dataclass(kw_only=True, eq=False)
class Project:
    """One configuration folder and one data folder.

    `slots` limit how many runs ask an endpoint at once; a project on its own needs none.
    """

    configuration: Configuration
    store: Store
    on_progress: Callable[[Progress], None] = no_progress
    spending: Spending = field(default_factory=Spending)
    slots: Slots = field(default_factory=NoSlots)

    @cached_property
    def benchmarks(self) -> dict[str, BenchmarkState]:
        """The benchmarks of benchmarks.yaml, by name."""
        return {
            name: BenchmarkState(name, self.configuration, self.store, self.hashes)
            for name in self.configuration.benchmarks
        }

    @cached_property
    def hashes(self) -> HashCache:
        """Content hashes of files that have not changed since they were hashed."""
        return HashCache(self.store.hashes)

    @contextmanager
    def using(self, slots: Slots) -> Iterator[None]:
        """Wait for these slots before asking an endpoint, inside the block."""
        before, self.slots = self.slots, slots
        try:
            yield
        finally:
            self.slots = before


def configuration_folder() -> Path:
    """The folder of the YAML files: VIDEOMME_CONFIGURATION, or `assets/` here."""
    return Path(os.environ.get(CONFIGURATION_VARIABLE, "assets"))


def open_project(
    configuration: Path | None = None,
    data: str | None = None,
    on_progress: Callable[[Progress], None] = no_progress,
) -> Project:
    """The project of these folders.

    A folder that is not given comes from VIDEOMME_CONFIGURATION or VIDEOMME_DATA, or is
    `assets/` or `data/` in the working directory. Reads the configuration, no data.

    Raises:
        ConfigurationError: if the configuration folder cannot be used.
    """
    folder = configuration or configuration_folder()
    root = data or os.environ.get(DATA_VARIABLE, "data")
    if not (folder / "benchmarks.yaml").exists():
        raise ConfigurationError(
            f"{folder / 'benchmarks.yaml'}: no such file; run this in the project's folder, or "
            f"set {CONFIGURATION_VARIABLE} to the folder that has it"
        )
    return Project(
        configuration=read_configuration(folder), store=Store.at(root), on_progress=on_progress
    )
