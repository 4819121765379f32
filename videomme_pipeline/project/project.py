"""The project: one configuration folder and one data folder, opened together."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from videomme_pipeline.configuration import read_spec
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.folder import Configuration, read_configuration, with_checkpoints
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.processes.tasks import LocalWorkers, Workers
from videomme_pipeline.project.runs.locks import FileLocks, Locks
from videomme_pipeline.project.runs.progress import StageProgress, ignore
from videomme_pipeline.project.runs.settings import RUNS_FILE, ClusterSpec, RunsSpec, read_cluster
from videomme_pipeline.project.runs.spending import Spending
from videomme_pipeline.project.servers import ModelServers, ServerRecord
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.scoring.verdicts import read_checkpoints
from videomme_pipeline.storage.layout import LOCAL, Store
from videomme_pipeline.storage.names import Planned
from videomme_pipeline.storage.objects import is_local
from videomme_pipeline.storage.publish import scratch_folder
from videomme_pipeline.videos.hash_cache import HashCache

HOME_VARIABLE = "DAGSTER_HOME"
PAGE_VARIABLE = "VIDEOMME_PAGE"
"""The environment variable with the address of the results page, while `videomme ui` runs."""
CONFIGURATION_VARIABLE = "VIDEOMME_CONFIGURATION"
DATA_VARIABLE = "VIDEOMME_DATA"
DISK_VARIABLE = "VIDEOMME_LOCAL_DISK"
"""The folder of the project's SQLite files, if the data folder is on a network file system."""


@dataclass(kw_only=True, eq=False)
class Project:
    """One configuration folder and one data folder.

    `on_message` receives messages for the user, and `on_log` tables for the log of a run.
    `locks` limits how many runs use the machine or an endpoint at the same time.
    """

    configuration: Configuration
    store: Store
    locks: Locks
    on_progress: Callable[[StageProgress], None] = ignore
    on_message: Callable[[str], None] = ignore
    on_log: Callable[[str], None] = ignore
    spending: Spending = field(default_factory=Spending)
    built: Counter[str] = field(default_factory=Counter)
    """The partitions of each asset that this process has built."""
    registered: Counter[str] = field(default_factory=Counter)
    """The partitions of each asset that were stored before and that Dagster did not show."""
    cluster: ClusterSpec | None = None
    is_shard: bool = False
    """True in one of several processes that build frames without a journal or locks."""
    _kept: ExitStack | None = None
    """The end of the workers that are kept, inside of `keeping_workers`."""
    _workers: Workers | None = None

    def __post_init__(self) -> None:
        self.store = replace(self.store, planned=self.planned)

    @cached_property
    def benchmarks(self) -> dict[str, BenchmarkState]:
        return {
            name: BenchmarkState(
                name, self.configuration, self.store, self.hashes, self.server_record
            )
            for name in self.configuration.benchmarks
        }

    @cached_property
    def hashes(self) -> HashCache:
        """Content hashes of files that have not changed since they were hashed."""
        return HashCache(self.store.hashes)

    @cached_property
    def runs(self) -> RunsSpec:
        """The content of runs.yaml."""
        return read_spec(self.configuration.folder / RUNS_FILE, RunsSpec)

    @cached_property
    def server_record(self) -> ServerRecord:
        return ServerRecord(self.store)

    @cached_property
    def servers(self) -> ModelServers:
        """The servers that this project starts. Their locks last longer than those of a step."""
        run = f"process {os.getpid()}"
        locks = FileLocks(self.store.locks, run=run, on_wait=self.on_message)
        return ModelServers(self.store, self.server_record, locks)

    def observe_servers(
        self, evaluations: Collection[str] | None = None, *, is_stored: bool = True
    ) -> None:
        """Record what the servers of the models of `evaluations` are now (None: of all)."""
        self.server_record.invalidate()
        chosen = [
            evaluation
            for evaluation in self.configuration.evaluations.values()
            if evaluations is None or evaluation.name in evaluations
        ]
        judges = [e.judge.model for e in chosen if e.judge is not None]
        models = [*(e.model for e in chosen), *judges]
        reporting = [m for m in models if isinstance(m, EndpointSpec) and m.reports_server]
        self.servers.observe(reporting, is_stored=is_stored)

    def programs(self) -> list[str]:
        """Each program with the file that names it, such as "models.yaml, my-model: vllm serve".

        A run or the UI starts them with the rights of the user, and everybody who can write a
        configuration file chooses them, so commands that start them name them.
        """
        evaluations = self.configuration.files.values()
        judges = [e.judge.model for e in evaluations if e.judge is not None]
        models = {model.name: model for model in (*(e.model for e in evaluations), *judges)}
        named = [
            f"models.yaml, {name}: {program}"
            for name, model in sorted(models.items())
            for program in model.programs
        ]
        if self.cluster is not None:
            named += [f"cluster.yaml: {program}" for program in self.cluster.programs]
        return named

    def planned(self) -> dict[str, Planned]:
        """The names that a run would build of each benchmark. Servers are not asked for that."""
        return {name: benchmark.snapshot.planned for name, benchmark in self.benchmarks.items()}

    def reopened(self) -> "Project":
        """This project with its configuration read again, for a process that runs for long."""
        return replace(self, configuration=_configuration(self.configuration.folder, self.store))

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        """The workers of cluster.yaml, or child processes. Raises ClusterError."""
        if self.cluster is None:
            yield LocalWorkers()
            return
        with nullcontext(self._kept) if self._kept else self.keeping_workers() as kept:
            if self._workers is None:
                shared = self.cluster.folder or self.store.local(LOCAL, "cluster")
                run = scratch_folder(shared.expanduser().absolute() / "run")
                workers = self.cluster.connect(kept.enter_context(run), self.on_message)
                self._workers = kept.enter_context(workers)
            yield self._workers

    @contextmanager
    def keeping_workers(self) -> Iterator[ExitStack]:
        """Keep the workers of cluster.yaml from their first use until the end of the block."""
        self._kept = ExitStack()
        try:
            yield self._kept
        finally:
            self.release_workers()
            self._kept = None

    def release_workers(self) -> None:
        """End the workers that are kept, because the next steps need none."""
        if self._kept is not None:
            self._workers = None
            self._kept.close()

    @contextmanager
    def using_locks(self, locks: Locks) -> Iterator[None]:
        """Use `locks` instead of the project's own inside the block."""
        before, self.locks = self.locks, locks
        try:
            yield
        finally:
            self.locks = before


def _configuration(folder: Path, store: Store) -> Configuration:
    """The configuration in `folder`, with the evaluations of the checkpoints in `store`."""
    return with_checkpoints(read_configuration(folder), read_checkpoints(store))


def configuration_folder() -> Path:
    """The folder of the YAML files: VIDEOMME_CONFIGURATION, by default `assets/`."""
    return Path(os.environ.get(CONFIGURATION_VARIABLE, "assets"))


def dagster_home() -> Path:
    """The folder of the Dagster instance: DAGSTER_HOME or `.dagster`."""
    return Path(os.environ.get(HOME_VARIABLE) or ".dagster").resolve()


def is_project(folder: Path) -> bool:
    """True if `folder` has the only configuration file that a project must have."""
    return os.path.exists(folder / "benchmarks.yaml")  # noqa: PTH110 - also for a name too long


def open_project(
    configuration: Path | None = None,
    data: str | None = None,
    on_progress: Callable[[StageProgress], None] = ignore,
    on_message: Callable[[str], None] = ignore,
) -> Project:
    """The project of a configuration folder and a data folder. Reads the configuration only.

    The defaults are VIDEOMME_CONFIGURATION and VIDEOMME_DATA, or else `assets/` and `data/` in the
    working directory.

    Raises:
        ConfigurationError: if the configuration folder cannot be used.
    """
    folder = configuration or configuration_folder()
    root = data or os.environ.get(DATA_VARIABLE, "data")
    if not is_project(folder):
        raise ConfigurationError(
            f"{folder / 'benchmarks.yaml'}: no such file; run this in the project's folder, set "
            f"{CONFIGURATION_VARIABLE} to the folder that contains it, or write a new project here "
            "with `videomme init`"
        )
    disk = os.environ.get(DISK_VARIABLE)
    local_disk = Path(disk).expanduser().absolute() if disk else None
    store = Store.at(root, local_disk)
    elsewhere = [store.local(*folder, "journal.sqlite") for folder in ((), (LOCAL,))]
    for journal in elsewhere:
        if journal != store.journal and os.access(journal, os.F_OK) and not store.journal.exists():
            raise ConfigurationError(
                f"{journal}: the journal contains paid answers, but belongs into "
                f"{store.journal.parent}; stop all runs and move the file (with "
                "`journal.sqlite-wal` and `-shm` if they exist) there"
            )
    cluster = read_cluster(folder)
    if cluster and is_local(store.root):
        # The workers have other working directories.
        store = Store.at(store.root.absolute(), local_disk)
    return Project(
        configuration=_configuration(folder, store),
        store=store,
        locks=FileLocks(store.locks, run=f"process {os.getpid()}", on_wait=on_message),
        on_progress=on_progress,
        on_message=on_message,
        cluster=cluster,
    )
