"""Broken and odd videos: each is decoded or fails with its reason, and the others go on."""

import os
import re
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from pathlib import Path

import av
import numpy as np
import pytest
from blake3 import blake3

from tests.support.builders import (
    ODD_VIDEOS,
    damage,
    declare_samples,
    draw_frame,
    hide_first_frames,
    hole,
    truncate,
    write_audio_only,
    write_video,
)
from tests.support.paths import ROOT
from videomme_pipeline.frames.extract import FrameJob, extract
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.container import VIDEO_LIMITS
from videomme_pipeline.videos.probe import ProbeJob, probe_videos

Build = Callable[[Path], object]

DECODED = "decoded"
GOOD = ("good at the start", "good at the end")
EVERY_FRAME = parse_sampling("fps_based-10")
NO_VIDEO = "no video that can be opened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A builder of a file, and the outcomes of probing it and of extracting all its frames.

    An outcome is `DECODED` or a regular expression of the error.
    """

    build: Build
    probe: str
    extract: str


def fails(reason: str, build: Build) -> Kind:
    return Kind(build=build, probe=reason, extract=reason)


def decodes(build: Build) -> Kind:
    return Kind(build=build, probe=DECODED, extract=DECODED)


def is_damaged(reason: str, build: Build) -> Kind:
    """A video whose first picture decodes, but not all of them."""
    return Kind(build=build, probe=DECODED, extract=reason)


# Builders.


def noise(size: int) -> bytes:
    return np.random.default_rng(0).bytes(size)


def content(data: bytes) -> Build:
    return lambda path: path.write_bytes(data)


def header_first(path: Path) -> Path:
    return write_video(path, container_options={"movflags": "+faststart"})


def fragmented(path: Path) -> Path:
    return write_video(path, container_options={"movflags": "+frag_keyframe+empty_moov"})


def in_format(suffix: str, **options: str) -> Callable[[Path], Path]:
    """Return a builder that writes another format to a file called .mp4."""

    def write(path: Path) -> Path:
        return write_video(path.with_suffix(suffix), **options).rename(path)  # type: ignore[arg-type]

    return write


def cut(keep: float, build: Callable[[Path], Path] = write_video) -> Build:
    return lambda path: truncate(build(path), keep)


def with_hole(at: float, build: Callable[[Path], Path] = write_video) -> Build:
    return lambda path: hole(build(path), at, 4000)


def with_noise(at: float, build: Callable[[Path], Path] = write_video) -> Build:
    return lambda path: damage(build(path), at, 4000)


def with_samples(box: str) -> Build:
    """A video with B-frames, in which `box` declares 2^31 - 1 samples."""
    return lambda path: declare_samples(write_video(path, options={"bf": "2"}), box, 2**31 - 1)


def patched(box: str, offset: int, data: bytes) -> Build:
    """Return a builder that overwrites bytes of `box`, counted from the end of its name."""

    def write(path: Path) -> None:
        video = bytearray(write_video(path).read_bytes())
        start = video.index(box.encode()) + 4 + offset
        video[start : start + len(data)] = data
        path.write_bytes(video)

    return write


def replaced(old: bytes, new: bytes) -> Build:
    return lambda path: path.write_bytes(write_video(path).read_bytes().replace(old, new))


def empty_media(path: Path) -> None:
    """Zero the bytes of all pictures."""
    video = bytearray(write_video(path).read_bytes())
    start = video.index(b"mdat") + 4
    size = int.from_bytes(video[start - 8 : start - 4], "big") - 8
    video[start : start + size] = bytes(size)
    path.write_bytes(video)


def with_noise_appended(path: Path) -> None:
    path.write_bytes(write_video(path).read_bytes() + noise(3000))


def two_tracks(path: Path) -> None:
    with av.open(str(path), "w") as output:
        streams = [output.add_stream("libx264", rate=10) for _ in range(2)]
        for number, stream in enumerate(streams):
            stream.width, stream.height, stream.pix_fmt = 160 >> number, 120 >> number, "yuv420p"
        for index in range(20):
            for stream in streams:
                picture = draw_frame(index, stream.width, stream.height)
                output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        for stream in streams:
            output.mux(stream.encode(None))


def black(width: int, height: int, frames: int) -> Build:
    return lambda path: write_video(
        path,
        frames=frames,
        width=width,
        height=height,
        pictures=repeat(np.zeros((height, width, 3), np.uint8), frames),
        options={"preset": "ultrafast"},
    )


def slow_to_index(path: Path) -> None:
    """A stream without timestamps. Indexing decodes its 10,000 pictures of 4096 × 4096."""
    stream = path.with_suffix(".h264")
    black(4096, 4096, 20)(stream)
    path.write_bytes(stream.read_bytes() * 500)
    stream.unlink()


def link_to_another_folder(path: Path) -> None:
    path.symlink_to(write_video(path.parent / "elsewhere" / path.name))


def link(target: str) -> Build:
    return lambda path: path.symlink_to(target)


def missing(path: Path) -> None:
    assert not path.exists()


def box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I4s", len(data) + 8, kind) + data


def nested_boxes(path: Path) -> None:
    boxes = b""
    for _ in range(2000):
        boxes = box(b"trak", boxes)
    path.write_bytes(FTYP + box(b"moov", boxes))


FTYP = box(b"ftyp", b"isom\0\0\2\0isomiso2avc1mp41")
PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\n%s\n#EXT-X-ENDLIST\n"

# The kinds.

NO_VIDEOS: Mapping[str, Kind] = {
    "no bytes": fails("the file is empty", content(b"")),
    "text": fails(NO_VIDEO, content(b"nothing in particular " * 50)),
    "page of a quota": fails("an HTML page", content(b"<!DOCTYPE html><html>quota</html>")),
    "page after a blank line": fails("an HTML page", content(b"\n <HTML><body>404</body></HTML>")),
    "XML": fails("an XML document", content(b'<?xml version="1.0"?><Error/>')),
    "JSON": fails("a JSON or text document", content(b'{"error": "rate limit"}')),
    "ZIP": fails("a ZIP archive", content(b"PK\3\4" + noise(500))),
    "gzip": fails("a gzip archive", content(b"\x1f\x8b" + noise(500))),
    "PDF": fails("a PDF document", content(b"%PDF-1.7\n" + noise(500))),
    "JPEG": fails("a JPEG picture", content(b"\xff\xd8\xff\xe0" + noise(500))),
    "PNG": fails("a PNG picture", content(b"\x89PNG\r\n\x1a\n" + noise(500))),
    "LFS pointer": fails("a Git LFS pointer", content(b"version https://git-lfs.github.com/")),
    "noise": fails(NO_VIDEO, content(noise(20_000))),
    "zeros": fails(NO_VIDEO, content(bytes(1 << 20))),
    "subtitles": fails("only subtitle", content(b"1\n00:00:00,000 --> 00:00:01,000\nhello\n")),
    "sound": fails("no video stream in it, only audio", write_audio_only),
    "playlist": fails("a list of other files", content(PLAYLIST % f"{GOOD[0]}.mp4".encode())),
    "list of files": fails(
        "a list of other files", content(f"ffconcat version 1.0\nfile '{GOOD[0]}.mp4'\n".encode())
    ),
    "manifest": fails("an XML document", content(b'<?xml version="1.0"?><MPD/>')),
    "session": fails(
        NO_VIDEO,
        content(b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n"),
    ),
}

BROKEN_CONTAINERS: Mapping[str, Kind] = {
    "noise after ftyp": fails("no 'moov' box", content(FTYP + noise(5000))),
    "no moov": fails("no 'moov' box.*cut off", cut(0.5)),
    "half of the media": is_damaged("the file is cut off", cut(0.5, header_first)),
    "half of the moov": fails("no whole packet", cut(0.03, header_first)),
    "header without fragments": fails("no whole packet", cut(0.02, fragmented)),
    "moov without tracks": fails("no video stream", content(FTYP + box(b"moov", b""))),
    "nested boxes": fails("no video stream", nested_boxes),
    "moov of a petabyte": fails(
        "no video stream", content(FTYP + struct.pack(">I4sQ", 1, b"moov", 1 << 50))
    ),
    "a million boxes": fails("no 'moov' box", content(FTYP + box(b"free", b"") * 1_000_000)),
    "stsz of 2^31 samples": fails("'stsz' declares 2,147,483,647 samples", with_samples("stsz")),
    "stts of 2^31 samples": fails("'stts' declares 2,147,483,647 samples", with_samples("stts")),
    "ctts of 2^31 samples": fails("'ctts' declares 2,147,483,7.. samples", with_samples("ctts")),
    "stsc of 2^31 samples": fails("'stsc' declares 2,147,483,647 samples", with_samples("stsc")),
    "stsz of 2^32 sizes": fails("'stsz' declares", patched("stsz", 8, b"\xff" * 4)),
    "stss of 2^32 keyframes": fails(NO_VIDEO, patched("stss", 4, b"\xff" * 4)),
    "stco of 2^32 chunks": decodes(patched("stco", 4, b"\xff" * 4)),
    "elst of 2^32 edits": decodes(patched("elst", 4, b"\xff" * 4)),
    "keyframe number 0": decodes(patched("stss", 8, bytes(4))),
    "timescale 0": decodes(patched("mdhd", 12, bytes(4))),
    "edit after the end": fails(
        "its edit list hides all of them",
        lambda path: hide_first_frames(write_video(path), 100 * 10_240),
    ),
    "media beyond the file": Kind(
        build=patched("stco", 8, b"\x7f" * 4),
        probe="no packet contains a picture",
        extract="decoded 0 of 60 frames",
    ),
    "encrypted": fails("encrypted", replaced(b"avc1", b"encv")),
    "unknown codec": fails("no decoder", replaced(b"avc1", b"zzzz")),
    "no codec configuration": fails(NO_VIDEO, replaced(b"avcC", b"free")),
    "cut Matroska": is_damaged("the file is cut off", cut(0.5, in_format(".mkv"))),
    "noise in Matroska": is_damaged("an unreadable part", with_noise(0.5, in_format(".mkv"))),
    "cut AVI": is_damaged("the file is cut off", cut(0.5, in_format(".avi", codec="mpeg4"))),
    "hole in a transport stream": is_damaged(
        "an unreadable part", with_hole(0.5, in_format(".ts"))
    ),
}

BROKEN_PICTURES: Mapping[str, Kind] = {
    "zeros for pictures": Kind(
        build=empty_media, probe="the first does not decode", extract="decoded 0 of 60 frames"
    ),
    "hole near the start": is_damaged(
        "a packet that does not decode", with_hole(0.1, header_first)
    ),
    "hole in the middle": is_damaged("a packet that does not decode", with_hole(0.5)),
    "noise in the middle": is_damaged("a packet that does not decode", with_noise(0.5)),
    "noise at the end": is_damaged("a packet that does not decode", with_noise(0.9, header_first)),
    "hole in HEVC": is_damaged(
        "a packet with a hole", with_hole(0.5, in_format(".mp4", codec="libx265"))
    ),
    "hole in VP9": is_damaged(
        "an unreadable part", with_hole(0.5, in_format(".webm", codec="libvpx-vp9"))
    ),
    "hole in AV1": is_damaged(
        "a packet with a hole", with_hole(0.5, in_format(".mp4", codec="libsvtav1"))
    ),
    "hole in MPEG-2": is_damaged(
        "marks as corrupt", with_hole(0.5, in_format(".mpg", codec="mpeg2video"))
    ),
}

ODD: Mapping[str, Kind] = {
    "one frame": decodes(lambda path: write_video(path, frames=1)),
    "2 × 2 pixels": decodes(black(2, 2, 5)),
    "8K": decodes(black(7680, 4320, 2)),
    "ten hours between two frames": decodes(
        lambda path: write_video(path, frames=2, pts=[0, 36_000_000], time_base=Fraction(1, 1000))
    ),
    "ten hours claimed": decodes(patched("mdhd", 16, struct.pack(">I", 36_000 * 10_240))),
    "metadata that is not text": decodes(replaced(b"Lavf", b"\xff\xfe\xff\xfe")),
    "noise after the video": decodes(with_noise_appended),
    "two video tracks": decodes(two_tracks),
    "wrong size of the track": decodes(patched("tkhd", 76, struct.pack(">II", 1 << 31, 1 << 31))),
    "Matroska called mp4": decodes(in_format(".mkv")),
    "link to another folder": decodes(link_to_another_folder),
    **{name: decodes(build) for name, build in ODD_VIDEOS.items()},
}

NO_FILES: Mapping[str, Kind] = {
    "no file": fails("no such file", missing),
    "folder": fails("not a regular file", Path.mkdir),
    "pipe": fails("not a regular file", os.mkfifo),
    "endless device": fails("not a regular file", link("/dev/zero")),
    "dangling link": fails("no such file", link("nowhere.mp4")),
    "link to itself": fails("symbolic links", lambda path: path.symlink_to(path.name)),
    "file of the system": fails(NO_VIDEO, link("/etc/passwd")),
}

DECODERS: Mapping[str, Kind] = {
    "decoder crashes": fails("its process crashed \\(SIGSEGV\\)", write_video),
    "decoder is killed": fails("its process was killed", write_video),
    "decoder exits": fails("its process ended with exit code 3", write_video),
    "decoder needs all memory": fails("it ran out of memory", write_video),
    "decoder prints": decodes(write_video),
}
"""Faults of tests/support/faulty_libav, in a real child process."""

TIME_LIMIT_SECONDS = 8
TOO_LONG = f"not finished after {TIME_LIMIT_SECONDS} s, so it was stopped"
HANGS: Mapping[str, Kind] = {
    "decoder hangs": fails(TOO_LONG, write_video),
    "slow to index": fails(TOO_LONG, slow_to_index),
}

KINDS: Mapping[str, Kind] = {
    **NO_VIDEOS,
    **BROKEN_CONTAINERS,
    **BROKEN_PICTURES,
    **ODD,
    **NO_FILES,
    **DECODERS,
    **HANGS,
}
EVERYDAY = (
    "no bytes",
    "page of a quota",
    "list of files",
    "half of the media",
    "stsz of 2^31 samples",
    "unknown codec",
    "one frame",
    "pipe",
    "link to itself",
    "decoder crashes",
)


@pytest.fixture(autouse=True)
def _faulty_libav(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "support" / "faulty_libav")


def unexpected(folder: Path, names: Iterable[str], seconds: float) -> dict[str, tuple[str, str]]:
    """Probe and extract the videos between two good ones, and return what did not go as expected.

    Each video may take `seconds`. The values are the outcomes of probing and of extraction.
    """
    kinds = {name: KINDS.get(name, decodes(write_video)) for name in (GOOD[0], *names, GOOD[1])}
    paths = {name: folder / f"{Path(name).stem}.mp4" for name in kinds}
    for name, kind in kinds.items():
        kind.build(paths[name])
    hashes = {name: blake3(name.encode()).hexdigest() for name in paths}
    probe_jobs = [
        ProbeJob(benchmark="media", video_id=name, path=path, content_hash=hashes[name])
        for name, path in paths.items()
    ]
    frame_jobs = [
        FrameJob(video_id=name, path=path, video_hash=hashes[name], samplings=(EVERY_FRAME,))
        for name, path in paths.items()
    ]
    limits = TaskLimits(seconds=seconds, memory_bytes=VIDEO_LIMITS.memory_bytes)
    probed = {
        result.task.video_id: result.error for result in probe_videos(probe_jobs, limits=limits)
    }
    extracted = {
        result.job.video_id: result.error
        for result in extract(frame_jobs, store=Store.at(folder / "data"), limits=limits)
    }
    return {
        name: (str(probed[name]), str(extracted[name]))
        for name, kind in kinds.items()
        if not (
            is_expected(probed[name], kind.probe) and is_expected(extracted[name], kind.extract)
        )
    }


def is_expected(error: Exception | None, outcome: str) -> bool:
    if error is None or outcome == DECODED:
        return error is None and outcome == DECODED
    return str(error).startswith("video ") and bool(re.search(outcome, str(error)))


@pytest.mark.slow
def test_broken_videos_fail_with_their_reasons_and_the_others_decode(tmp_path: Path) -> None:
    assert unexpected(tmp_path, EVERYDAY, 900) == {}


@pytest.mark.slow
def test_every_kind_of_video_decodes_or_fails_with_its_reason(tmp_path: Path) -> None:
    assert unexpected(tmp_path, KINDS.keys() - HANGS.keys(), 900) == {}


@pytest.mark.slow
def test_videos_that_take_too_long_are_stopped_and_the_others_decode(tmp_path: Path) -> None:
    assert unexpected(tmp_path, HANGS, TIME_LIMIT_SECONDS) == {}


def test_no_video_opens_a_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/a.ts"
        jobs = []
        lists = (
            PLAYLIST,
            b"ffconcat version 1.0\nfile '%s'\n",
            b'<?xml version="1.0"?><MPD>%s</MPD>',
        )
        for number, text in enumerate(lists):
            path = tmp_path / f"{number}.mp4"
            path.write_bytes(text % address.encode())
            jobs.append(ProbeJob(benchmark="media", video_id=path.stem, path=path, content_hash=""))
        assert all(result.error for result in probe_videos(jobs))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_documentation_has_the_number_of_kinds() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert f"{len(KINDS)} kinds of broken or odd video" in text
