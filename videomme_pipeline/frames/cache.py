"""The frames of one video under one sampling, and the files that keep them.

One Parquet file per video content × recipe. The recipe is everything that changes a pixel, so a
video that was moved or renamed still hits, and a changed setting never does. What is decoded,
and how, belongs to `frames.decode`.
"""

import base64
import io
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from numpy.typing import NDArray
from upath import UPath

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import FrameCacheError
from videomme_pipeline.fingerprint import FINGERPRINT_BYTES, fingerprint
from videomme_pipeline.frames.sampling import Choice, Limit, Sampling
from videomme_pipeline.rows import arrow_schema, to_table
from videomme_pipeline.store import Store, is_local, publish, put_in_place, writing

if TYPE_CHECKING:
    from PIL.Image import Image

PLANNER_VERSION = 2
"""Raised when other frames would be chosen or decoded than before."""
PICTURE_VERSION = 1
"""Raised when the same frame would give other bytes than before."""

ROW_GROUP_FRAMES = 64
"""Frames that are held in memory before they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture: when it was wanted, when it is really shown, and its encoded bytes.

    Times are in seconds from the first shown frame. `index` counts shown frames from 0.
    """

    requested_seconds: float
    pts_seconds: float
    index: int
    is_keyframe: bool
    width: int
    height: int
    picture: bytes

    def array(self) -> NDArray[np.uint8]:
        """The picture as RGB, (height, width, 3)."""
        from PIL import Image  # noqa: PLC0415

        with Image.open(io.BytesIO(self.picture)) as image:
            return np.asarray(image.convert("RGB"))

    @property
    def shown(self) -> "ShownFrame":
        """What can be known of it without its picture."""
        digest = blake3(self.picture).hexdigest(length=FINGERPRINT_BYTES)
        return ShownFrame(digest, self.pts_seconds, self.index)


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """What a model is shown in one frame: the digest of its picture, and when it is shown.

    `digest` is the BLAKE3 of the encoded bytes, 24 hexadecimal digits. The rest is as in `Frame`.
    """

    digest: str
    pts_seconds: float
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSet:
    """All frames of one video under one sampling, in time order.

    `asked` is how many frames the sampling wanted, `limit` why there are more or fewer;
    `missing_seconds` are the times of wanted frames that do not decode and `damage` says what
    was found, both empty for a sound video. `decoded_by` is the backend that read the pictures
    (it differs from the one asked for where that one is not exact).
    """

    video_hash: str
    fingerprint: str
    media_type: str
    frames: tuple[Frame, ...]
    sampling: str = ""
    asked: int = 0
    limit: Limit | None = None
    missing_seconds: tuple[float, ...] = ()
    damage: str | None = None
    decoded_by: str = "pyav"

    @property
    def seconds(self) -> tuple[float, ...]:
        """When each frame is really shown."""
        return tuple(frame.pts_seconds for frame in self.frames)

    @property
    def bytes(self) -> int:
        """The size of all pictures together."""
        return sum(len(frame.picture) for frame in self.frames)

    def arrays(self) -> NDArray[np.uint8]:
        """All pictures as RGB, (frames, height, width, 3)."""
        return np.stack([frame.array() for frame in self.frames])

    def data_urls(self) -> list[str]:
        """Each picture as a `data:` URL, the form that chat endpoints take."""
        head = f"data:{self.media_type};base64,"
        return [head + base64.b64encode(frame.picture).decode("ascii") for frame in self.frames]

    def contact_sheet(self, columns: int = 8, width: int = 240) -> "Image":
        """All pictures in one, `columns` in a row and each `width` wide, with their times."""
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415

        if not self.frames:
            raise FrameCacheError(f"video {self.video_hash}: no frame to show")
        columns = min(columns, len(self.frames))
        height = max(round(width * frame.height / frame.width) for frame in self.frames)
        caption = 16
        rows = math.ceil(len(self.frames) / columns)
        sheet = Image.new("RGB", (columns * width, rows * (height + caption)), "white")
        draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(11)
        for place, frame in enumerate(self.frames):
            x, y = place % columns * width, place // columns * (height + caption)
            with Image.open(io.BytesIO(frame.picture)) as image:
                image.draft("RGB", (width, height))
                small = image.convert("RGB").resize(
                    (width, round(width * frame.height / frame.width)), reducing_gap=2.0
                )
            sheet.paste(small, (x, y))
            key = " · key" if frame.is_keyframe else ""
            text = f"{frame.pts_seconds:.3f} s · {frame.index}{key}"
            draw.text((x + 3, y + height + 1), text, fill="black", font=font)
        return sheet


NO_FRAMES = FrameSet(video_hash="", fingerprint="", media_type="image/jpeg", frames=())
"""What is sent of a video to a model that is asked without frames."""


def recipe_of(sampling: Sampling, duration: Duration | None = None) -> dict[str, Any]:
    """Everything that decides the pixels and times of a frame set, beside the video's bytes."""
    return {
        "sampling": sampling.for_duration(duration).model_dump(mode="json"),
        "planner_version": PLANNER_VERSION,
        "picture_version": PICTURE_VERSION,
    }


def frame_recipe_fingerprint(sampling: Sampling, duration: Duration | None = None) -> str:
    """The name of a recipe in the cache; `duration` picks the sampling's budget."""
    return fingerprint(recipe_of(sampling, duration))


class FrameWriter:
    """Writes one frame set as it is decoded, holding few frames in memory; published at the end.

    `with FrameWriter(...) as writer`: `add` each frame in time order, then `publish` once.
    Without `publish`, or after an exception, nothing remains. `sampling` is without budgets
    (`for_duration`).
    """

    def __init__(self, store: Store, video_hash: str, sampling: Sampling) -> None:
        self._recipe = recipe_of(sampling)
        self._sampling = sampling
        self.fingerprint = frame_recipe_fingerprint(sampling)
        self.video_hash = video_hash
        self.target = store.frames(video_hash, self.fingerprint)
        self.frame_count = 0
        self.picture_bytes = 0
        self._checksum = blake3()
        self._shown: list[ShownFrame] = []
        self._held: list[Frame] = []
        self._path = _scratch_file(self.target)
        self._writer = pq.ParquetWriter(
            self._path,
            arrow_schema(Frame),
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,  # else Arrow's own copy hides what is added at the end
        )

    def __enter__(self) -> "FrameWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._path.unlink(missing_ok=True)

    def add(self, frame: Frame) -> None:
        self._held.append(frame)
        _update(self._checksum, frame)
        self._shown.append(frame.shown)
        self.frame_count += 1
        self.picture_bytes += len(frame.picture)
        if len(self._held) >= ROW_GROUP_FRAMES:
            self._flush()

    def publish(
        self,
        choice: Choice,
        *,
        missing_seconds: Sequence[float] = (),
        damage: str | None = None,
        decoded_by: str = "pyav",
    ) -> None:
        """Make the frames visible under their name, with the facts of the choice."""
        self._flush()
        facts = {
            "video_hash": self.video_hash,
            "fingerprint": self.fingerprint,
            "recipe": json.dumps(self._recipe, sort_keys=True),
            "sampling": self._sampling.name,
            "media_type": self._sampling.picture.media_type,
            "asked": str(choice.asked),
            "limit": choice.limit.value if choice.limit else "",
            "missing_seconds": json.dumps(list(missing_seconds)),
            "damage": damage or "",
            "decoded_by": decoded_by,
            "frame_count": str(self.frame_count),
            "shown": json.dumps([[s.digest, s.pts_seconds, s.index] for s in self._shown]),
        }
        facts["checksum"] = _checksum(self._checksum, facts)
        self._writer.add_key_value_metadata(facts)
        self._writer.close()
        _publish_file(self.target, self._path)

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(to_table(self._held, Frame))
            self._held = []


def write_frames(
    store: Store,
    video_hash: str,
    sampling: Sampling,
    choice: Choice,
    frames: Sequence[Frame],
) -> FrameSet:
    """Store frames that are all at hand, and give them back as they are read.

    `sampling` is without budgets (`for_duration`).

    Raises:
        StorageError: when the data folder cannot be written.
    """
    with FrameWriter(store, video_hash, sampling) as writer:
        for frame in frames:
            writer.add(frame)
        writer.publish(choice)
    return read_frames(store, video_hash, writer.fingerprint)


def read_frames(store: Store, video_hash: str, recipe_fingerprint: str) -> FrameSet:
    """The frames that are stored for a video and a recipe.

    Raises:
        FileNotFoundError: when none are stored.
        FrameCacheError: when the file is not what was written; it is then set aside
            (`….corrupt` beside it), so that the next run makes it again.
    """
    with _noticing_damage(store.frames(video_hash, recipe_fingerprint)) as path:
        with _open(path) as source:
            table = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
        facts = _facts(table.schema.metadata)
        frames = _frames_of(table)
        checksum = blake3()
        for frame in frames:
            _update(checksum, frame)
        if _checksum(checksum, facts) != facts["checksum"]:
            raise FrameCacheError("the checksum does not match")
        if (facts["video_hash"], facts["fingerprint"]) != (video_hash, recipe_fingerprint):
            raise FrameCacheError("it belongs to another video or recipe")
    return FrameSet(
        video_hash=video_hash,
        fingerprint=recipe_fingerprint,
        media_type=facts["media_type"],
        frames=frames,
        sampling=facts["sampling"],
        asked=int(facts["asked"]),
        limit=Limit(facts["limit"]) if facts["limit"] else None,
        missing_seconds=tuple(json.loads(facts["missing_seconds"])),
        damage=facts["damage"] or None,
        decoded_by=facts["decoded_by"],
    )


def read_shown(store: Store, video_hash: str, recipe_fingerprint: str) -> tuple[ShownFrame, ...]:
    """What is shown in the stored frames, in their order, without reading a picture.

    Raises as `read_frames` does, but only for damage that reaches the footer of the file.
    """
    with _noticing_damage(store.frames(video_hash, recipe_fingerprint)) as path:
        with path.open("rb") as file:
            facts = _facts(pq.read_metadata(file).metadata)
        if "shown" in facts:
            return tuple(ShownFrame(*held) for held in json.loads(facts["shown"]))
    # Written before its footer told.
    frames = read_frames(store, video_hash, recipe_fingerprint)
    return tuple(frame.shown for frame in frames.frames)


def has_frames(store: Store, video_hash: str, recipe_fingerprint: str) -> bool:
    """Whether frames are stored. Their checksum is looked at when they are read."""
    return bool(store.frames(video_hash, recipe_fingerprint).exists())


def stored_sampling(path: UPath) -> str | None:
    """The name of the sampling that a stored frame set was made with; None when unreadable."""
    try:
        with _open(path) as source:
            facts = pq.read_metadata(source).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    name = facts.get(b"sampling")
    return name.decode() if name else None


@contextmanager
def _noticing_damage(path: UPath) -> Iterator[UPath]:
    """Sets a file aside that cannot be read as what was written, and says so."""
    if not path.exists():
        raise FileNotFoundError(str(path))
    try:
        yield path
    except (
        pa.ArrowException,
        KeyError,
        OSError,
        TypeError,
        ValueError,
        FrameCacheError,
    ) as error:
        aside = _set_aside(path)
        raise FrameCacheError(
            f"{path}: not the frames that were written ({error}); set aside as {aside.name}, "
            "run the frames of this video again"
        ) from error


def _facts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def _frames_of(table: pa.Table) -> tuple[Frame, ...]:
    names = arrow_schema(Frame).names
    columns = [table.column(name).to_pylist() for name in names]
    return tuple(
        Frame(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
    )


def _update(checksum: blake3, frame: Frame) -> None:
    facts = (
        frame.requested_seconds,
        frame.pts_seconds,
        frame.index,
        frame.is_keyframe,
        frame.width,
        frame.height,
    )
    checksum.update(repr(facts).encode())
    checksum.update(frame.picture)


def _checksum(frames: blake3, facts: Mapping[str, str]) -> str:
    said = {key: value for key, value in sorted(facts.items()) if key in _CHECKED_FACTS}
    return blake3(repr(said).encode() + frames.digest()).hexdigest()


_CHECKED_FACTS = {
    "video_hash",
    "fingerprint",
    "recipe",
    "sampling",
    "media_type",
    "asked",
    "limit",
    "missing_seconds",
    "damage",
    "decoded_by",
    "frame_count",
    "shown",
}


def _open(path: UPath) -> pa.NativeFile:
    """A local file is mapped, which saves a copy of all pictures."""
    if is_local(path):
        return pa.memory_map(path.path)
    return pa.BufferReader(path.read_bytes())


def _set_aside(path: UPath) -> UPath:
    aside = path.with_name(f"{path.name}.corrupt")
    path.rename(aside)
    return UPath(aside)


def _scratch_file(target: UPath) -> Path:
    """An empty file to write to: beside the target when it is local, else in the temp folder."""
    folder = None
    if is_local(target):
        folder = Path(target.path).parent
        folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{target.name}.")
    os.close(descriptor)
    return Path(name)


def _publish_file(target: UPath, path: Path) -> None:
    """Give a finished file its name, or put it where `target` lives."""
    if not is_local(target):
        publish(target, path.read_bytes())
        return
    with writing(target):
        put_in_place(path, Path(target.path))
