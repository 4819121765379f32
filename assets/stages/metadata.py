"""Pictures and texts in the Dagster UI: small, inside the metadata, so that nothing is served."""

import base64
import re

import dagster as dg

NO_CHARTS = dg.MetadataValue.md(
    "Charts need the extra `charts`: `pip install 'videomme-pipeline[charts]'`"
)
LARGEST_PICTURE_BYTES = 60_000
"""The event log holds every picture for ever."""


def picture(data: bytes, media_type: str, title: str) -> dg.MarkdownMetadataValue:
    """`data` as a picture inside Markdown; where it would fill the event log, a word instead."""
    if len(data) > LARGEST_PICTURE_BYTES:
        return dg.MetadataValue.md(f"{title}: {len(data):,} bytes, too much to be shown here")
    encoded = base64.b64encode(data).decode()
    return dg.MetadataValue.md(f"![{title}](data:{media_type};base64,{encoded})")


def fenced(text: str) -> dg.MarkdownMetadataValue:
    """`text` letter by letter, in a fence that is longer than any inside it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return dg.MetadataValue.md(f"{fence}text\n{text}\n{fence}")
