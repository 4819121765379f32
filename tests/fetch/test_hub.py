"""One repository on the hub: remote files, and the errors for its failures."""

import errno
import io
import os
from collections.abc import Iterator

import pytest

from tests.support.hub_server import HubServer, running_hub
from tests.support.published_data import REVISION
from videomme_pipeline.errors import DownloadError, StorageError
from videomme_pipeline.fetch.hub import HubRepository, explained


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as running:
        yield running


def test_a_remote_file_reads_like_a_local_one(hub: HubServer) -> None:
    data = os.urandom(200_000)
    hub.add("some/data", REVISION, "file.bin", data)
    reported = HubRepository("some/data", REVISION, hub.url).files(["file.bin", "none.bin"])
    assert reported.keys() == {"file.bin"}
    with HubRepository("some/data", REVISION, hub.url).open(reported["file.bin"]) as remote:
        local = io.BytesIO(data)
        for offset, whence, length in [
            (0, 0, 10),
            (-22, 2, 100),
            (500, 0, 90_000),
            (-10, 1, 20),
            (-500, 1, 9),
        ]:
            assert remote.seek(offset, whence) == local.seek(offset, whence)
            assert remote.read(length) == local.read(length)
        assert remote.seek(300_000) == 300_000
        assert remote.read() == b""


def test_adjacent_small_reads_are_one_request(hub: HubServer) -> None:
    hub.add("some/data", REVISION, "file.bin", bytes(200_000))
    repository = HubRepository("some/data", REVISION, hub.url)
    with repository.open(repository.files(["file.bin"])["file.bin"]) as remote:
        for _ in range(100):
            remote.read(100)
        remote.seek(-100, io.SEEK_END)
        remote.read(100)
        remote.seek(-5000, io.SEEK_END)
        remote.read(4000)
    ranges = [asked.range for asked in hub.content_requests("file.bin")]
    assert ranges == ["bytes=0-65535", "bytes=134464-199999"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_fills_up_or_is_read_only_is_a_storage_error(number: int) -> None:
    with pytest.raises(StorageError, match="choose another data folder"), explained("a.mp4"):
        raise OSError(number, os.strerror(number))


def test_an_error_of_ours_passes_unchanged() -> None:
    original = DownloadError("as it was")
    with pytest.raises(DownloadError) as caught, explained("a.mp4"):
        raise original
    assert caught.value is original


def test_no_message_has_the_token_that_a_hub_repeats(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_a_secret_token")
    hub.add("some/data", REVISION, "file.bin", b"1")
    hub.broken["file.bin"] = 400
    repository = HubRepository("some/data", REVISION, hub.url)
    with pytest.raises(DownloadError, match=r"bad day with Bearer \[key removed\]"), explained("a"):
        repository.open(repository.files(["file.bin"])["file.bin"]).read()
