"""Local copies of objects: of one version each, whole, kept while in use, and limited in size."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from upath import UPath

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.copies import LocalCopies, local_copies, on_local_disk
from videomme_pipeline.storage.objects import RemoteFile, list_objects, open_folder

LIMIT_BYTES = 16_000
HALF = bytes(LIMIT_BYTES // 2)


@pytest.fixture
def bucket(tmp_path: Path) -> UPath:
    return open_folder(f"memory://local-copies{tmp_path}", "folder")


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(tmp_path / "copies", LIMIT_BYTES)


def test_an_object_is_fetched_once_and_again_when_it_changes(
    bucket: UPath, copies: LocalCopies
) -> None:
    video = bucket / "a.mp4"
    video.write_bytes(b"first")
    with copies.hold(video) as first:
        inode = first.stat().st_ino
        assert (first.read_bytes(), first.suffix) == (b"first", ".mp4")
    with copies.hold(video) as again:
        assert again.stat().st_ino == inode
    video.write_bytes(b"other")
    with copies.hold(video) as changed:
        assert changed.read_bytes() == b"other"
    copies.remove(video)
    assert not first.exists()
    assert not changed.exists()
    with (
        pytest.raises(FileNotFoundError, match=r"no such object.*b\.mp4"),
        copies.hold(bucket / "b.mp4"),
    ):
        pass


def test_the_copies_that_were_not_used_for_the_longest_time_are_removed(
    bucket: UPath, copies: LocalCopies, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        (bucket / name).write_bytes(HALF)
    with copies.hold(bucket / "a") as a, copies.hold(bucket / "b") as b:
        os.utime(a, (0, 0))
        with copies.hold(bucket / "c") as c:
            assert {a, b, c} == set((tmp_path / "copies").iterdir()), "none is unused"
    left = tmp_path / "copies" / ".videomme-left"
    left.write_bytes(HALF)  # by a process that was killed
    os.utime(left, (1, 1))
    (bucket / "d").write_bytes(b"d")
    with copies.hold(bucket / "d") as d:
        assert {d, c} == set((tmp_path / "copies").iterdir())


def test_a_file_that_is_no_copy_is_never_removed(
    bucket: UPath, copies: LocalCopies, tmp_path: Path
) -> None:
    users = tmp_path / "copies" / "of the user"
    users.parent.mkdir()
    users.write_bytes(HALF + HALF)
    os.utime(users, (0, 0))
    for name in ("a", "b", "c"):
        (bucket / name).write_bytes(HALF)
        with copies.hold(bucket / name):
            pass
    assert users.exists()


def test_a_damaged_copy_is_fetched_again(
    bucket: UPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOMME_CACHE", str(tmp_path / "copies"))
    path = bucket / "a.parquet"
    path.write_bytes(parquet.encode(pa.table({"a": [1]})))
    assert parquet.read_copied_table(path)["a"].to_pylist() == [1]
    (copy,) = (tmp_path / "copies").iterdir()
    copy.write_bytes(bytes(copy.stat().st_size))
    assert parquet.read_copied_table(path)["a"].to_pylist() == [1]
    copy.write_bytes(b"PAR1")
    assert parquet.read_copied_table(path)["a"].to_pylist() == [1]


def test_a_remote_file_that_changed_after_the_listing_is_refused(
    bucket: UPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOMME_CACHE", str(tmp_path / "copies"))
    (bucket / "a.mp4").write_bytes(b"first")
    file = RemoteFile(bucket / "a.mp4", list_objects(bucket)["a.mp4"])
    with on_local_disk(file) as copy:
        assert copy.read_bytes() == b"first"
    local_copies().remove(file.path)
    (bucket / "a.mp4").write_bytes(b"other")
    with pytest.raises(OSError, match="it changed after it was listed"), on_local_disk(file):
        pass
    with on_local_disk(tmp_path / "a") as path:
        assert path == tmp_path / "a"


@pytest.mark.parametrize("limit", ["much", "-1", "inf"])
def test_a_limit_that_is_not_a_size_is_rejected(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOMME_CACHE_GIGABYTES", limit)
    with pytest.raises(ConfigurationError, match="VIDEOMME_CACHE_GIGABYTES is"):
        local_copies()
