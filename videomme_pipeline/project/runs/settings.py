"""The content of `runs.yaml`, `cluster.yaml` and `storage.yaml`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from videomme_pipeline import plugins
from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.processes.tasks import Workers

RUNS_FILE = "runs.yaml"
CODE_LOCATION = "videomme"
CLUSTER_FILE = "cluster.yaml"
STORAGE_FILE = "storage.yaml"
DEFAULT_KIND = "dask"


class RunsSpec(Spec):
    """The content of `runs.yaml`."""

    stale: Literal["error", "warning"] = "error"
    """The severity of the check `up_to_date`. The asset graph shows an error in red, and a warning
    only after zooming in."""

    code_location: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", max_length=100)] = CODE_LOCATION
    """The name of the code location in workspace.yaml. Unless it is the default, asset keys begin
    with it, so that several projects can share one Dagster workspace."""

    @property
    def prefix(self) -> str:
        """The start of asset keys: the name of the code location and "/", or nothing."""
        return "" if self.code_location == CODE_LOCATION else f"{self.code_location}/"


class StorageSpec(Spec):
    """The content of `storage.yaml`. Without the file, one gigabyte stays free."""

    max_frames_gigabytes: float | None = Field(default=None, gt=0)
    """The size of all cached frames together, in 10⁹ bytes; None means no limit."""
    min_free_gigabytes: float = Field(default=1.0, ge=0)
    """The free space to leave on the disk, in 10⁹ bytes."""


class ClusterSpec(Spec, ABC):
    """The content of `cluster.yaml` for one kind of workers.

    A subclass declares `kind` as a `Literal` with a default, and the keys that users may set. A
    package provides the subclass by an entry point with the name of the kind in the group
    `videomme_pipeline.workers`.
    """

    kind: str
    folder: Path | None = None
    """A folder that all workers share. By default, `cluster` in the data folder."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The commands of the user's configuration that `connect` runs."""
        return ()

    @abstractmethod
    def connect(
        self, folder: Path, on_message: Callable[[str], None]
    ) -> AbstractContextManager[Workers]:
        """Connect to running workers, or start workers that end after the block.

        `folder` is an empty folder that all workers share. `on_message` is told what is waited for.
        Raises ClusterError if the workers cannot be reached, and MissingExtraError.
        """

    @abstractmethod
    def check_jobs(self) -> str | None:
        """Check that jobs with workers can be started, and return what a run will start.

        None if the workers run already and can be checked themselves. Raises ClusterError.
        """


def read_cluster(folder: Path) -> ClusterSpec | None:
    """The content of `cluster.yaml`, or None. Raises ConfigurationError if it has mistakes."""
    path = folder / CLUSTER_FILE
    entries = read_yaml(path) if path.exists() else None
    if not entries:
        return None
    kind = str(entries.get("kind", DEFAULT_KIND))
    title = f"{path}: workers of the kind `{kind}`"
    spec: type[ClusterSpec] = plugins.find_class(plugins.WORKERS, kind, ClusterSpec, title)
    return parse_spec(entries, spec, str(path))
