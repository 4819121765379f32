"""Facts of the stages as metadata of the Dagster UI: pictures, tables, texts and numbers."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from videomme_pipeline.assets.keys import key_in
from videomme_pipeline.reports.markdown import in_markdown
from videomme_pipeline.rows import arrow_schema, describe_columns
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.stages.facts import Facts, Markdown, Picture
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage

MAX_PICTURE_BYTES = 60_000
"""Larger pictures are left out, because the event log stores every picture."""


def column_schema(row_class: type) -> dg.TableSchema:
    """The columns of a table with their types, and their descriptions in the row class."""
    descriptions = describe_columns(row_class)
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name,
                str(field.type),
                description=descriptions.get(field.name),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in arrow_schema(row_class)
        ]
    )


TABLES = {"questions": "questions", "scores": "scored_questions", "warehouse": "leaderboard"}
"""Tables of the DuckDB file by the asset whose rows they have."""
_READ, _KEY, _OUTCOME = ("responses", "raw_output"), ("questions", "answer"), ("scores", "outcome")
_SOURCES: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]] = {
    "scores": {
        "answer": [_KEY],
        "extracted_answer": [_READ],
        "outcome": [_READ, _KEY],
        "is_correct": [_READ, _KEY],
    },
    "warehouse": {
        "accuracy": [("scores", "is_correct")],
        **{outcome.value: [_OUTCOME] for outcome in Outcome},
    },
}
"""The columns of other assets from which a column is computed, by asset and column."""


def table_metadata(stage: AnyStage, facts: Facts) -> dict[str, Any]:
    """The number of rows of a built partition, and from which columns its columns are computed."""
    metadata: dict[str, Any] = {}
    if (rows := facts.get("questions")) is not None:
        is_whole = not isinstance(stage, BenchmarkStage) or not stage.stage.dimensions
        metadata["dagster/row_count" if is_whole else "dagster/partition_row_count"] = rows
    if sources := _SOURCES.get(stage.name):
        benchmarks = list(stage.project.benchmarks)
        if isinstance(stage, BenchmarkStage):
            benchmarks = [stage.benchmark.name]
        metadata["dagster/column_lineage"] = dg.TableColumnLineage(
            {
                column: [
                    dg.TableColumnDep(key_in(stage.project, f"{benchmark}/{table}"), source)
                    for benchmark in benchmarks
                    for table, source in columns
                ]
                for column, columns in sources.items()
            }
        )
    return metadata


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with four significant digits of each fraction."""
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in values.items()
    }


def metadata_of(facts: Facts) -> dict[str, Any]:
    """Facts as metadata of an event. None is left out."""
    return {name: _value(fact) for name, fact in facts.items() if fact is not None}


def _value(fact: object) -> object:
    match fact:
        case Markdown():
            return dg.MetadataValue.md(str(fact))
        case Picture():
            return _picture(fact)
        case Path():
            return dg.MetadataValue.path(fact)
        case list():
            return table_of(fact)
        case Mapping():
            return dg.MetadataValue.json(dict(fact))
        case _:
            return fact


def _picture(picture: Picture) -> dg.MarkdownMetadataValue:
    """A picture inside Markdown, or a note if it is too large for the event log."""
    size, title = len(picture.data), in_markdown(picture.title)
    if size > MAX_PICTURE_BYTES:
        return dg.MetadataValue.md(f"{title}: {size:,} bytes, too large to show here")
    encoded = base64.b64encode(picture.data).decode()
    return dg.MetadataValue.md(f"![{title}](data:{picture.media_type};base64,{encoded})")


def table_of(rows: Iterable[Mapping[str, object]]) -> dg.TableMetadataValue:
    """Rows as a table for the Dagster UI. Numbers are rounded, and None is an empty text."""
    return dg.MetadataValue.table(
        [dg.TableRecord({key: _shown(value) for key, value in row.items()}) for row in rows]
    )


def _shown(value: object) -> str | int | float:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, int):
        return value
    return "" if value is None else str(value)
