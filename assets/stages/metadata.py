"""Pictures, tables and texts for the Dagster UI, embedded in the metadata of events."""

import base64
import inspect
import re
from collections.abc import Callable, Iterable, Mapping

import dagster as dg

from videomme_pipeline.extras import is_installed
from videomme_pipeline.processes.children import ChildFailedError
from videomme_pipeline.reports.rendering import render_svg
from videomme_pipeline.rows import arrow_schema, describe_columns

NO_CHARTS = dg.MetadataValue.md(
    "Charts need the extra `charts`: `pip install 'videomme-pipeline[charts]'`"
)
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


def code_reference(code: type) -> dg.CodeReferencesMetadataValue:
    """The file and line of a class, which the Dagster UI shows beside its asset."""
    _, start = inspect.getsourcelines(code)
    path = inspect.getfile(code)
    reference = dg.LocalFileCodeReference(file_path=path, line_number=start, label=code.__name__)
    return dg.CodeReferencesMetadataValue(code_references=[reference])


def picture(data: bytes, media_type: str, title: str) -> dg.MarkdownMetadataValue:
    """`data` as a picture inside Markdown, or a note if it is too large for the event log."""
    if len(data) > MAX_PICTURE_BYTES:
        return dg.MetadataValue.md(f"{title}: {len(data):,} bytes, too large to show here")
    encoded = base64.b64encode(data).decode()
    return dg.MetadataValue.md(f"![{title}](data:{media_type};base64,{encoded})")


def chart_picture(draw: Callable[[], str], title: str) -> dg.MarkdownMetadataValue:
    """The Vega-Lite chart that `draw` returns, or a note that says why there is none."""
    if not is_installed("charts"):
        return NO_CHARTS
    try:
        return picture(render_svg(draw()).encode(), "image/svg+xml", title)
    except ChildFailedError as error:
        return dg.MetadataValue.md(f"{title}: the chart cannot be drawn ({error})")


def fenced(text: str) -> dg.MarkdownMetadataValue:
    """`text` unchanged, in a Markdown fence that is longer than any fence inside it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return dg.MetadataValue.md(f"{fence}text\n{text}\n{fence}")


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
