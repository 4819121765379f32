"""Video files on disk: their status, and the error for one that cannot be read."""

import errno
import os
import stat
from pathlib import Path

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.errors import VideoUnreadableError


def stat_file(path: Path) -> os.stat_result:
    """The status of a regular file.

    Raises:
        OSError: if there is none, or if it is a folder, a pipe or a device. Reading these may
            never end.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return status


def unreadable(video_id: str, path: VideoFile, error: OSError) -> VideoUnreadableError:
    """The error for a file that the operating system cannot read."""
    missing = isinstance(error, FileNotFoundError)
    found = "no such file" if missing else f"the file cannot be read ({error.strerror})"
    return VideoUnreadableError(video_id, f"{path}: {found}; get it again")
