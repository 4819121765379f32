"""A release: what a benchmark's publishers put on the Hugging Face Hub, and where in it.

Only facts about published files belong here. How they are fetched is `download`'s business,
what stands in them the reader's (`videomme`, `videomme_v2`).
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One pinned revision of a dataset repository on the hub.

    Paths are relative to the repository. `sha256` holds the published checksums of the files
    that decide scores, so that they are verified even where the hub is a mirror.
    """

    benchmark: str
    repository: str
    revision: str
    annotations: str
    subtitles: str
    archives: tuple[str, ...]
    sha256: Mapping[str, str]
    videos: int
    questions_per_video: int
    videos_per_archive: int | None
    """Consecutive videos in each archive; None when only an archive's directory tells."""
    video_folder: str
    """The folder that the archives unzip into."""
    subtitle_folder: str
    subtitle_suffix: str

    def archives_with(self, video_id: str) -> tuple[str, ...]:
        """The archives that may hold a video, as far as its number tells."""
        if self.videos_per_archive is None or not video_id.isdecimal():
            return self.archives
        place = (int(video_id) - 1) // self.videos_per_archive
        return self.archives[place : place + 1] if place >= 0 else ()
