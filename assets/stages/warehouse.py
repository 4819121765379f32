"""`warehouse`: the DuckDB file with every table and view, rebuilt when scores change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg
from upath import UPath

from assets.stages.base import Built, Failed, Results, SharedStage, Targets, describe_each
from assets.stages.metadata import chart_picture
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.project.state.partitions import Whole

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PREVIEW = "select * from overall order by benchmark, evaluation"


class Warehouse(SharedStage):
    name = "warehouse"
    description = "The DuckDB file: scored questions of all evaluations, and the views over them."
    kinds = frozenset({"duckdb"})
    code_version = "1"

    @property
    def path(self) -> UPath:
        return UPath(self.store.warehouse)

    def build(self, targets: Targets[Whole]) -> Results[Whole]:
        from videomme_pipeline.warehouse.database import rebuild  # noqa: PLC0415 - loads DuckDB

        (target,) = targets
        try:
            _, left_out = rebuild(self.store)
        except VideoMMEError as error:
            yield Failed(partition=target.partition, reason=str(error))
            return
        self.sign(target)
        metadata = self._metadata()
        if left_out:
            metadata["left_out"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in left_out))
        yield Built(target=target, metadata=metadata)

    def describe(self, targets: Targets[Whole]) -> Results[Whole]:
        return describe_each(targets, lambda _: self._metadata())

    def _metadata(self) -> dict[str, object]:
        return {"path": dg.MetadataValue.path(self.store.warehouse), **self._preview()}

    def _preview(self) -> dict[str, object]:
        from videomme_pipeline.warehouse.database import connect, query  # noqa: PLC0415 - DuckDB

        with connect(self.store) as connection:
            rows = query(connection, PREVIEW)
            if not rows:
                return {"evaluations": 0}
            charts = {
                f"{benchmark}_by_{column}": _chart(connection, benchmark, column)
                for benchmark, column in _charted(rows)
            }
        return {"evaluations": len(rows), "overall": table_of(rows), **charts}


def _charted(rows: Sequence[dict[str, object]]) -> list[tuple[str, str]]:
    """Each benchmark that has facets, with the first one."""
    benchmarks = sorted({str(row["benchmark"]) for row in rows})
    return [
        (name, facet.column)
        for name in benchmarks
        for facet in find_benchmark(name).shown_facets[:1]
    ]


def _chart(
    connection: "DuckDBPyConnection", benchmark: str, column: str
) -> dg.MarkdownMetadataValue:
    """Chart of scores with their intervals."""

    def draw() -> str:
        from videomme_pipeline.reports.charts import breakdown_chart  # noqa: PLC0415 - loads Altair

        return breakdown_chart(connection, benchmark, column).to_json()

    return chart_picture(draw, column)


def table_of(rows: Sequence[dict[str, object]]) -> dg.TableMetadataValue:
    """Rows of a view as a table for the Dagster UI. Numbers are rounded, and NULL is empty."""
    return dg.MetadataValue.table(
        [dg.TableRecord({key: _shown(value) for key, value in row.items()}) for row in rows]
    )


def _shown(value: object) -> str | int | float:
    if isinstance(value, float):
        return round(value, 4)
    return value if isinstance(value, int | str) else "" if value is None else str(value)
