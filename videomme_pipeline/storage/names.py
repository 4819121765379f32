"""Names of built files, which contain the fingerprint of everything that a file was built from.

The name of a file in the folder of its stage is `[VARIANT/][VIDEO.]FINGERPRINT.parquet`. A file
that lacks answers is a part: `….FINGERPRINT.part-ID.parquet`. Its id begins with the number of its
answers and ends with a digest of its rows. A file is written once and never replaced.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from blake3 import blake3
from upath import UPath

NO_BENCHMARKS = (
    *("checkpoints", "decode_times", "failures", "frames", "local", "packets", "races", "servers"),
    "sound",
)
"""The folders in a data folder that do not belong to one benchmark."""
SUFFIX = ".parquet"
_COUNT_DIGITS = 6
_DIGEST_BYTES = 5
_PART_DIGITS = _COUNT_DIGITS + 2 * _DIGEST_BYTES
"""Hexadecimal digits of the id of a part. With more, the longest names of videos would not leave
enough bytes for the suffix of a damaged file."""
_PART = ".part-"
RECORD_TIME = "%Y%m%dT%H%M%S%fZ"
"""The format of times in the names of records, which sort by time."""
_NAME = re.compile(
    r"(?:(?P<variant>[^/]+)/)?(?:(?P<video>[^/]+)\.)?(?P<fingerprint>[0-9a-f]{24})"
    rf"(?:\.part-(?P<part>[0-9a-f]{{{_PART_DIGITS}}}))?\.parquet"
)


class StoredName(NamedTuple):
    """The parts of a name. `part` is the id of an incomplete file, or None."""

    variant: str | None
    video: str | None
    fingerprint: str
    part: str | None = None

    @classmethod
    def parse(cls, name: str) -> "StoredName | None":
        """The parts of a name in the folder of a stage, or None for another name."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(**match.groupdict())

    def __str__(self) -> str:
        folder = f"{self.variant}/" if self.variant else ""
        video = f"{self.video}." if self.video else ""
        part = f"{_PART}{self.part}" if self.part else ""
        return f"{folder}{video}{self.fingerprint}{part}{SUFFIX}"


class StageNames:
    """The names of the files of one stage of one benchmark, from one listing."""

    def __init__(self, names: Iterable[str]) -> None:
        self.texts = frozenset(names)
        """The names in the folder of the stage."""

    @cached_property
    def by_partition(self) -> Mapping[tuple[str | None, str | None], list[StoredName]]:
        """The names of each partition, by variant and video, sorted."""
        names: dict[tuple[str | None, str | None], list[StoredName]] = defaultdict(list)
        for text in sorted(self.texts):
            name = StoredName.parse(text)
            if name is not None:
                names[name.variant, name.video].append(name)
        return names

    def fingerprints(self, variant: str | None, video: str | None) -> list[str]:
        """The fingerprints of a partition's complete files."""
        names = self.by_partition.get((variant, video), ())
        return [name.fingerprint for name in names if name.part is None]

    def best(self, variant: str | None, video: str | None, fingerprint: str) -> StoredName | None:
        """The complete file with this fingerprint, else the part with most answers, else None."""
        names = self.by_partition.get((variant, video), ())
        own = [name for name in names if name.fingerprint == fingerprint]
        return max(own, key=lambda name: (name.part is None, name.part), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The fingerprints that the files of a benchmark would have if they were built now.

    `scores` has them by evaluation, `videos` by video. What is not known yet is left out.
    `evaluations` are the names of all evaluation files, even of those with mistakes.
    """

    evaluations: frozenset[str]
    questions: str | None = None
    videos: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)


def record_name(name: str, part: str = "") -> str:
    """The name of the file of a record, such as a nightly run, or of a part of it."""
    return f"{name}{_PART}{part}{SUFFIX}" if part else f"{name}{SUFFIX}"


def record_of(path: UPath) -> str:
    """The name of the record in a file, without that of the part."""
    return str(path.name).removesuffix(SUFFIX).partition(_PART)[0]


def timed_record(name: str, now: datetime) -> str:
    """The name of the file of a record that changes: each change writes a new file."""
    return f"{name}.{now.astimezone(UTC):{RECORD_TIME}}{SUFFIX}"


def timed_record_of(path: UPath) -> str:
    """The name of the record in a file, without its time."""
    return str(path.name).rsplit(".", 2)[0]


def is_part(path: UPath) -> bool:
    """True if a file lacks answers."""
    return _PART in str(path.name)


def part_id(answers: int, rows: Iterable[object]) -> str:
    """The id of a part with this number of answers."""
    digest = blake3("\n".join(map(repr, rows)).encode(errors="surrogatepass"))
    return f"{answers:0{_COUNT_DIGITS}x}{digest.hexdigest(length=_DIGEST_BYTES)}"
