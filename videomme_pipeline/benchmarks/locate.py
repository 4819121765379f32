"""Find the video and subtitle files of a benchmark in the layouts of common tools.

The layouts were read from the code of the tools. The hub's archives, and this project, unzip to
`data/<youtube id>.mp4` and `subtitle/<youtube id>.srt` (v1), or `videos/<id>.mp4` and
`subtitle/<id>.jsonl` (v2). lmms-eval unzips to `$HF_HOME/videomme` (its v2 subtitles are in
`subtitle/subtitle`), VLMEvalKit to `video/` and `subtitle/` in the snapshot of the hub cache. Some
files end in `.MP4` or `.mkv`. No file is opened.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from videomme_pipeline.errors import VideoMissingError
from videomme_pipeline.fetch.release import VideoReference

VIDEO_FOLDERS = ("data", "videos", "video", ".")
SUBTITLE_FOLDERS = ("subtitle", "subtitles", "subtitle/subtitle", ".")
VIDEO_SUFFIXES = (".mp4", ".mkv")
SUBTITLE_SUFFIXES = (".srt", ".jsonl")
DECLARED_VIDEO_SUFFIXES = (*VIDEO_SUFFIXES, ".webm", ".avi", ".mov", ".m4v")
"""Suffixes of videos that the annotations name without one."""


PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True, slots=True)
class FrameFolder:
    """A folder of pictures that are the frames of a video, in the order of their names."""

    path: Path
    frames_per_second: float

    def __str__(self) -> str:
        return str(self.path)

    @property
    def stem(self) -> str:
        return self.path.name

    @property
    def pictures(self) -> list[Path]:
        """Its pictures in order: the files with the suffix of the first one.

        Raises:
            OSError: if there is no such folder, or it cannot be read.
        """
        names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_file())
        found = [name for name in names if Path(name).suffix.lower() in PICTURE_SUFFIXES]
        suffixes = {Path(name).suffix for name in found[:1]}
        return [self.path / name for name in found if Path(name).suffix in suffixes]


VideoFile = Path | FrameFolder
"""What a video is read from."""


@dataclass(frozen=True, slots=True)
class MediaIndex:
    """The video and subtitle files in some folders, by file stem."""

    roots: tuple[Path, ...]
    videos: Mapping[str, Path]
    subtitles: Mapping[str, Path]


def index_media(roots: Iterable[Path]) -> MediaIndex:
    """List the video and subtitle files under `roots`. Each folder is read once.

    Of two files with the same stem, the one in the first root is used; within a root, the first in
    the order of `VIDEO_FOLDERS` or `SUBTITLE_FOLDERS`; within a folder, `.mp4` before `.mkv`.
    Suffixes match in any case, stems exactly. Missing folders are ignored.
    """
    folders = tuple(roots)
    return MediaIndex(
        roots=folders,
        videos=_files_by_stem(folders, VIDEO_FOLDERS, VIDEO_SUFFIXES),
        subtitles=_files_by_stem(folders, SUBTITLE_FOLDERS, SUBTITLE_SUFFIXES),
    )


def unused_files(media: MediaIndex) -> dict[str, list[Path]]:
    """Files beside the videos and subtitles that are not read, by the name before the first dot.

    They have another suffix (`.webm`, `.en.srt`), or the same stem as a file that is used.
    """
    files = (*media.videos.values(), *media.subtitles.values())
    used = {path for path in files if "." not in path.stem}
    folders = {
        root / folder for root in media.roots for folder in (*VIDEO_FOLDERS, *SUBTITLE_FOLDERS)
    }
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in sorted(path for path in folders if path.is_dir()):
        for path in sorted(folder.iterdir()):
            if path not in used and path.is_file():
                found[path.name.partition(".")[0]].append(path)
    return found


def locate_video(media: MediaIndex, video: VideoReference) -> Path:
    """The file of `video`.

    Raises:
        VideoMissingError: if it is missing. The message has the ids and the searched folders.
    """
    found = media.videos.get(video.file_stem)
    if found is None:
        roots = ", ".join(map(str, media.roots)) or "no folder at all"
        raise VideoMissingError(
            video.video_id,
            f"no file {video.file_stem}.mp4, .MP4 or .mkv under {roots} (looked in "
            f"{', '.join(VIDEO_FOLDERS[:-1])} and the folder itself, found {len(media.videos)} "
            "videos); materialize the `videos` asset, or set `folder` to your copy",
        )
    return found


def first_file(paths: Iterable[Path], *, with_suffixes: bool = False) -> Path | None:
    """The first of `paths` that is a file, or None. `with_suffixes` adds those of videos."""
    suffixes = ("", *DECLARED_VIDEO_SUFFIXES) if with_suffixes else ("",)
    candidates = (path.with_name(path.name + suffix) for path in paths for suffix in suffixes)
    return next((path for path in candidates if path.is_file()), None)


def locate_subtitle(media: MediaIndex, video: VideoReference) -> Path | None:
    """The subtitle file of `video`, or None if it has none (156 of v1's 900 videos)."""
    return media.subtitles.get(video.file_stem)


def _files_by_stem(
    roots: Sequence[Path], folders: Sequence[str], suffixes: Sequence[str]
) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in roots:
        for folder in folders:
            for path in _files_in(root / folder, suffixes):
                found.setdefault(path.stem, path)
    return found


def _files_in(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Files with one of `suffixes`, ordered by suffix, then by name."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        paths = [
            Path(entry.path)
            for entry in entries
            if not entry.name.startswith(".")
            and os.path.splitext(entry.name)[1].lower() in suffixes  # noqa: PTH122 - much faster
            and _may_be_file(entry)
        ]
    return sorted(paths, key=lambda path: (suffixes.index(path.suffix.lower()), path.name))


def _may_be_file(entry: os.DirEntry[str]) -> bool:
    """True for a file, and for a link that cannot be followed: reading it gives the reason."""
    try:
        return entry.is_file()
    except OSError:
        return True
