"""Video files: their status, local copies, and the error for one that cannot be read."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from videomme_pipeline.benchmarks.locate import VideoFile, VideoSource
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.storage.copies import on_local_disk
from videomme_pipeline.storage.objects import RemoteFile


def stat_file(path: Path) -> os.stat_result:
    """The status of a regular file. Raises OSError for any other, whose reading may never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return status


def size_of(path: VideoSource) -> int:
    """The bytes of a video file, or 0 if there is none, and for a folder of pictures."""
    if isinstance(path, RemoteFile):
        return path.state.bytes
    return path.stat().st_size if isinstance(path, Path) and path.exists() else 0


@contextmanager
def local_video(source: VideoSource, video_id: str) -> Iterator[VideoFile]:
    """Yield the local file of a video, or a copy of a remote one. Raises VideoUnreadableError."""
    with ExitStack() as stack:
        if isinstance(source, RemoteFile):
            try:
                source = stack.enter_context(on_local_disk(source))
            except OSError as error:
                raise unreadable(video_id, source, error) from error
        yield source


def unreadable(video_id: str, path: VideoSource, error: OSError) -> VideoUnreadableError:
    """The error for a file that the operating system cannot read."""
    missing = isinstance(error, FileNotFoundError)
    problem = "no such file" if missing else f"the file cannot be read ({error.strerror})"
    return VideoUnreadableError(video_id, f"{path}: {problem}; get it again")
