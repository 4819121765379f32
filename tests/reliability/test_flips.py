"""Bit flips: no stored file is read as something else because one bit of it changed.

A flip is *silent* if reading succeeds with other contents. A file that counts as missing, so that
it is rebuilt, is detected.
"""

import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from tests.support.stored_files import stored_file
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.frames.cache import read_frames, read_shown
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.failures import Failure, FailureLog
from videomme_pipeline.project.state.partitions import WHOLE, VideoPartition
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.journal_databases import SqliteJournal
from videomme_pipeline.responses.response import AttemptRow, Response
from videomme_pipeline.scoring.scored_question import EvaluatedVideo, ScoredQuestion
from videomme_pipeline.stages.shared import ReportPage
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.storage.records import read_record, sequence
from videomme_pipeline.storage.tables import read_rows, stored_parts, stored_settings
from videomme_pipeline.subtitles.align import AlignedLine
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.packets import PacketIndex
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.database import is_current, rebuild

FLIPS = 10_000
SAMPLED = 10
"""Flips per kind of file in the everyday run."""
MISSING: tuple[object, ...] = (None, ({}, {}), {}, False)
"""Results of reading a file that counts as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of stored file: one file, and how the pipeline reads it.

    Only the last `tail_bytes` are flipped, if given.
    """

    path: Path
    read: Callable[[], object]
    tail_bytes: int = 0


def table(path: UPath, row_class: type[Any]) -> Kind:
    return Kind(path=Path(path.path), read=lambda: read_rows(path, row_class))


def kinds_of(project: Project) -> Mapping[str, Kind]:
    """Each kind of file in a built project."""
    store = project.store
    frames, subtitles = store.files("frames")[0], store.variant_files("subtitles")[0]
    scores = stored_file(store, "scores", "videomme", "few")
    packets = store.files("packets")[0]
    page = ReportPage(project)
    page_fingerprint = page.fingerprint(WHOLE)
    ((_, _, shown),) = sequence(store.shown("videomme", "few"))
    failures = FailureLog(store, "videomme/videos")
    failures.update([], {VideoPartition("002"): Failure("the reason")})
    (failure,) = store.failures("videomme", "videos").iterdir()
    return {
        # First, because it is stale once another file has been written.
        "DuckDB file": Kind(path=store.warehouse, read=lambda: is_current(store)),
        "questions": table(stored_file(store, "questions", "videomme"), Question),
        "videos": table(stored_file(store, "videos", "videomme", video="002"), Video),
        "subtitles": table(subtitles, AlignedLine),
        "prompts": table(stored_file(store, "prompts", "videomme", "few", "002"), Prompt),
        "responses": table(stored_file(store, "responses", "videomme", "few", "002"), Response),
        "attempts": table(stored_file(store, "attempts", "videomme", "few", "002"), AttemptRow),
        "scores": table(scores, ScoredQuestion),
        "evaluated videos": table(
            stored_file(store, "evaluated_videos", "videomme", "few"), EvaluatedVideo
        ),
        "footers of tables": Kind(
            path=Path(scores.path),
            read=lambda: (stored_parts(scores), stored_settings(scores)),
            tail_bytes=4000,
        ),
        "packet indexes": Kind(path=Path(packets.path), read=lambda: _index(packets)),
        "frames": Kind(
            path=Path(frames.path), read=lambda: read_frames(store, *frames.stem.split("."))
        ),
        "footers of frames": Kind(
            path=Path(frames.path),
            read=lambda: read_shown(store, *frames.stem.split(".")),
            tail_bytes=1300,
        ),
        "journal": Kind(path=store.journal, read=lambda: _journal(store.journal)),
        "hashes": Kind(path=store.hashes, read=lambda: _hashes(store)),
        "records of shown scores": Kind(path=Path(shown.path), read=lambda: read_record(shown)),
        "notes of failures": Kind(path=Path(failure.path), read=failures.read),
        "report page": Kind(path=store.report(), read=lambda: page.has(WHOLE, page_fingerprint)),
    }


def _index(path: UPath) -> object:
    index = PacketIndex.load(path)
    if index is None:
        return None
    arrays = (index.pts, index.dts, index.size, index.is_keyframe, index.is_hidden)
    facts = (index.time_base, index.last_duration, index.claimed_seconds, index.source)
    return ([array.tolist() for array in arrays], facts)


def _journal(path: Path) -> object:
    """All rows of an intact journal."""
    SqliteJournal(path).verify()
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"select * from {name}").fetchall()
            for name in ("responses", "attempts")
        ]


def _hashed_files(store: Store) -> list[Path]:
    """Files whose hashes are in the cache. None of them is flipped."""
    return [Path(path.path) for path in store.variant_files("prompts", "videomme", "more")]


def _hashes(store: Store) -> object:
    """The known hashes of these files, or None if one is missing and will be computed again."""
    with HashCache(store.hashes) as hashes:
        cached = [hashes.get(path, FileState.of(path.stat())) for path in _hashed_files(store)]
    return None if None in cached else cached


def outcome(kind: Kind, intact: object) -> str:
    """The outcome of reading a file after one of its bits was flipped."""
    try:
        content = kind.read()
    except VideoMMEError:
        return "detected"
    if content == intact:
        return "unchanged"
    return "detected" if content in MISSING else "silent"


def flip(kind: Kind, count: int, chance: random.Random) -> Counter[str]:
    """Flip one bit of the file `count` times, and count the outcomes."""
    content = kind.path.read_bytes()
    intact = kind.read()
    assert intact not in MISSING
    outcomes = Counter[str]()
    positions = range(len(content))[-kind.tail_bytes :]
    for _ in range(count):
        changed = bytearray(content)
        changed[chance.choice(positions)] ^= 1 << chance.randrange(8)
        kind.path.write_bytes(changed)
        outcomes[outcome(kind, intact)] += 1
        _remove(kind.path)
    kind.path.write_bytes(content)
    return outcomes


def _remove(path: Path) -> None:
    """Remove a file, and what SQLite has left beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def flip_all(project: Project, count: int) -> dict[str, Counter[str]]:
    """The outcomes of `count` flips of each kind of file."""
    with HashCache(project.store.hashes) as hashes:
        for path in _hashed_files(project.store):
            hashes.put(path, FileState.of(path.stat()), "a hash")
    rebuild(project.store)  # the paths in a copy of a project are not those it was built from
    chance = random.Random(14)
    return {name: flip(kind, count, chance) for name, kind in kinds_of(project).items()}


def test_no_flipped_bit_is_silent(project: Project) -> None:
    outcomes = flip_all(project, SAMPLED)
    assert {name for name, of in outcomes.items() if of["silent"]} == set()
    detected = sum(of["detected"] for of in outcomes.values())
    assert detected > SAMPLED * len(outcomes) / 2  # others are in unused parts of SQLite files


@pytest.mark.slow
def test_every_bit_flip_is_detected_or_harmless(project: Project) -> None:
    """With `-s`, the test prints the flips of each kind of file (`docs/reliability.md`)."""
    outcomes = flip_all(project, FLIPS // len(kinds_of(project)) + 1)
    outcomes["all"] = sum(outcomes.values(), Counter[str]())
    for name, of in outcomes.items():
        row = (name, of.total(), of["detected"], of["unchanged"], of["silent"])
        sys.stdout.write(f"| {' | '.join(map(str, row))} |\n")
    assert outcomes["all"].total() >= FLIPS
    assert outcomes["all"]["silent"] == 0
