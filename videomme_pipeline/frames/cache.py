"""The frames of one video under one sampling, and the files that store them.

There is one Parquet file per video content and settings, which contain everything that changes a
pixel. So the frames of a moved video are used again, and different settings are never mixed up.
"""

import io
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow.parquet as pq
from blake3 import blake3
from upath import UPath

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import (
    ConfigurationError,
    DamagedFileError,
    StorageError,
    VideoUnreadableError,
)
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.fingerprint import FINGERPRINT_BYTES, fingerprint
from videomme_pipeline.frames.backends import PYAV
from videomme_pipeline.frames.sampling import Choice, Limit, Sampling
from videomme_pipeline.rows import arrow_schema, from_table, from_values, to_table, to_values
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import is_local, put_file
from videomme_pipeline.storage.publish import put_in_place, scratch_folder, writing
from videomme_pipeline.storage.tables import setting_aside

if TYPE_CHECKING:
    from PIL.Image import Image

PLANNER_VERSION = 2
"""Increase this when a change of the code chooses or decodes other frames."""
PICTURE_VERSION = 1
"""Increase this when a change of the code encodes a frame to other bytes."""

ROW_GROUP_FRAMES = 64
"""The number of frames that are written together. Until then they are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One encoded picture. Times count from the first shown frame of the video or clip."""

    requested_seconds: float
    """Time that the sampling chose."""
    pts_seconds: float
    """Time at which the frame is shown."""
    index: int
    """Number of the frame among the shown frames, from 0."""
    is_keyframe: bool
    """True if the frame is decoded without other frames."""
    width: int
    """Width of the encoded image in pixels."""
    height: int
    """Height of the encoded image in pixels."""
    picture: bytes
    """Encoded image."""

    @property
    def shown(self) -> "ShownFrame":
        digest = blake3(self.picture).hexdigest(length=FINGERPRINT_BYTES)
        return ShownFrame(digest, self.pts_seconds, self.index)


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """A frame with the BLAKE3 of its encoded picture (24 hexadecimal digits) instead of it."""

    digest: str
    pts_seconds: float
    index: int


AnyFrame = TypeVar("AnyFrame", Frame, ShownFrame)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFacts:
    """The facts about a frame set that are stored with its frames.

    `asked` and `limit` are as in `Choice`. `missing_seconds` are the times of chosen frames that do
    not decode, and `damage` describes the damage; both are empty for an undamaged video.
    `decoded_by` is the backend that was used: PyAV if the sampling's would return wrong frames.
    """

    video_hash: str
    fingerprint: str
    media_type: str
    sampling: str = ""
    asked: int = 0
    limit: Limit | None = None
    missing_seconds: tuple[float, ...] = ()
    damage: str | None = None
    decoded_by: str = PYAV


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFrames(FrameFacts):
    """A cached frame set without its pictures: `count` frames in a file of `bytes` bytes.

    `reused` is True if it was in the cache before. `wrong_backend` is the reason why the sampling's
    backend was not used, or None.
    """

    count: int
    bytes: int
    wrong_backend: str | None = None
    reused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTime:
    """One row per frame set that a run decoded."""

    video_hash: str
    """Content hash of the video."""
    frames_fingerprint: str
    """Hash of the settings of the frames."""
    decode_cpu_seconds: float
    """CPU time of reading, decoding, encoding and writing, split evenly between the frame sets
    that were decoded in one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLength:
    frames: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeVideo:
    """A video that a model takes the frames from, by `sampling`. `size` is (width, height)."""

    path: Path
    size: tuple[int, int]
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSet(FrameFacts):
    """All frames of one video under one sampling, in order of time.

    The rest is not stored: the `video` for a model that takes the frames itself, its `sound` (WAV)
    for a model that hears it, and its `length` for a model that gets frames as a video.
    """

    frames: tuple[Frame, ...]
    video: WholeVideo | None = None
    sound: bytes | None = None
    length: VideoLength | None = None

    @property
    def seconds(self) -> tuple[float, ...]:
        """The time at which each frame is actually shown."""
        return tuple(frame.pts_seconds for frame in self.frames)

    @property
    def bytes(self) -> int:
        """The total size of the pictures."""
        return sum(len(frame.picture) for frame in self.frames)

    def contact_sheet(self, columns: int = 8, width: int = 240) -> "Image":
        """One image of all pictures and times: `columns` per row, each `width` pixels wide."""
        from PIL import Image, ImageDraw, ImageFont, ImageOps  # noqa: PLC0415

        if not self.frames:
            raise VideoUnreadableError(self.video_hash, "it has no frames to show")
        columns = min(columns, len(self.frames))
        height = max(round(width * frame.height / frame.width) for frame in self.frames)
        caption = 16
        rows = math.ceil(len(self.frames) / columns)
        sheet = Image.new("RGB", (columns * width, rows * (height + caption)), "white")
        draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(11)
        for number, frame in enumerate(self.frames):
            x, y = number % columns * width, number // columns * (height + caption)
            with Image.open(io.BytesIO(frame.picture)) as image:
                image.draft("RGB", (width, height))
                sheet.paste(ImageOps.contain(image.convert("RGB"), (width, height)), (x, y))
            key = " · key" if frame.is_keyframe else ""
            text = f"{frame.pts_seconds:.3f} s · {frame.index}{key}"
            draw.text((x + 3, y + height + 1), text, fill="black", font=font)
        return sheet


NO_FRAMES = FrameSet(video_hash="", fingerprint="", media_type="image/jpeg", frames=())
"""The frame set of a model that is asked without frames."""
NO_STORED_FRAMES = StoredFrames(
    video_hash="", fingerprint="", media_type="image/jpeg", count=0, bytes=0
)
"""The same frame set as `StoredFrames`."""


def frame_settings(
    sampling: Sampling, duration: Duration | None = None, clip: Clip | None = None
) -> dict[str, Any]:
    """Everything that determines the frames and their pixels, except the bytes of the video."""
    settings = {
        "sampling": sampling.for_duration(duration).model_dump(mode="json"),
        "planner_version": PLANNER_VERSION,
        "picture_version": PICTURE_VERSION,
    }
    if sampling.rule_version > 1:
        settings["rule_version"] = sampling.rule_version
    return settings if clip is None else settings | {"clip": asdict(clip)}


def frames_fingerprint(
    sampling: Sampling, duration: Duration | None = None, clip: Clip | None = None
) -> str:
    """Hash of `frame_settings`. `duration` selects the sampling's frame count."""
    return fingerprint(frame_settings(sampling, duration, clip))


class FrameWriter:
    """Write one frame set as it is decoded, with few frames in memory.

    `with FrameWriter(...) as writer`: `add` each frame in order of time, then `publish` once.
    Otherwise no file remains. `sampling` must have no `frames_by_duration`.
    """

    def __init__(
        self, store: Store, video_hash: str, sampling: Sampling, clip: Clip | None = None
    ) -> None:
        self._settings = frame_settings(sampling, clip=clip)
        self._sampling = sampling
        self.fingerprint = fingerprint(self._settings)
        self.video_hash = video_hash
        self.target = store.frames(video_hash, self.fingerprint)
        self.shown: list[ShownFrame] = []
        self._sizes: dict[int, int] = {}
        self._pending: list[Frame] = []
        self._scratch = ExitStack()
        folder = scratch_folder(Path(self.target.path) if is_local(self.target) else None)
        self._path = self._scratch.enter_context(folder) / "frames"
        self._writer = pq.ParquetWriter(
            self._path,
            arrow_schema(Frame),
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,  # else Arrow's copy would hide the metadata added at the end
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._scratch.close()

    def add(self, frame: Frame) -> None:
        self._pending.append(frame)
        self.shown.append(frame.shown)
        self._sizes[frame.index] = len(frame.picture)
        if len(self._pending) >= ROW_GROUP_FRAMES:
            self._flush()

    def publish(
        self,
        choice: Choice,
        *,
        missing_seconds: Sequence[float] = (),
        damage: str | None = None,
        decoded_by: str = PYAV,
    ) -> StoredFrames:
        """Move the file to its final path, with the facts of the choice in its footer."""
        self._flush()
        facts = FrameFacts(
            video_hash=self.video_hash,
            fingerprint=self.fingerprint,
            media_type=self._sampling.picture.media_type,
            sampling=self._sampling.name,
            asked=choice.asked,
            limit=choice.limit,
            missing_seconds=tuple(missing_seconds),
            damage=damage,
            decoded_by=decoded_by,
        )
        metadata = {
            "fingerprint": self.fingerprint,
            "settings": json.dumps(self._settings, sort_keys=True),
            "facts": json.dumps(to_values(facts) | {"count": len(self.shown)}),
            "shown": json.dumps([astuple(frame) for frame in self.shown]),
            "questions": json.dumps(choice.by_question),
            "sizes": json.dumps(self._sizes if choice.by_question else {}),
        }
        self._writer.add_key_value_metadata(metadata)
        self._writer.close()
        with writing(self.target):
            parquet.add_checksums(self._path)
            size = self._path.stat().st_size
            if is_local(self.target):
                put_in_place(self._path, Path(self.target.path))
            else:
                put_file(self.target, self._path)
        return StoredFrames(**asdict(facts), count=len(self.shown), bytes=size)

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(to_table(self._pending, Frame))
            self._pending = []


def read_frames(
    store: Store, video_hash: str, settings_fingerprint: str, question_id: str | None = None
) -> FrameSet:
    """The stored frames of a video under the settings with that fingerprint.

    With `question_id`, they are the frames of that question in the order in which they are sent.
    Raises FileNotFoundError if none are stored, ConfigurationError if no frames are named for the
    question, and DamagedFileError for a damaged file, which is set aside and rebuilt next time.
    """
    path = store.frames(video_hash, settings_fingerprint)
    with setting_aside(path):
        table = parquet.read_copied_table(path)
        metadata = parquet.metadata_of(table)
        facts = from_values(json.loads(metadata["facts"]), FrameFacts)
        if (facts.video_hash, facts.fingerprint) != (video_hash, settings_fingerprint):
            raise ValueError("it belongs to another video or other settings")
        frames = _of_question(from_table(table, Frame), metadata, question_id)
        frame_set = FrameSet(**asdict(facts), frames=frames)
        if question_id is None:
            return frame_set
        # Shared folders and caches of endpoints know the frames of a request by the fingerprint.
        numbers = [frame.index for frame in frames]
        return replace(frame_set, fingerprint=fingerprint(settings_fingerprint, numbers))


def read_stored(
    store: Store, video_hash: str, settings_fingerprint: str, question_id: str | None = None
) -> StoredFrames:
    """The frame set of `read_frames` without pictures. Only the footer of the file is verified."""
    path = store.frames(video_hash, settings_fingerprint)
    with setting_aside(path):
        metadata = parquet.read_metadata(path)
        facts = json.loads(metadata["facts"]) | {"bytes": path.stat().st_size}
        if question_id is not None:
            numbers, sizes = _numbers(metadata, question_id), json.loads(metadata["sizes"])
            facts |= {"count": len(numbers), "missing_seconds": ()}
            facts["bytes"] = sum(sizes.get(str(number), 0) for number in numbers)
        return from_values(facts, StoredFrames)


def read_shown(
    store: Store, video_hash: str, settings_fingerprint: str, question_id: str | None = None
) -> tuple[ShownFrame, ...]:
    """The frames of `read_frames` without pictures. Only the footer of the file is verified."""
    path = store.frames(video_hash, settings_fingerprint)
    with setting_aside(path):
        metadata = parquet.read_metadata(path)
        shown = [ShownFrame(*values) for values in json.loads(metadata["shown"])]
        return _of_question(shown, metadata, question_id)


def _of_question(
    frames: Sequence[AnyFrame], metadata: Mapping[str, str], question_id: str | None
) -> tuple[AnyFrame, ...]:
    if question_id is None:
        return tuple(frames)
    by_number = {frame.index: frame for frame in frames}
    numbers = _numbers(metadata, question_id)
    return tuple(by_number[number] for number in numbers if number in by_number)


def _numbers(metadata: Mapping[str, str], question_id: str) -> Sequence[int]:
    numbers: Sequence[int] | str = json.loads(metadata["questions"])[question_id]
    if isinstance(numbers, str):
        raise ConfigurationError(f"question {question_id}: {numbers}")
    return numbers


def stored_sampling(path: UPath) -> str | None:
    """The name of the sampling of a stored frame set, or None if the file is unreadable."""
    try:
        return str(json.loads(parquet.read_metadata(path)["facts"])["sampling"])
    except (FileNotFoundError, DamagedFileError, StorageError, KeyError):
        return None
