"""The raw timed segments of subtitle files: every cue as it is in the file, without alignment."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from blake3 import blake3
from upath import UPath

from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.rows import to_table
from videomme_pipeline.storage.objects import reaching
from videomme_pipeline.subtitles.cues import read_subtitles
from videomme_pipeline.warehouse.loading import create_table
from videomme_pipeline.warehouse.quoting import literal

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
    _copy(connection, previous)
    files = connection.execute(
        "select benchmark, video_id, subtitle_path, subtitle_hash from videos "
        "where subtitle_path is not null and subtitle_hash is not null "
        "except select v.benchmark, v.video_id, v.subtitle_path, v.subtitle_hash from videos as v "
        "semi join subtitle_segments using (benchmark, video_id, subtitle_hash)"
    ).fetchall()
    segments = to_table((row for file in files for row in _segments(*file)), SubtitleSegment)
    connection.register("incoming", segments)
    connection.execute("insert into subtitle_segments by name from incoming")
    connection.unregister("incoming")


def _copy(connection: duckdb.DuckDBPyConnection, previous: Path) -> None:
    if not previous.is_file():
        return
    try:
        connection.execute(f"attach {literal(str(previous))} as previous (read_only)")
    except duckdb.Error:  # damaged: read the files instead
        return
    try:
        connection.execute(
            "insert into subtitle_segments by name select * from previous.subtitle_segments "
            "semi join videos using (benchmark, video_id, subtitle_hash)"
        )
    except duckdb.Error:  # damaged
        connection.execute("delete from subtitle_segments")
    finally:
        connection.execute("detach previous")


def _segments(
    benchmark: str, video_id: str, path: str, subtitle_hash: str
) -> Iterator[SubtitleSegment]:
    file = UPath(path)
    try:
        with reaching(file):
            digest = blake3(file.read_bytes()).hexdigest()
            cues = read_subtitles(file).in_file_order
    except (OSError, SubtitleError) as error:
        _log.warning("no segments of %s, video %s: %s", benchmark, video_id, error)
        return
    if digest != subtitle_hash:
        _log.warning(
            "no segments of %s, video %s: %s changed; materialize the `videos` asset again",
            benchmark,
            video_id,
            path,
        )
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
