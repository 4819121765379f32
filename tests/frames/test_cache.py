"""The frame cache: files are read as written, and damaged files are renamed and rebuilt."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from PIL import Image

from tests.support.builders import draw_frame, pixels_of, read_barcode
from tests.support.stored_frames import write_frames
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.frames.cache import (
    ROW_GROUP_FRAMES,
    Frame,
    FrameSet,
    FrameWriter,
    ShownFrame,
    frames_fingerprint,
    read_frames,
    read_shown,
    read_stored,
)
from videomme_pipeline.frames.picture import Encoding, PictureSpec
from videomme_pipeline.frames.sampling import Choice, Limit, UniformN
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store

SAMPLING = UniformN(frames=3)


def picture_of(number: int) -> bytes:
    sink = io.BytesIO()
    Image.fromarray(draw_frame(number)).save(sink, "JPEG", quality=90)
    return sink.getvalue()


def frames_of(count: int) -> list[Frame]:
    return [
        Frame(
            requested_seconds=n / 3,
            pts_seconds=n / 3 + 0.01,
            index=n * 7,
            is_keyframe=n % 2 == 0,
            width=160,
            height=120,
            picture=picture_of(n),
        )
        for n in range(count)
    ]


def choice_of(frames: list[Frame], asked: int | None = None, limit: Limit | None = None) -> Choice:
    return Choice(
        frames=tuple(frame.index for frame in frames),
        requested_seconds=tuple(frame.requested_seconds for frame in frames),
        asked=asked or len(frames),
        limit=limit,
    )


def stored(store: Store, count: int = 3) -> FrameSet:
    frames = frames_of(count)
    return write_frames(store, "video", SAMPLING, choice_of(frames), frames)


def test_frames_are_read_as_they_were_written(tmp_path: Path) -> None:
    store, frames = Store.at(tmp_path), frames_of(ROW_GROUP_FRAMES + 5)
    choice = choice_of(frames, asked=512, limit=Limit.ALL_THERE_ARE)
    frame_set = write_frames(store, "video", SAMPLING, choice, frames)
    assert frame_set.frames == tuple(frames)
    assert (frame_set.asked, frame_set.limit, frame_set.sampling) == (
        512,
        Limit.ALL_THERE_ARE,
        "uniform_n-3",
    )
    assert frame_set == read_frames(store, "video", frames_fingerprint(SAMPLING))
    metadata = parquet.read_metadata(store.frames("video", frame_set.fingerprint))
    assert metadata["fingerprint"] == frame_set.fingerprint


def test_a_file_with_a_flipped_bit_in_a_picture_is_detected_and_renamed(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    frame_set = stored(store)
    path = Path(store.frames("video", frame_set.fingerprint).path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"checksum.*renamed to .*\.corrupt"):
        read_frames(store, "video", frame_set.fingerprint)
    assert not store.frames("video", frame_set.fingerprint).exists()
    assert path.with_name(f"{path.name}.corrupt").exists()
    assert stored(store).frames == frame_set.frames


@pytest.mark.parametrize("read", [read_frames, read_shown])
@pytest.mark.parametrize("keep", [0, 4, 500, -1])
def test_a_truncated_file_is_detected(
    tmp_path: Path, keep: int, read: Callable[[Store, str, str], object]
) -> None:
    store = Store.at(tmp_path)
    frame_set = stored(store)
    path = Path(store.frames("video", frame_set.fingerprint).path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DamagedFileError, match="the file is damaged"):
        read(store, "video", frame_set.fingerprint)
    assert not store.frames("video", frame_set.fingerprint).exists()


def test_shown_frames_are_read_without_the_pictures(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    frame_set = stored(store, ROW_GROUP_FRAMES + 5)
    path = Path(store.frames("video", frame_set.fingerprint).path)
    data = path.read_bytes()
    position = data.index(frame_set.frames[1].picture)
    path.write_bytes(data[:position] + bytes(1000) + data[position + 1000 :])
    shown = read_shown(store, "video", frame_set.fingerprint)
    assert shown == tuple(
        ShownFrame(blake3(frame.picture).hexdigest()[:24], frame.pts_seconds, frame.index)
        for frame in frame_set.frames
    )


@pytest.mark.parametrize("read", [read_frames, read_shown])
def test_a_changed_digest_in_the_footer_is_detected(
    tmp_path: Path, read: Callable[[Store, str, str], object]
) -> None:
    store = Store.at(tmp_path)
    frame_set = stored(store)
    path = Path(store.frames("video", frame_set.fingerprint).path)
    digest = frame_set.frames[1].shown.digest.encode()
    changed = digest[:-1] + (b"0" if digest[-1:] != b"0" else b"1")
    path.write_bytes(path.read_bytes().replace(digest, changed))
    with pytest.raises(DamagedFileError, match="checksum"):
        read(store, "video", frame_set.fingerprint)


def test_a_file_under_a_wrong_name_is_detected(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    frame_set = stored(store)
    other = store.frames("other", frame_set.fingerprint)
    other.write_bytes(store.frames("video", frame_set.fingerprint).read_bytes())
    with pytest.raises(DamagedFileError, match="another video"):
        read_frames(store, "other", frame_set.fingerprint)


def test_a_file_is_invisible_until_it_is_published_and_after_a_failure(tmp_path: Path) -> None:
    store, frames = Store.at(tmp_path), frames_of(2)
    with pytest.raises(RuntimeError), FrameWriter(store, "video", SAMPLING) as writer:  # noqa: PT012
        writer.add(frames[0])
        assert not store.frames("video", writer.fingerprint).exists()
        raise RuntimeError
    assert list((tmp_path / "frames").iterdir()) == []


def test_reading_frames_that_are_not_stored_raises_file_not_found(tmp_path: Path) -> None:
    for read in (read_frames, read_shown):
        with pytest.raises(FileNotFoundError):
            read(Store.at(tmp_path), "video", "none")


def test_everything_that_changes_a_pixel_changes_the_fingerprint() -> None:
    names = [
        "uniform_n-16",
        "uniform_n-16-endpoints",
        "uniform_n-17",
        "uniform_n-16.native",
        "uniform_n-16.long_side-448",
        "uniform_n-16.jpeg-84",
        "uniform_n-16.png",
        "uniform_n-16.decord",
        "fps_based-16",
    ]
    fingerprints = {frames_fingerprint(parse_sampling(name)) for name in names}
    assert len(fingerprints) == len(names)


def test_equal_frame_counts_of_different_budgets_have_equal_fingerprints() -> None:
    by_duration = parse_sampling("uniform_n-32.frames_by_duration-8-_-64")
    plain = frames_fingerprint(parse_sampling("uniform_n-8"))
    assert frames_fingerprint(by_duration, Duration.SHORT) == plain
    assert frames_fingerprint(by_duration, Duration.LONG) != plain


def test_a_frame_set_has_arrays_and_a_contact_sheet(tmp_path: Path) -> None:
    frame_set = stored(Store.at(tmp_path), 5)
    arrays = [pixels_of(frame) for frame in frame_set.frames]
    assert {array.shape for array in arrays} == {(120, 160, 3)}
    assert [read_barcode(array) for array in arrays] == [0, 1, 2, 3, 4]
    sheet = frame_set.contact_sheet(columns=2, width=80)
    assert sheet.size == (160, 3 * (60 + 16))
    sheet = frame_set.contact_sheet(columns=2, width=160)
    corners = [(x, y) for y in (0, 136, 272) for x in (0, 160)][:5]
    shown = [np.asarray(sheet.crop((x, y, x + 160, y + 120))) for x, y in corners]
    assert [read_barcode(picture) for picture in shown] == [0, 1, 2, 3, 4]
    captions = [
        np.asarray(sheet.crop((x, y + 120, x + 160, y + 136)).convert("L")) for x, y in corners
    ]
    ends = [int(np.flatnonzero((caption < 128).any(axis=0))[-1]) for caption in captions]
    assert min(ends[::2]) > max(ends[1::2]), "every second frame is a keyframe, and says so"


def test_the_stored_frames_of_a_question_are_counted_without_the_others(tmp_path: Path) -> None:
    store, frames = Store.at(tmp_path), frames_of(3)
    choice = replace(choice_of(frames), by_question={"q": (14, 0), "other": (7,)})
    write_frames(store, "video", SAMPLING, choice, frames)
    stored_frames = read_stored(store, "video", frames_fingerprint(SAMPLING), "q")
    sizes = {frame.index: len(frame.picture) for frame in frames}
    assert (stored_frames.count, stored_frames.bytes) == (2, sizes[14] + sizes[0])


def test_a_png_sampling_has_the_media_type_of_png(tmp_path: Path) -> None:
    sampling = UniformN(frames=1, picture=PictureSpec(encoding=Encoding.PNG))
    frames = frames_of(1)
    frame_set = write_frames(Store.at(tmp_path), "video", sampling, choice_of(frames), frames)
    assert frame_set.media_type == "image/png"
