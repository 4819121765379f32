"""The store: every file is written whole or not at all, with its fingerprint."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from upath import UPath

from tests.support.paths import ROOT
from tests.support.stored_files import made_up_file, write_made_up
from videomme_pipeline.errors import ConfigurationError, DamagedFileError, StorageError
from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import StageNames, StoredName, part_id
from videomme_pipeline.storage.publish import publish, replacing
from videomme_pipeline.storage.tables import read_rows, stored_settings, write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str


def test_rows_are_stored_with_their_fingerprint(tmp_path: Path) -> None:
    path = UPath(tmp_path / "scores" / "mine.parquet")
    write_rows(path, [Row(name="x")], Row, fingerprint="abc", settings={"a": 1})
    assert read_rows(path, Row) == [Row(name="x")]
    assert parquet.read_metadata(path)["fingerprint"] == "abc"
    assert stored_settings(path) == {"a": 1}


@pytest.mark.parametrize("video_id", ["001", "-_abc.1-4", "你好", "हिन्दी", "Straße_über"])
def test_tables_of_videos_with_ids_in_any_script_are_listed(tmp_path: Path, video_id: str) -> None:
    store = Store.at(tmp_path)
    file = made_up_file(store, "responses", "mine", "run", video_id)
    write_made_up(file, [Row(name="x")], Row)
    write_rows(file.with_name("a b.parquet"), [Row(name="x")], Row, fingerprint="abc")
    assert store.tables() == [file]


def test_a_missing_or_damaged_file_has_no_settings(tmp_path: Path) -> None:
    path = UPath(tmp_path / "x.parquet")
    assert stored_settings(path) == {}
    path.write_bytes(b"PAR1 but not really")
    assert stored_settings(path) == {}


def test_a_link_to_itself_is_a_damaged_file(tmp_path: Path) -> None:
    path = UPath(tmp_path / "rows.parquet")
    path.symlink_to(path.name)
    with pytest.raises(DamagedFileError, match=r"rows\.parquet"):
        read_rows(path, Row)


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = UPath(tmp_path / "x.bin")
    publish(path, b"old")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(StorageError, match=r"No space left on device.*free some space"):
        publish(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(OSError(28, "No space left on device"), StorageError), (ValueError("damaged"), ValueError)],
)
def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, raised: Exception, seen: type[Exception]
) -> None:
    path = tmp_path / "clip.mp4"
    with replacing(path) as temporary:
        temporary.write_bytes(b"old")

    def fail_in_the_middle() -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(b"ne")
            raise raised

    with pytest.raises(seen):
        fail_in_the_middle()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("named_by_link", [False, True])
def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path, named_by_link: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = tmp_path / "link" if named_by_link else pipe
    if named_by_link:
        target.symlink_to(pipe)
    with ThreadPoolExecutor() as threads:
        received = threads.submit(pipe.read_bytes)
        publish(UPath(target), b"bytes")
        assert pipe.is_fifo()
        assert received.result(60) == b"bytes"
    assert target.is_symlink() == named_by_link
    assert set(tmp_path.iterdir()) == {pipe, target}


def test_standard_output_of_a_process_is_written_into() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as received:  # noqa: PTH123 - there is no path
        publish(UPath(f"/dev/fd/{write_end}"), b"bytes")
        os.close(write_end)
        assert received.read() == b"bytes"


def test_a_symbolic_link_is_kept_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, file = tmp_path / "link", tmp_path / "folder" / "file"
    link.symlink_to("folder/file")
    for data in (b"first", b"second"):
        publish(UPath(link), data)
        assert link.is_symlink()
        assert file.read_bytes() == data
    assert list(file.parent.iterdir()) == [file]


def test_an_object_store_has_the_same_rows() -> None:
    path = Store.at("memory://videomme-test").path("smoke", "rows.parquet")
    write_rows(path, [Row(name="x")], Row, fingerprint="abc")
    assert read_rows(path, Row) == [Row(name="x")]


def test_an_object_store_without_objects_has_no_files() -> None:
    store = Store.at("memory://videomme-without-objects")
    assert store.tables() == []
    assert store.benchmarks() == []


@pytest.mark.parametrize("url", ["gs://bucket/data", "unheard://bucket/data"])
def test_the_error_names_a_storage_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{url}: .*install the fsspec"):
        Store.at(url)


def test_a_data_folder_that_duckdb_cannot_use_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"`\?` or NUL in its path; choose another"):
        Store.at(tmp_path / "a?b")


def test_a_password_in_the_url_of_the_data_folder_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="AWS_SECRET_ACCESS_KEY") as raised:
        Store.at("s3://someone:a-secret@bucket/data")
    assert "a-secret" not in str(raised.value)


def test_files_that_need_a_local_disk_are_local_with_an_object_store_too() -> None:
    store = Store.at("memory://videomme-test")
    assert store.journal.is_absolute()
    assert store.journal.name == "journal.sqlite"


def test_a_file_with_a_name_is_written_once(tmp_path: Path) -> None:
    path = made_up_file(Store.at(tmp_path), "scores", "smoke", "mine")
    for name in ("first", "second"):
        write_made_up(path, [Row(name=name)], Row, only_new=True)
    assert read_rows(path, Row) == [Row(name="first")]


def test_a_file_with_the_name_of_another_one_is_damaged(tmp_path: Path) -> None:
    path = made_up_file(Store.at(tmp_path), "scores", "smoke", "mine")
    write_made_up(path, [Row(name="x")], Row)
    renamed = path.rename(path.with_name(f"{'0' * 24}.parquet"))
    with pytest.raises(DamagedFileError, match="it was renamed"):
        read_rows(renamed, Row)


def test_the_part_with_most_answers_is_read_until_the_file_is_complete() -> None:
    few, more = (
        StoredName(variant="e", video=None, fingerprint="a" * 24, part=part_id(n, []))
        for n in (9, 16)
    )
    complete = StoredName(variant="e", video=None, fingerprint="a" * 24)
    assert StageNames(map(str, (few, more))).best("e", None, "a" * 24) == more
    assert StageNames(map(str, (few, more, complete))).best("e", None, "a" * 24) == complete
    assert StageNames([str(few)]).fingerprints("e", None) == []


@given(
    variant=st.none() | st.text("ab.-_你", min_size=1).filter(lambda t: t[0] != "."),
    video=st.none() | st.text("ab.-_你0", min_size=1).filter(lambda t: t[0] != "."),
    part=st.none() | st.integers(0, 9999).map(lambda n: part_id(n, [n])),
)
def test_the_parts_of_a_name_are_read_back(
    variant: str | None, video: str | None, part: str | None
) -> None:
    name = StoredName(variant=variant, video=video, fingerprint="b" * 24, part=part)
    assert StoredName.parse(str(name)) == name
    longest = StoredName(variant="e", video="你" * 64, fingerprint="b" * 24, part=part_id(1, []))
    assert len(f"{str(longest).partition('/')[2]}.corrupt".encode()) <= 255


def test_published_files_have_the_permissions_that_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        publish(UPath(tmp_path / "private"), b"bytes")
        os.umask(0o022)
        publish(UPath(tmp_path / "readable"), b"bytes")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "readable": 0o644}


KILLED_WHILE_IT_WRITES = """
import os, signal, sys
from pathlib import Path
from videomme_pipeline.storage.publish import replacing

with replacing(Path(sys.argv[1])) as new:
    new.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_IT_WRITES, str(tmp_path / "x.parquet")]
    subprocess.run(command, cwd=ROOT, env=os.environ, check=False)
    assert len(list(tmp_path.iterdir())) == 1
    publish(UPath(tmp_path / "y.parquet"), b"whole")
    assert list(tmp_path.iterdir()) == [tmp_path / "y.parquet"]


def test_what_a_killed_process_left_in_the_data_folder_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "data" / "x.parquet"
    command = [sys.executable, "-c", KILLED_WHILE_IT_WRITES, str(path)]
    subprocess.run(command, cwd=ROOT, env=os.environ, check=False)
    with replacing(path) as new:
        new.write_bytes(b"whole")
        Store.at(tmp_path).remove_left_over()
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_removed_that_this_program_did_not_create(tmp_path: Path) -> None:
    """A link with the name of a scratch folder, and one with the name of earlier versions."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"of the user")
    folder = tmp_path / "reports"
    folder.mkdir()
    dead = replace(ProcessIdentity.here(), pid=2**22 + 1).as_name()
    names = (".report.html.0", f".report.html.{dead}-0123abcd.new")
    for name in names:
        (folder / name).symlink_to(precious)
    publish(UPath(folder / "report.html"), b"page")
    Store.at(tmp_path).remove_left_over()
    assert (precious / "file").read_bytes() == b"of the user"
    assert sorted(item.name for item in folder.iterdir()) == sorted((*names, "report.html"))


def test_a_name_of_the_greatest_length_is_written(tmp_path: Path) -> None:
    path = UPath(tmp_path / ("ü" * 127))
    publish(path, b"bytes")
    assert path.read_bytes() == b"bytes"


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with replacing(path) as first:
        first.write_bytes(b"first")
        with replacing(path) as second:
            second.write_bytes(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
