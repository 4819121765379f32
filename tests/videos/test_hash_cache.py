"""The cache of content hashes: a damaged file or hash costs only time."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from blake3 import blake3

from tests.support.full_disk import files_of_at_most
from videomme_pipeline.errors import StorageError
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import content_hash


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with the hash of each file in `files`."""
    path = tmp_path / "hashes.sqlite"
    (tmp_path / "files").mkdir()
    with HashCache(path) as hashes:
        for number in range(20):
            file = tmp_path / "files" / f"{number}.mp4"
            file.write_bytes(b"%d" % number)
            content_hash(file, hashes)
    return path


def known(cache: Path) -> dict[str, str]:
    """The hash of each file that the cache knows."""
    with HashCache(cache) as hashes:
        files = sorted((cache.parent / "files").iterdir())
        values = {file.name: hashes.get(file, FileState.of(file.stat())) for file in files}
    return {name: value for name, value in values.items() if value}


def into_nothing(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to look like a file" * 20)


def into_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def into_a_hole(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(len(data) - 4096))


def into_a_statement_that_is_not_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"tablehashes", b"table\xa8ashes", 1))


def into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [into_nothing, into_half, into_a_hole, into_a_statement_that_is_not_text, into_a_folder],
)
def test_a_damaged_cache_is_replaced(
    cache: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(cache)
    file = cache.parent / "files" / "7.mp4"
    with HashCache(cache) as hashes:
        assert content_hash(file, hashes) == blake3(b"7").hexdigest()
        assert hashes.get(file, FileState.of(file.stat())) == blake3(b"7").hexdigest()
    assert caplog.text.count("the cache of file hashes was damaged") == 1
    assert known(cache)["7.mp4"] == blake3(b"7").hexdigest()


def test_a_cache_of_another_version_is_replaced_and_not_called_damaged(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(cache)) as connection:
        connection.execute("alter table hashes drop column checksum")
    file = cache.parent / "files" / "7.mp4"
    with HashCache(cache) as hashes:
        assert content_hash(file, hashes) == blake3(b"7").hexdigest()
    assert known(cache) == {"7.mp4": blake3(b"7").hexdigest()}
    assert "the cache of file hashes has another format (no such column: checksum)" in caplog.text
    assert "damaged" not in caplog.text


def test_a_flipped_bit_never_gives_another_hash(cache: Path, tmp_path: Path) -> None:
    intact = cache.read_bytes()
    right = {f"{number}.mp4": blake3(b"%d" % number).hexdigest() for number in range(20)}
    copy = tmp_path / "copy.sqlite"
    for bit in random.Random(0).sample(range(8 * len(intact)), 50):
        data = bytearray(intact)
        data[bit // 8] ^= 1 << bit % 8
        copy.write_bytes(data)
        assert known(copy).items() <= right.items()
        copy.unlink(missing_ok=True)


def test_a_full_disk_is_one_error_and_the_next_run_works(cache: Path) -> None:
    def fill() -> None:
        with HashCache(cache) as hashes:
            for number in range(2000):
                hashes.put(cache / str(number), FileState.of(cache.stat()), "x" * 64)

    before = known(cache)
    with (
        files_of_at_most(cache.stat().st_size),
        pytest.raises(StorageError, match=r"hashes\.sqlite: .* free some space"),
    ):
        fill()
    assert known(cache) == before
    fill()
