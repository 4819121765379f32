"""The sound of a video as a model gets it: one channel, 16,000 samples per second, WAV.

The sound is stored once per content of a video, and first decoded in a child process.
"""

import io
import wave
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from videomme_pipeline.errors import VideoError, VideoUnreadableError
from videomme_pipeline.processes.children import Child, ChildFailedError
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import writing
from videomme_pipeline.storage.tables import logging_damage, read_rows, write_rows
from videomme_pipeline.videos.container import VIDEO_LIMITS

SOUND_VERSION = 1
"""Increase this when a change of the code decodes other samples."""
SAMPLES_PER_SECOND = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """The stored sound of a video: `wave_file` has the bytes of a WAV file."""

    wave_file: bytes


def sound_of(store: Store, video_hash: str, path: Path, video_id: str) -> bytes:
    """The sound of the video with the content `video_hash`, from the store or from its file.

    Raises VideoError if the file has no sound, or it does not decode, and StorageError.
    """
    stored = store.sound(video_hash, SOUND_VERSION)
    with suppress(FileNotFoundError), logging_damage(stored):
        (row,) = read_rows(stored, Sound)
        return row.wave_file
    try:
        with closing(Child()) as child:
            sound = child.run(decode_sound, (path, video_id), VIDEO_LIMITS)
    except ChildFailedError as error:
        raise VideoError.from_child(video_id, path, error) from error
    with writing(stored):
        write_rows(stored, [Sound(wave_file=sound)], Sound, fingerprint=video_hash)
    return sound


def decode_sound(task: tuple[Path, str]) -> bytes:
    """The first sound track of a video. `task` is (path, video id). Raises VideoUnreadableError."""
    import av  # noqa: PLC0415

    (path, video_id), file = task, io.BytesIO()
    try:
        with av.open(str(path)) as container, wave.open(file, "wb") as sound:
            sound.setparams((1, 2, SAMPLES_PER_SECOND, 0, "NONE", ""))
            if not container.streams.audio:
                raise VideoUnreadableError(video_id, f"{path}: the file has no sound")
            resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLES_PER_SECOND)
            for frame in chain(container.decode(audio=0), (None,)):
                for part in resampler.resample(frame):
                    sound.writeframesraw(part.to_ndarray().tobytes())
    except av.FFmpegError as error:
        problem = f"its sound does not decode ({error.strerror}); get the file again"
        raise VideoUnreadableError(video_id, f"{path}: {problem}") from error
    return file.getvalue()
