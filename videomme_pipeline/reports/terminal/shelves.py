"""Output of `videomme cache ls`."""

from collections.abc import Sequence

from rich import filesize
from rich.console import Console

from videomme_pipeline.reports.terminal.tables import Row, show_rows


def show_shelves(console: Console, shelves: Sequence[Row]) -> None:
    """Print the stored files of each kind and name, and a last row with the totals."""
    rows = [
        {
            "kind": shelf["kind"],
            "name": shelf["name"],
            "videos": shelf["videos"] or "",
            "files": shelf["files"],
            "size": filesize.decimal(shelf["bytes"]),
            "used_by": ", ".join(shelf["named_by"]) or ("samplings.yaml" * shelf["offered"]),
        }
        for shelf in shelves
    ]
    files, size = (sum(shelf[column] for shelf in shelves) for column in ("files", "bytes"))
    total = {"kind": "all", "files": files, "size": filesize.decimal(size)}
    show_rows(console, [*rows, total], {"used_by": "used by"})
