"""Facts about a published benchmark: its dataset repository on the hub, and its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec

Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]

FOOTAGE_SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v")
"""Suffixes of the video files that annotations name."""
OPTIONAL_SUFFIXES = ("", *FOOTAGE_SUFFIXES, *(suffix.upper() for suffix in FOOTAGE_SUFFIXES))
"""Suffixes that may follow the name of a video in annotations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The part of a video from `start_seconds` to `end_seconds`. None is the end of the video."""

    start_seconds: float = 0.0
    end_seconds: float | None = None

    def __str__(self) -> str:
        end = "the end" if self.end_seconds is None else f"{self.end_seconds:g} s"
        return f"the clip from {self.start_seconds:g} s to {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Footage:
    """Facts about a video in the annotations, besides its id. A fact that they lack is None."""

    video_file: str | None = None
    """Path in the benchmark's folder; a folder of pictures if `frames_per_second` is set."""
    frames_per_second: float | None = None
    """Pictures per second of a folder of pictures."""
    clip_start_seconds: float | None = None
    """Start of the part of the file that is shown."""
    clip_end_seconds: float | None = None
    """End of the part of the file that is shown."""
    subtitle_file: str | None = None
    """Path of the subtitle file in the benchmark's folder."""
    subtitle_start_seconds: float | None = None
    """Time in the subtitle file at which the video file starts."""

    @property
    def clip(self) -> Clip | None:
        """The part of the file that is shown, or None for the whole file."""
        if self.clip_start_seconds is None and self.clip_end_seconds is None:
            return None
        return Clip(start_seconds=self.clip_start_seconds or 0.0, end_seconds=self.clip_end_seconds)

    @property
    def subtitle_shift_seconds(self) -> float | None:
        """Time of the first frame in the subtitle file, or None if it is that of the video file."""
        if self.subtitle_start_seconds is None and self.clip is None:
            return None
        return (self.subtitle_start_seconds or 0.0) + (self.clip_start_seconds or 0.0)


@dataclass(frozen=True, slots=True)
class VideoReference:
    """A video as the annotations name it. Its file may not exist yet."""

    video_id: str
    youtube_id: str | None
    footage: Footage = Footage()

    @property
    def file_stem(self) -> str:
        """Stem of its video and subtitle files: the YouTube id in v1, the video id in v2."""
        return self.youtube_id or self.video_id


class HubSpec(Spec):
    """A dataset repository on the Hugging Face Hub. Paths are relative to the repository."""

    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: Revision | None = None
    """The pinned commit. Without one, the user sets `revision` in benchmarks.yaml."""
    archives: tuple[str, ...] = ()
    """Archives with the videos: `.zip`, `.tar` or `.tar.gz`."""
    parts: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """The files of each archive that is split, in order."""
    videos_per_archive: int | None = Field(default=None, ge=1)
    """The number of consecutive videos in each archive, if the number of a video determines it."""
    subtitles: str | None = None
    """The archive with the subtitles."""
    sha256: Mapping[str, str] = Field(default_factory=dict)
    """Published checksums, which are verified even if the hub is a mirror."""
    has_videos: bool = True
    """False if the repository has only the annotations, so that videos come from a folder."""

    def archives_with(self, video_id: str) -> tuple[str, ...]:
        """Archives that may contain a video: one if its number determines it, otherwise all."""
        if self.videos_per_archive is None or not video_id.isdecimal():
            return self.archives
        index = (int(video_id) - 1) // self.videos_per_archive
        return self.archives[index : index + 1] if index >= 0 else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The files on the hub of one benchmark, at a commit, and the folders to unzip them into."""

    benchmark: str
    hub: HubSpec
    revision: str | None
    video_folder: str
    subtitle_folder: str
    keeps_folders: bool = False
    """True if videos of the same name are in several folders of the archives."""

    def stored_in(self, folder: Path) -> Path:
        """The folder of this commit's files in a media folder. Raises ConfigurationError."""
        if self.revision is None:
            raise ConfigurationError(
                f"{self.benchmark}: no commit of {self.hub.repository} is pinned; set `revision` "
                "in benchmarks.yaml to one of its commits (40 hexadecimal digits, on its page of "
                "commits)"
            )
        return folder / ".hub" / self.revision
