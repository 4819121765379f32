"""`warehouse`: the DuckDB file with every table and view, built anew when scores changed."""

from collections.abc import Iterator, Sequence

import dagster as dg
from upath import UPath

from assets.stage import Failed, Made, SharedStage, Target
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.warehouse.database import connect, query, rebuild

PREVIEW = "select * from overall order by benchmark, evaluation"


class Warehouse(SharedStage):
    name = "warehouse"
    description = "The DuckDB file: scored questions of all evaluations, and the views over them."
    kinds = frozenset({"duckdb"})
    code_version = "1"

    @property
    def path(self) -> UPath:
        return UPath(self.store.warehouse)

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        (target,) = targets
        try:
            path, left_out = rebuild(self.store)
        except VideoMMEError as error:
            yield Failed(cell=target.cell, reason=str(error))
            return
        self.sign(target)
        metadata: dict[str, object] = {"path": dg.MetadataValue.path(path), **self._preview()}
        if left_out:
            metadata["left_out"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in left_out))
        yield Made(target=target, metadata=metadata)

    def _preview(self) -> dict[str, object]:
        with connect(self.store) as connection:
            rows = query(connection, PREVIEW)
        if not rows:
            return {"evaluations": 0}
        return {"evaluations": len(rows), "overall": table_of(rows)}


def table_of(rows: Sequence[dict[str, object]]) -> dg.TableMetadataValue:
    """Rows of a view as the Dagster UI shows tables: numbers short, nothing as an empty cell."""
    return dg.MetadataValue.table(
        [dg.TableRecord({key: _cell(value) for key, value in row.items()}) for row in rows]
    )


def _cell(value: object) -> str | int | float:
    if isinstance(value, float):
        return round(value, 4)
    return value if isinstance(value, int | str) else "" if value is None else str(value)
