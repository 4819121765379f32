"""The sound of a video, as models get it."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest
from upath import UPath

from tests.support.builders import write_audio_only, write_video
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.sound import SAMPLES_PER_SECOND, decode_sound, sound_of


def test_the_sound_is_one_channel_with_16_000_samples_per_second(tmp_path: Path) -> None:
    path = write_audio_only(tmp_path / "a.mp4", seconds=2)
    with wave.open(io.BytesIO(decode_sound((path, "001")))) as sound:
        parameters = sound.getparams()
        samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)
    assert (parameters.nchannels, parameters.sampwidth, parameters.framerate) == (1, 2, 16_000)
    assert len(samples) / 16_000 == pytest.approx(2, abs=0.1)


def test_the_sound_is_decoded_once_for_a_content(tmp_path: Path) -> None:
    store = Store(UPath(tmp_path / "data"))
    path = write_video(tmp_path / "a.mp4", frames=10, audio=True)
    sound = sound_of(store, "content", path, "001")
    moved = path.rename(tmp_path / "b.mp4")
    assert sound_of(store, "content", path, "001") == sound
    (stored,) = store.files("sound")
    stored.write_bytes(stored.read_bytes().replace(b"data", b"dada", 1))
    assert sound_of(store, "content", moved, "001") == sound, "a damaged file is built again"
    assert len(sound) == pytest.approx(2 * SAMPLES_PER_SECOND, rel=0.2)


def test_a_video_without_sound_or_with_damaged_sound_is_an_error(tmp_path: Path) -> None:
    silent = write_video(tmp_path / "silent.mp4", frames=2)
    with pytest.raises(VideoUnreadableError, match="no sound"):
        decode_sound((silent, "001"))
    (tmp_path / "text.mp4").write_text("not a video")
    with pytest.raises(VideoUnreadableError, match="does not decode"):
        decode_sound((tmp_path / "text.mp4", "001"))
