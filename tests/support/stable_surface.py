"""The page `docs/stability.md`: what users may depend on, written from the code.

    python -m tests.support.stable_surface > docs/stability.md

A test compares the page with the code, and looks for its fingerprint in CHANGELOG.
"""

import sys
from collections.abc import Iterator, Mapping
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from tests.support.paths import ROOT
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import DecodeTime, Frame
from videomme_pipeline.project.schemas import schemas
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.response import AttemptRow, Response
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.scoring.scored_question import (
    EvaluatedVideo,
    ObservedQuestion,
    ScoredQuestion,
)
from videomme_pipeline.scoring.verdicts import Checkpoint, RecordedLook
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.subtitles.align import AlignedLine
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.database import build
from videomme_pipeline.warehouse.definitions import views

SCHEMA_VERSION = 1

STORED: Mapping[str, tuple[str, type]] = {
    "questions": ("BENCHMARK/questions/FINGERPRINT.parquet", Question),
    "videos": ("BENCHMARK/videos/VIDEO.FINGERPRINT.parquet", Video),
    "frames": ("frames/HASH.SETTINGS.parquet", Frame),
    "decode_times": ("decode_times/NAME.parquet", DecodeTime),
    "subtitles": ("BENCHMARK/subtitles/TRACK/VIDEO.FINGERPRINT.parquet", AlignedLine),
    "prompts": ("BENCHMARK/prompts/EVALUATION/VIDEO.FINGERPRINT.parquet", Prompt),
    "responses": ("BENCHMARK/responses/EVALUATION/VIDEO.FINGERPRINT.parquet", Response),
    "attempts": ("BENCHMARK/attempts/EVALUATION/VIDEO.FINGERPRINT.parquet", AttemptRow),
    "scored_questions": ("BENCHMARK/scores/EVALUATION/FINGERPRINT.parquet", ScoredQuestion),
    "evaluated_videos": (
        "BENCHMARK/evaluated_videos/EVALUATION/FINGERPRINT.parquet",
        EvaluatedVideo,
    ),
    "nightly_runs": ("BENCHMARK/nightly_runs/EVALUATION/DATE.parquet", ObservedQuestion),
    "checkpoints": ("checkpoints/RUN-STEP.TIME.parquet", Checkpoint),
    "races": ("races/BASELINE/CANDIDATE.TIME.parquet", RecordedLook),
}
"""The tables of the data folder: path and row class."""

INTRODUCTION = f"""\
# What is stable

Schema version: {SCHEMA_VERSION}. Fingerprint of this page: `{{fingerprint}}`.

You may depend on everything on this page. It changes only together with a line in the changelog
that has the new fingerprint. The schema version increases if something is renamed or removed. The
public Python names are on [their own page](api.md), and the keys of the JSON output are in
[the command line](cli.md).

A facet of a benchmark, such as `duration`, is a value in the column `facets` (JSON text) of the
stored tables. In DuckDB, each facet is also a column of `questions`, `scored_questions` and
`nightly_runs`.

## Exit status

| status | meaning |
|---|---|
| 0 | everything that was asked for is built, read or written |
| 1 | an error, a failed partition or a failed check |
| 2 | wrong arguments |
| 3, 4 | `gate`, `race`, `checkpoint watch` and `checkpoint wait`: undecided, not evaluated. \
`recipe run`: 3 if not consistent |
| 130, 143 | stopped by Ctrl-C or SIGTERM |

## Commands

`videomme --help` lists all commands. Names of earlier versions that are gone:

| earlier | now |
|---|---|
| `watch`, `submit`, `wait` | `checkpoint watch`, `checkpoint submit`, `checkpoint wait` |
| `recipes`, `reproduce` | `recipe list`, `recipe show`, `recipe run` |
| `probe MODEL` | `doctor MODEL --probe` |
| `publish` | `export --to hub` |
| `store verify`, `store journal` | `cache verify`, `cache journal` |
| `schema` | `init --schema` |
| `score A --against B` | `compare B A` |
| `serve` | nothing: a run starts the servers that it needs |
"""


def page() -> str:
    """The text of the page."""
    body = "\n".join([*_tables(), *_views(), *_files()])
    return INTRODUCTION.format(fingerprint=fingerprint(body)[:12]) + "\n" + body + "\n"


def _tables() -> Iterator[str]:
    yield "## Stored tables\n"
    for name, (path, row_class) in STORED.items():
        yield f"### `{name}`\n\nStored in `{path}`.\n"
        yield "| column | type |\n|---|---|"
        for column in arrow_schema(row_class):
            yield f"| `{column.name}` | {column.type}{'' if column.nullable else ', never null'} |"
        yield ""


def _views() -> Iterator[str]:
    """Sections about the views. Views by facet are described once, since facets are declared."""
    benchmarks = [find_benchmark(name) for name in ("videomme", "videomme_v2")]
    by_facet = {facet.view: facet.column for item in benchmarks for facet in item.facets}
    by_facet |= {f"by_{a}_and_{b}": a for item in benchmarks for a, b in item.crossings}
    yield (
        "## Views\n\nEach facet of a benchmark has a view `by_FACET` with the columns of "
        "`overall`, or\n`group_score_by_FACET` with those of `group_score_overall`.\n\n"
        "| view | columns |\n|---|---|"
    )
    with duckdb.connect() as connection, TemporaryDirectory() as folder:
        build(connection, Store.at(folder))
        for name in sorted(set(views()) - by_facet.keys()):
            columns = ", ".join(f"`{column}`" for column in connection.table(name).columns)
            yield f"| `{name}` | {columns} |"
    yield ""


def _files() -> Iterator[str]:
    """A section about the keys of each kind of configuration file."""
    yield "## Keys of the configuration\n\n| file | keys |\n|---|---|"
    for name, schema in schemas(read_configuration(ROOT / "assets" / "offline")).items():
        keys = ", ".join(f"`{key}`" for key in sorted(_keys(schema)))
        yield f"| `{name}` | {keys} |"


def _keys(schema: Any) -> set[str]:
    """The keys of all mappings in a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(_keys, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*(_keys(value) for value in schema.values()))


if __name__ == "__main__":
    sys.stdout.write(page())
