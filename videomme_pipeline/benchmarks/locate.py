"""Find the video and subtitle files of a benchmark in the layouts of common tools.

The layouts were read from the code of the tools. The hub's archives, and this project, unzip to
`data/<youtube id>.mp4` and `subtitle/<youtube id>.srt` (v1), or `videos/<id>.mp4` and
`subtitle/<id>.jsonl` (v2). lmms-eval unzips to `$HF_HOME/videomme` (its v2 subtitles are in
`subtitle/subtitle`), VLMEvalKit to `video/` and `subtitle/` in the snapshot of the hub cache. Some
files end in `.MP4` or `.mkv`. No file is opened.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from upath import UPath

from videomme_pipeline.errors import VideoMissingError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.storage import objects

VIDEO_FOLDERS = ("data", "videos", "video", ".")
SUBTITLE_FOLDERS = ("subtitle", "subtitles", "subtitle/subtitle", ".")
VIDEO_SUFFIXES = (".mp4", ".mkv")
SUBTITLE_SUFFIXES = (".srt", ".jsonl", ".vtt", ".json")
OTHER_SUBTITLE_SUFFIXES = (".ass", ".ssa", ".sub", ".sbv", ".ttml", ".lrc", ".json3", ".srv3")
"""Suffixes of subtitles that are not read."""
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
        """Its pictures in order: the files with the suffix of the first one."""
        names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_file())
        pictures = [name for name in names if Path(name).suffix.lower() in PICTURE_SUFFIXES]
        suffixes = {Path(name).suffix for name in pictures[:1]}
        return [self.path / name for name in pictures if Path(name).suffix in suffixes]


VideoFile = Path | FrameFolder
"""The file or folder from which a video is read."""

MediaFile = Path | objects.RemoteFile
"""A file that may be in an object store."""

VideoSource = VideoFile | objects.RemoteFile
"""The place in which a video is stored. `on_local_disk` yields the `VideoFile` to read."""


@dataclass(frozen=True, slots=True)
class MediaIndex:
    """The video and subtitle files in some folders, by file stem."""

    roots: tuple[Path | UPath, ...]
    videos: Mapping[str, MediaFile]
    subtitles: Mapping[str, MediaFile]


def index_media(roots: Iterable[Path | UPath]) -> MediaIndex:
    """List the video and subtitle files under `roots`.

    Of two files with the same stem, the one in the first root is used; within a root, the first in
    the order of `VIDEO_FOLDERS` or `SUBTITLE_FOLDERS`; within a folder, `.mp4` before `.mkv`.
    Suffixes match in any case, stems exactly. Missing folders are ignored. StorageError if an
    object store cannot be reached.
    """
    folders = tuple(roots)
    listings = [_listing_of(root) for root in folders]
    return MediaIndex(
        roots=folders,
        videos=_files_by_stem(listings, VIDEO_FOLDERS, VIDEO_SUFFIXES),
        subtitles=_files_by_stem(listings, SUBTITLE_FOLDERS, SUBTITLE_SUFFIXES),
    )


def unused_files(media: MediaIndex) -> dict[str, list[MediaFile]]:
    """Files beside the videos and subtitles that are not read, by the name before the first dot.

    They have another suffix (`.webm`, `.en.srt`), or the same stem as a file that is used.
    """
    files = (*media.videos.values(), *media.subtitles.values())
    used = {path for path in files if "." not in path.stem}
    unused: dict[str, list[MediaFile]] = defaultdict(list)
    for files_in in map(_listing_of, media.roots):
        for folder in sorted({*VIDEO_FOLDERS, *SUBTITLE_FOLDERS}):
            for name, path in files_in(folder).items():
                if path not in used:
                    unused[name.partition(".")[0]].append(path)
    return unused


def is_subtitle(name: str) -> bool:
    """True if a file with this name has subtitles, also if they are in a form that is not read."""
    suffixes = (*SUBTITLE_SUFFIXES, *OTHER_SUBTITLE_SUFFIXES)
    return name.lower().endswith(suffixes) and not name.lower().endswith(".info.json")


def locate_video(media: MediaIndex, video: VideoReference) -> MediaFile:
    """The file of `video`. A VideoMissingError has the ids and the searched folders."""
    file = media.videos.get(video.file_stem)
    if file is None:
        roots = ", ".join(map(str, media.roots)) or "no folder at all"
        raise VideoMissingError(
            video.video_id,
            f"no file {video.file_stem}.mp4, .MP4 or .mkv under {roots} (looked in "
            f"{', '.join(VIDEO_FOLDERS[:-1])} and the folder itself, found {len(media.videos)} "
            "videos); materialize the `videos` asset, or set `folder` to your copy",
        )
    return file


def spellings(name: str) -> Iterator[str]:
    """Yield `name`, then the name with its suffix in another case or its accents decomposed."""
    yield name
    path = PurePosixPath(name)
    cases = [path.suffix, path.suffix.lower(), path.suffix.upper()]
    names = [str(path.with_suffix(suffix)) for suffix in cases] if path.suffix else [name]
    forms = [*names, *(normalize(form, item) for form in ("NFC", "NFD") for item in names)]
    yield from (form for form in dict.fromkeys(forms) if form != name)


def first_file(paths: Iterable[Path | UPath], suffixes: Sequence[str] = ("",)) -> MediaFile | None:
    """The first of `paths`, each followed by each of `suffixes`, that is a file, or None."""
    for path, suffix in ((path, suffix) for path in paths for suffix in suffixes):
        candidate = path.with_name(path.name + suffix) if suffix else path
        if objects.is_local(candidate):
            if candidate.is_file():
                return candidate
            continue
        with suppress(FileNotFoundError), objects.listing(candidate):
            return objects.RemoteFile(candidate, objects.object_state(candidate))
    return None


def state_of(file: MediaFile) -> objects.FileState:
    """The state of a file. That of a remote one is the state in which it was listed."""
    return file.state if isinstance(file, objects.RemoteFile) else objects.file_state(file)


_Listing = Callable[[str], Mapping[str, MediaFile]]
"""The files in a folder of a root by name, sorted. The folder is its path from there."""


def _listing_of(root: Path | UPath) -> _Listing:
    if objects.is_local(root):
        return lambda folder: _files_in(root / folder)
    by_folder: dict[str, dict[str, MediaFile]] = defaultdict(dict)
    with objects.listing(root):
        for key, state in objects.list_objects(root).items():
            folder, _, name = key.rpartition("/")
            by_folder[folder or "."][name] = objects.RemoteFile(root / key, state)
    return lambda folder: by_folder[folder]


def _files_by_stem(
    listings: Sequence[_Listing], folders: Sequence[str], suffixes: Sequence[str]
) -> dict[str, MediaFile]:
    by_stem: dict[str, MediaFile] = {}
    for files_in in listings:
        for folder in folders:
            files = files_in(folder)
            for suffix in suffixes:
                for name, path in files.items():
                    if name[-len(suffix) :].lower() == suffix and not name.startswith("."):
                        by_stem.setdefault(name[: -len(suffix)], path)
    return by_stem


def _files_in(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if _may_be_file(entry))
    return {name: folder / name for name in names}


def _may_be_file(entry: os.DirEntry[str]) -> bool:
    """True for a file, and for a link that cannot be followed: reading it gives the reason."""
    try:
        return entry.is_file()
    except OSError:
        return True
