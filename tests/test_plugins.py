"""Companions and other packages are found by entry points, and an error names their package."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.packages import write_package
from videomme_pipeline import plugins
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.project.runs.locks import shared_locks
from videomme_pipeline.project.runs.settings import read_cluster

ENTRY_POINTS = """\
[videomme_pipeline.workers]
broken = videomme_barn:MISSING
wrong = videomme_barn:NUMBER

[videomme_pipeline.servers]
broken = videomme_barn:MISSING
wrong = videomme_barn:NUMBER

[videomme_pipeline.locks]
broken = videomme_barn:MISSING
wrong = videomme_barn:NUMBER
"""
GROUPS = {
    plugins.BENCHMARKS: {"smoke", "smoke_v2"},
    plugins.MODELS: {"embedded"},
    plugins.WORKERS: {"dask"},
    plugins.SERVERS: {"local"},
    plugins.LOCKS: {"postgresql"},
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an installed package whose parts cannot be used."""
    monkeypatch.syspath_prepend(tmp_path)
    return write_package(tmp_path, "videomme_barn", "NUMBER = 1\n", ENTRY_POINTS)


def use_workers(kind: str, folder: Path) -> None:
    (folder / "cluster.yaml").write_text(f"kind: {kind}\n")
    read_cluster(folder)


def use_locks(kind: str, _folder: Path) -> None:
    shared_locks(f"{kind}+driver://host/database", run="a test", on_wait=print)


def use_servers(kind: str, folder: Path) -> None:
    (folder / "models.yaml").write_text(f"mine: {{serve: {{kind: {kind}}}}}\n")
    Catalog.read(folder / "models.yaml").find("mine")


USES = [use_workers, use_locks, use_servers]


@pytest.mark.parametrize("group", GROUPS)
def test_companions_declare_their_parts_as_other_packages_do(group: str) -> None:
    assert set(plugins.installed(group)) >= GROUPS[group]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("broken", "needs the package {package}, which cannot be loaded .AttributeError"),
        ("wrong", "of the package {package} is 1, not a subclass of videomme_pipeline"),
        ("wrnog", "no installed package has it, did you mean `wrong`"),
    ],
)
def test_the_error_for_a_part_that_cannot_be_used_names_its_package(
    package: str, tmp_path: Path, use: Callable[[str, Path], None], kind: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words.format(package=package)):
        use(kind, tmp_path)


def test_without_entry_points_the_error_says_what_to_reinstall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "installed", lambda _: {})
    with pytest.raises(ConfigurationError, match="reinstall videomme-pipeline"):
        shared_locks("postgresql+psycopg2://host/database", run="a test", on_wait=print)
