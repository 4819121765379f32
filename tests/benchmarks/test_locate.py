"""Finding video and subtitle files in the layouts of common tools."""

from pathlib import Path

import pytest

from videomme_pipeline.benchmarks.locate import index_media, locate_video, unused_files
from videomme_pipeline.errors import VideoMissingError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.storage.objects import open_folder

V1 = VideoReference("001", "-abcDEF_123")
V2 = VideoReference("001", None)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    "layout",
    [
        "data/-abcDEF_123.mp4",  # the hub's archives, and this project
        "data/-abcDEF_123.MP4",
        "data/-abcDEF_123.mkv",
        "videomme/data/-abcDEF_123.mp4",  # below $HF_HOME, by lmms-eval
        "video/-abcDEF_123.mp4",  # by VLMEvalKit, in the snapshot
        "videos/-abcDEF_123.mp4",
        "-abcDEF_123.mp4",
    ],
)
def test_v1_videos_are_found(layout: str, tmp_path: Path) -> None:
    path = touch(tmp_path / layout)
    media = index_media([tmp_path, tmp_path / "videomme"])
    assert locate_video(media, V1) == path


@pytest.mark.parametrize("layout", ["videos/001.mp4", "video/001.mp4", "data/001.mp4", "001.mp4"])
def test_v2_videos_are_found(layout: str, tmp_path: Path) -> None:
    path = touch(tmp_path / layout)
    assert locate_video(index_media([tmp_path]), V2) == path


@pytest.mark.parametrize(
    ("video", "layout"),
    [
        (V1, "subtitle/-abcDEF_123.srt"),
        (V1, "subtitles/-abcDEF_123.srt"),
        (V2, "subtitle/001.jsonl"),
        (V2, "subtitle/subtitle/001.jsonl"),  # lmms-eval's v2 cache
    ],
)
def test_subtitles_are_found(video: VideoReference, layout: str, tmp_path: Path) -> None:
    path = touch(tmp_path / layout)
    assert index_media([tmp_path]).subtitles.get(video.file_stem) == path


def test_a_video_without_subtitles_has_none(tmp_path: Path) -> None:
    touch(tmp_path / "subtitle" / "other.srt")
    assert index_media([tmp_path]).subtitles.get(V1.file_stem) is None


def test_a_v1_video_is_not_found_by_its_number(tmp_path: Path) -> None:
    touch(tmp_path / "videos" / "001.mp4")
    with pytest.raises(VideoMissingError):
        locate_video(index_media([tmp_path]), V1)


def test_ids_that_differ_in_case_are_different_videos(tmp_path: Path) -> None:
    path = touch(tmp_path / "data" / "-ABCdef_123.mp4")
    media = index_media([tmp_path])
    assert locate_video(media, VideoReference("002", "-ABCdef_123")) == path
    with pytest.raises(VideoMissingError):
        locate_video(media, V1)


def test_the_first_root_and_then_the_mp4_file_has_priority(tmp_path: Path) -> None:
    mkv, mp4 = touch(tmp_path / "b/data/001.mkv"), touch(tmp_path / "b/data/001.mp4")
    assert locate_video(index_media([tmp_path / "b"]), V2) == mp4
    first = touch(tmp_path / "a/videos/001.mkv")
    assert locate_video(index_media([tmp_path / "a", tmp_path / "b"]), V2) == first
    assert mkv.exists()


def test_partial_and_unrelated_files_are_ignored(tmp_path: Path) -> None:
    for name in (".001.mp4.partial", "._001.mp4", "001.txt", "001.mp4.part"):
        touch(tmp_path / "videos" / name)
    (tmp_path / "videos" / "001.mp4").mkdir()
    assert index_media([tmp_path]).videos == {}


def test_files_in_an_object_store_are_found_as_on_disk(tmp_path: Path) -> None:
    names = ("data/a.mp4", "data/a.mkv", "data/.b.mp4", "c.MP4", "subtitle/a.srt", "data/x/d.mp4")
    bucket = open_folder(f"memory://media{tmp_path}", "folder")
    for name in names:
        (bucket / name).write_bytes(b"")
        touch(tmp_path / name)
    remote, local = index_media([bucket]), index_media([tmp_path])
    for kind in ("videos", "subtitles"):
        located = {
            stem: str(file)[len(str(bucket)) :] for stem, file in getattr(remote, kind).items()
        }
        on_disk = {
            stem: str(file)[len(str(tmp_path)) :] for stem, file in getattr(local, kind).items()
        }
        assert located == on_disk
    assert {name: len(files) for name, files in unused_files(remote).items()} == {"": 1, "a": 1}
    assert {name: len(files) for name, files in unused_files(local).items()} == {"": 1, "a": 1}


def test_a_missing_video_is_reported_with_file_names_and_folders(tmp_path: Path) -> None:
    touch(tmp_path / "data" / "other.mp4")
    with pytest.raises(VideoMissingError) as caught:
        locate_video(index_media([tmp_path, tmp_path / "none"]), V1)
    message = str(caught.value)
    assert caught.value.video_id == "001"
    assert message.startswith("video 001: no file -abcDEF_123.mp4, .MP4 or .mkv under ")
    assert f"{tmp_path}, {tmp_path / 'none'}" in message
    assert "found 1 videos" in message


def test_the_error_without_any_folder_says_so() -> None:
    with pytest.raises(VideoMissingError, match="under no folder at all"):
        locate_video(index_media([]), V1)


def test_folders_are_read_once_for_any_number_of_videos(tmp_path: Path) -> None:
    paths = [touch(tmp_path / "data" / f"{number:04d}.mp4") for number in range(900)]
    media = index_media([tmp_path])
    for path in paths:
        path.unlink()
    files = [locate_video(media, VideoReference(path.stem, None)) for path in paths]
    assert files == paths
