"""Made-up benchmarks in the published file layouts, with the traps of the real ones.

They contain nothing of Video-MME: ids, questions and videos are invented. The counts are those of
the real benchmarks, since the code that reads annotations checks them.
"""

import io
import random
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.builders import write_video
from tests.support.hub_server import HubServer
from videomme_pipeline.benchmarks.declaration import PUBLISHED, Declaration
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.questions import read_questions
from videomme_pipeline.fetch.release import Release

REVISION = "0123456789abcdef0123456789abcdef01234567"
"""A commit that the release does not pin, so that the published checksums do not apply."""


def declared(name: str) -> Declaration:
    """The declaration of a published benchmark."""
    return Declaration.read(PUBLISHED / f"{name}.yaml")


def release(name: str, revision: str | None = None) -> Release:
    """The files on the hub of a published benchmark, at the pinned commit or at `revision`."""
    declared_release = declared(name).release(name, revision)
    assert declared_release is not None
    return declared_release


def values(column: str) -> tuple[str, ...]:
    """The declared values of a facet of Video-MME."""
    (facet,) = [
        candidate
        for candidate in declared("videomme").declared_facets
        if candidate.column == column
    ]
    return tuple(map(str, facet.values or ()))


V1, V2 = release("videomme", REVISION), release("videomme_v2", REVISION)
V1_ANNOTATIONS, V2_ANNOTATIONS = (
    declared(name).annotations[0].file for name in ("videomme", "videomme_v2")
)
DOMAINS, SUB_CATEGORIES, TASK_TYPES = map(values, ("domain", "sub_category", "task_type"))
LOGIC_STRUCTURES = ("[1,2,3,4]", "[1,[2,3],4]", "[[1,2],3,4]")

_YOUTUBE_ALPHABET = string.ascii_letters + string.digits + "-_"


def youtube_ids(count: int, seed: int = 0) -> list[str]:
    """Ids as in v1: eleven characters. Every tenth starts with a hyphen, one has thirteen."""
    draw = random.Random(seed)
    ids = ["".join(draw.choices(_YOUTUBE_ALPHABET, k=11)) for _ in range(count)]
    ids[::10] = ["-" + name[1:] for name in ids[::10]]
    ids[count // 2] += "_x"
    return ids


def v1_rows(videos: int = 900) -> list[dict[str, Any]]:
    """Rows of the v1 table: three questions per video, newlines and duplicate options in some."""
    rows = []
    for number, youtube_id in enumerate(youtube_ids(videos), start=1):
        for position in range(1, 4):
            key = f"{number:03d}-{position}"
            options = [f"{letter}. option {letter} of {key}." for letter in "ABCD"]
            if number == 7:
                options[3] = "D." + options[0][2:]
            rows.append(
                {
                    "video_id": f"{number:03d}",
                    "duration": ("short", "medium", "long")[(number - 1) * 3 // videos],
                    "domain": DOMAINS[number % 6],
                    "sub_category": SUB_CATEGORIES[number % 30],
                    "url": f"https://www.youtube.com/watch?v={youtube_id}",
                    "videoID": youtube_id,
                    "question_id": key,
                    "task_type": TASK_TYPES[(number * 3 + position) % 12],
                    "question": f"What happens in {key}?"
                    + ("\n1. This\n2. That" * (position == 3)),
                    "options": options,
                    "answer": "ABCD"[(number + position) % 4],
                }
            )
    return rows


def v2_rows(videos: int = 800) -> list[dict[str, Any]]:
    """Rows of the v2 table: one group of four questions per video, both types, all structures."""
    structures = ("4", "[1,2,3,4]", "4", "[1,[2,3],4]", "4", "[[1,2],3,4]")
    rows = []
    for number in range(1, videos + 1):
        structure = structures[number % 6]
        for position in range(1, 5):
            key = f"{number:03d}-{position}"
            letters = "ABC" if number == 5 else "ABCDEFGH"
            rows.append(
                {
                    "video_id": f"{number:03d}",
                    "url": f"https://www.youtube.com/watch?v=made-up-{number:03d}",
                    "group_type": "relevance" if structure == "4" else "logic",
                    "group_structure": structure,
                    "question_id": key,
                    "question": f"What happens in {key}?",
                    "options": "\n".join(f"{letter}. option of {key}." for letter in letters),
                    "answer": letters[(number + position) % len(letters)],
                    "level": str(position % 3 + 1),
                    "second_head": "Order",
                    "third_head": "Event Sequence Ordering",
                }
            )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows])


def read(
    name: str, source: Path | pa.Table, *, videos: int | None = None, benchmark: str | None = None
) -> tuple[Question, ...]:
    """The questions of a published benchmark in an annotation file, or in a table.

    `videos` is the number of videos that it must have, if not that of the declaration.
    """
    declaration = declared(name)
    if videos is not None:
        size = declaration.size.model_dump() | {"videos": videos, "questions": None}
        del size["questions"]
        values = declaration.model_dump() | {"size": size}
        declaration = Declaration.model_validate(values)
    with TemporaryDirectory() as folder:
        path = source if isinstance(source, Path) else Path(folder) / "test.parquet"
        if not isinstance(source, Path):
            pq.write_table(source, path)
        return tuple(read_questions(declaration, [path], benchmark or name).require())


def parquet_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table(rows), sink)
    return sink.getvalue()


def zip_bytes(members: Mapping[str, bytes], compression: int = ZIP_STORED) -> bytes:
    sink = io.BytesIO()
    with ZipFile(sink, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return sink.getvalue()


def small_videos(folder: Path, kinds: int = 3) -> list[bytes]:
    """Bytes of a few real mp4 files of different length and content."""
    return [
        write_video(folder / f"{kind}.mp4", frames=4 + kind, width=64, height=48).read_bytes()
        for kind in range(kinds)
    ]


def publish_v1(hub: HubServer, folder: Path, revision: str = REVISION) -> dict[str, bytes]:
    """Put v1 on the hub: 900 videos spread over 20 archives, 744 with subtitles.

    Returns the video files by YouTube id. One ends in `.MP4`, one in `.mkv`.
    """
    rows = v1_rows()
    clips = small_videos(folder)
    ids = list(dict.fromkeys(row["videoID"] for row in rows))
    videos = {name: clips[position % len(clips)] for position, name in enumerate(ids)}
    suffixes = {ids[1]: ".MP4", ids[2]: ".mkv"}
    shuffled = ids.copy()
    random.Random(1).shuffle(shuffled)
    for position, archive in enumerate(V1.hub.archives):
        members = {
            f"data/{name}{suffixes.get(name, '.mp4')}": videos[name]
            for name in shuffled[position :: len(V1.hub.archives)]
        }
        hub.add(V1.hub.repository, revision, archive, zip_bytes(members))
    subtitles = {
        f"subtitle/{name}.srt": b"1\n00:00:01,000 --> 00:00:02,000\nhello\n" for name in ids[:744]
    }
    hub.add(V1.hub.repository, revision, str(V1.hub.subtitles), zip_bytes(subtitles, ZIP_DEFLATED))
    hub.add(V1.hub.repository, revision, V1_ANNOTATIONS, parquet_bytes(rows))
    return videos


def publish_v2(hub: HubServer, folder: Path, revision: str = REVISION) -> dict[str, bytes]:
    """Put v2 on the hub: 800 videos, twenty per archive by number. Returns them by video id."""
    clips = small_videos(folder)
    videos = {f"{number:03d}": clips[number % len(clips)] for number in range(1, 801)}
    ids = list(videos)
    for position, archive in enumerate(V2.hub.archives):
        members = {f"{name}.mp4": videos[name] for name in ids[position * 20 : position * 20 + 20]}
        hub.add(V2.hub.repository, revision, archive, zip_bytes(members))
    word = b'{"text": "hello", "start_time": 0.1, "end_time": 0.5}\n'
    hub.add(
        V2.hub.repository,
        revision,
        str(V2.hub.subtitles),
        zip_bytes({f"subtitle/{name}.jsonl": word for name in ids}, ZIP_DEFLATED),
    )
    hub.add(V2.hub.repository, revision, V2_ANNOTATIONS, parquet_bytes(v2_rows()))
    return videos
