"""The raw timed segments of subtitle files: every cue as it is in the file, without alignment."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
from blake3 import blake3
from upath import UPath

from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.rows import to_table
from videomme_pipeline.storage.objects import reaching
from videomme_pipeline.subtitles.cues import read_subtitles
from videomme_pipeline.warehouse.definitions import literal
from videomme_pipeline.warehouse.loading import create_table, insert

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleSegment:
    """One cue of a subtitle file: a subtitle (SRT) or a word (v2), with its time on screen.

    `number` is its position in the file from 0. `subtitle_hash` is the BLAKE3 of the file.
    """

    benchmark: str
    video_id: str
    subtitle_hash: str
    number: int
    start_seconds: float
    end_seconds: float
    text: str


def add_segments(connection: duckdb.DuckDBPyConnection, previous: Path) -> None:
    """Create the table `subtitle_segments` from the subtitle files of the table `videos`.

    Segments of unchanged files are copied from the DuckDB file `previous`, if there is one. A file
    that is missing, unreadable or changed since its video was read has no segments.
    """
    create_table(connection, "subtitle_segments", to_table([], SubtitleSegment))
    if previous.is_file():
        with suppress(duckdb.Error):  # it is damaged: read the files instead
            connection.execute(f"attach {literal(str(previous))} as previous (read_only)")
            connection.execute(
                "insert into subtitle_segments by name select * from previous.subtitle_segments "
                "semi join videos using (benchmark, video_id, subtitle_hash)"
            )
        connection.execute("detach database if exists previous")
    files = connection.execute(
        "select benchmark, video_id, subtitle_path, subtitle_hash from videos "
        "where subtitle_path is not null and subtitle_hash is not null "
        "except select v.benchmark, v.video_id, v.subtitle_path, v.subtitle_hash from videos as v "
        "semi join subtitle_segments using (benchmark, video_id, subtitle_hash)"
    ).fetchall()
    segments = to_table((row for file in files for row in _segments(*file)), SubtitleSegment)
    insert(connection, "subtitle_segments", segments)


def _segments(
    benchmark: str, video_id: str, path: str, subtitle_hash: str
) -> Iterator[SubtitleSegment]:
    file = UPath(path)
    problem = ""
    try:
        with reaching(file):
            cues = read_subtitles(file).in_file_order
            if blake3(file.read_bytes()).hexdigest() != subtitle_hash:
                problem = f"{path} changed; materialize the `videos` asset again"
    except (OSError, SubtitleError) as error:
        problem = str(error)
    if problem:
        _log.warning("no segments of %s, video %s: %s", benchmark, video_id, problem)
        return
    for cue in cues:
        yield SubtitleSegment(
            benchmark=benchmark,
            video_id=video_id,
            subtitle_hash=subtitle_hash,
            number=cue.number,
            start_seconds=cue.start_seconds,
            end_seconds=cue.end_seconds,
            text=cue.text,
        )
