"""Unzipping: a member is written complete or not at all, and never outside the folder."""

import contextlib
import io
import stat
import struct
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.published_data import zip_bytes
from videomme_pipeline.errors import ArchiveError
from videomme_pipeline.fetch.archives import Member, extract, open_archive, read_directory

VIDEO = bytes(range(256)) * 20
DAMAGEABLE = zip_bytes({"data/a.mp4": VIDEO[:300], "data/b.mp4": VIDEO[:200]}, ZIP_DEFLATED)


def members_of(data: bytes) -> tuple[Member, ...]:
    return read_directory(io.BytesIO(data), "some.zip", keeps_folders=False)


def unzip(data: bytes, folder: Path) -> list[Path]:
    """Every member of an archive, unzipped to `folder`."""
    file = io.BytesIO(data)
    with open_archive(file, "some.zip") as opened:
        members = read_directory(file, "some.zip", keeps_folders=False)
        return [extract(opened, member, folder) for member in members]


def zip_with(name: str, mode: int = 0o644, data: bytes = VIDEO) -> bytes:
    sink = io.BytesIO()
    with ZipFile(sink, "w") as archive:
        info = ZipInfo("placeholder" if "\\" in name else name)
        info.filename = name
        info.external_attr = mode << 16
        archive.writestr(info, data)
    return sink.getvalue()


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_-]{1,13}\.(mp4|MP4|mkv)", fullmatch=True),
        st.binary(max_size=5000),
        max_size=5,
    ).filter(lambda files: len({name.casefold() for name in files}) == len(files)),
    st.sampled_from([ZIP_STORED, ZIP_DEFLATED]),
)
def test_extracted_files_equal_the_zipped_ones(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], compression: int
) -> None:
    folder = tmp_path_factory.mktemp("media")
    unzip(zip_bytes({f"data/{name}": data for name, data in files.items()}, compression), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_the_directory_has_sizes_and_crc() -> None:
    data = zip_bytes({"data/-abc.mp4": VIDEO}, ZIP_DEFLATED)
    (member,) = members_of(data)
    assert member.file_name == "-abc.mp4"
    assert member.size_bytes == len(VIDEO) > member.stored_bytes


def test_folders_and_files_that_macos_adds_are_left_out() -> None:
    data = zip_bytes(
        {
            "data/": b"",
            "data/a.mp4": VIDEO,
            "__MACOSX/data/._a.mp4": b"junk",
            "data/.DS_Store": b"junk",
        }
    )
    assert [member.name for member in members_of(data)] == ["data/a.mp4"]


@pytest.mark.parametrize(
    "name",
    [
        "../outside.mp4",
        "data/../../outside.mp4",
        "/etc/outside.mp4",
        "C:/outside.mp4",
        "C:outside.mp4",
        "data\\..\\outside.mp4",
        "data/..",
    ],
)
def test_an_archive_with_a_name_outside_the_folder_is_rejected(name: str, tmp_path: Path) -> None:
    media = tmp_path / "media"
    with pytest.raises(ArchiveError, match="its name leads out of the folder"):
        unzip(zip_with(name), media)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_an_archive_with_a_link_or_device_is_rejected(kind: int, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="a link or a device"):
        unzip(zip_with("data/a.mp4", kind | 0o777, b"/etc/passwd"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_with_control_characters_in_a_name_is_rejected() -> None:
    with pytest.raises(ArchiveError, match="control characters"):
        members_of(zip_with("data/a\x07b.mp4"))


def test_a_zip_bomb_is_rejected_before_it_is_unzipped() -> None:
    data = zip_bytes({"data/a.mp4": bytes(50_000_000)}, ZIP_DEFLATED)
    assert len(data) < 100_000
    with pytest.raises(ArchiveError, match="are declared to unzip to 50,000,000"):
        members_of(data)


def test_a_member_that_is_longer_than_declared_is_damaged(tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"data/a.mp4": VIDEO}, ZIP_DEFLATED))
    position = data.rindex(b"PK\x01\x02") + 24
    data[position : position + 4] = struct.pack("<I", 100)
    with pytest.raises(ArchiveError, match=r"member data/a\.mp4: damaged"):
        unzip(bytes(data), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_members_that_share_bytes_are_damaged(tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"data/a.mp4": VIDEO, "data/b.mp4": VIDEO}))
    first, second = data.index(b"PK\x01\x02"), data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    with pytest.raises(ArchiveError, match=r"member data/[ab]\.mp4: damaged"):
        unzip(bytes(data), tmp_path)


def test_two_members_with_one_file_name_are_rejected() -> None:
    data = zip_bytes({"data/a.mp4": VIDEO, "other/A.MP4": VIDEO})
    with pytest.raises(ArchiveError, match=r"more than one member is called a\.mp4"):
        members_of(data)


def test_an_encrypted_member_is_rejected() -> None:
    data = bytearray(zip_bytes({"data/a.mp4": VIDEO}))
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ArchiveError, match="encrypted"):
        members_of(bytes(data))


@pytest.mark.parametrize("compression", [ZIP_BZIP2, ZIP_LZMA])
def test_an_unexpected_compression_is_rejected(compression: int) -> None:
    with pytest.raises(ArchiveError, match="compressed by method"):
        members_of(zip_bytes({"data/a.mp4": VIDEO}, compression))


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED])
def test_a_damaged_member_leaves_no_file(compression: int, tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"data/a.mp4": VIDEO}, compression))
    data[60] ^= 0xFF
    with pytest.raises(ArchiveError, match=r"some\.zip, member data/a\.mp4: damaged"):
        unzip(bytes(data), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>not found</html>", zip_bytes({"a": VIDEO})[:2000]],  # with the time of its making
    ids=["empty", "page", "half"],
)
def test_the_error_names_a_file_that_is_not_an_archive(data: bytes) -> None:
    with pytest.raises(ArchiveError, match=r"some\.zip: not a readable zip archive"):
        members_of(data)


def test_an_archive_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    (member,) = members_of(zip_bytes({"data/a.mp4": VIDEO}))
    with (
        open_archive(io.BytesIO(zip_bytes({"data/a.mp4": b"other"})), "some.zip") as opened,
        pytest.raises(ArchiveError, match="the archive changed while it was read"),
    ):
        extract(opened, member, tmp_path)


def test_a_link_at_the_target_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder, precious = tmp_path / "media", tmp_path / "precious"
    folder.mkdir()
    precious.write_bytes(b"of the user")
    (folder / "a.mp4").symlink_to(precious)
    unzip(zip_bytes({"data/a.mp4": VIDEO}), folder)
    assert [path.name for path in folder.iterdir()] == ["a.mp4"]
    assert (folder / "a.mp4").read_bytes() == VIDEO
    assert precious.read_bytes() == b"of the user"


@settings(max_examples=100)
@given(st.data())
def test_damaged_bytes_raise_an_archive_error_or_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    archive = bytearray(DAMAGEABLE)
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("media")
    with contextlib.suppress(ArchiveError):
        unzip(bytes(archive), folder / "inside")
    assert {path.name for path in folder.iterdir()} <= {"inside"}
    assert {path.read_bytes() for path in folder.rglob("*.*")} <= {VIDEO[:300], VIDEO[:200]}
