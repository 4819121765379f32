"""SQLite files on network file systems are refused, and machines keep their scratch files apart."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.errors import ConfigurationError, StorageError
from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.project.project import open_project
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.storage import sqlite
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import LEFT_BY_OTHERS_SECONDS
from videomme_pipeline.storage.sqlite import network_kind
from videomme_pipeline.videos.hash_cache import HashCache

MOUNTS = {"/": "ext4", "/home": "nfs4", "/home/local": "xfs", "/scratch": "lustre"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/journal.sqlite", None),
        ("/home/a/data/journal.sqlite", "nfs4"),
        ("/home/local/journal.sqlite", None),
        ("/homes/journal.sqlite", None),
        ("/scratch", "lustre"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_nearest_mount(
    path: str, kind: str | None
) -> None:
    assert network_kind(Path(path), MOUNTS) == kind


def test_the_temporary_folder_of_this_machine_is_on_a_local_disk(tmp_path: Path) -> None:
    assert network_kind(tmp_path / "new" / "file") is None


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this machine takes for a mounted NFS export."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(sqlite, "_mounts", lambda: {"/": "ext4", str(folder): "nfs4"})
    return folder


def test_sqlite_files_are_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = (
        r"on a network file system \(nfs4\) .*; set VIDEOMME_LOCAL_DISK to a folder on a local"
    )
    with pytest.raises(StorageError, match=message):
        Journal(shared / "journal.sqlite")
    with pytest.raises(StorageError, match=message):
        HashCache(shared / "hashes.sqlite").clear()
    monkeypatch.setenv("DAGSTER_HOME", str(shared / "home"))
    with pytest.raises(StorageError, match="set DAGSTER_HOME or VIDEOMME_POSTGRES_URL"):
        open_instance().__enter__()
    assert list(shared.iterdir()) == []


def test_sqlite_files_can_be_on_another_disk_than_the_data(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benchmarks.yaml").write_text("smoke:\n")
    monkeypatch.setenv("VIDEOMME_LOCAL_DISK", str(tmp_path / "disk"))
    project = open_project(tmp_path, str(shared))
    assert project.store.journal == tmp_path / "disk" / "journal.sqlite"
    project.hashes.clear()
    assert project.store.hashes.exists()
    (shared / "journal.sqlite").touch()
    with pytest.raises(ConfigurationError, match=r"contains paid answers.*stop all runs and move"):
        open_project(tmp_path, str(shared))


def test_a_machine_leaves_the_scratch_folders_of_others_for_a_month(tmp_path: Path) -> None:
    elsewhere = replace(ProcessIdentity.here(), host="0" * 8, boot="1" * 8, pid=1)
    left = tmp_path / f".a.{elsewhere.as_name()}-0123abcd.new"
    left.mkdir()
    Store.at(tmp_path).remove_left_over()
    assert left.exists()
    month_ago = time.time() - LEFT_BY_OTHERS_SECONDS - 1
    os.utime(left, (month_ago, month_ago))
    Store.at(tmp_path).remove_left_over()
    assert not left.exists()
