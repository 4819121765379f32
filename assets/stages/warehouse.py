"""`warehouse`: the DuckDB file with every table and view, rebuilt when scores change."""

from typing import TYPE_CHECKING

import dagster as dg
from upath import UPath

from videomme_pipeline.assets.stages.base import (
    Results,
    SharedStage,
    Target,
    Targets,
    describe_each,
)
from videomme_pipeline.assets.stages.metadata import chart_picture, table_of
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.project.state.partitions import Whole
from videomme_pipeline.reports.markdown import in_markdown

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
        return describe_each(targets, self._rebuild)

    def _rebuild(self, target: Target[Whole]) -> dict[str, object]:
        """Rebuild and sign the file, and return its metadata."""
        from videomme_pipeline.warehouse.database import rebuild  # noqa: PLC0415 - loads DuckDB

        left_out = rebuild(self.store)
        self.sign(target)
        metadata = self.metadata(target)
        if left_out:
            metadata["left_out"] = dg.MetadataValue.md(
                "\n".join(f"- {in_markdown(line)}" for line in left_out)
            )
        return metadata

    def metadata(self, target: Target[Whole]) -> dict[str, object]:  # noqa: ARG002
        return {"path": dg.MetadataValue.path(self.store.warehouse), **self._preview()}

    def _preview(self) -> dict[str, object]:
        from videomme_pipeline.warehouse.database import connect, query  # noqa: PLC0415 - DuckDB

        with connect(self.store) as connection:
            rows = query(connection, PREVIEW)
            if not rows:
                return {"evaluations": 0}
            charts = {
                f"{benchmark}_by_{facet.column}": _chart(connection, benchmark, facet.column)
                for benchmark in sorted({str(row["benchmark"]) for row in rows})
                for facet in find_benchmark(benchmark).shown_facets[:1]
            }
        return {"evaluations": len(rows), "overall": table_of(rows), **charts}


def _chart(
    connection: "DuckDBPyConnection", benchmark: str, column: str
) -> dg.MarkdownMetadataValue:
    """Chart of scores with their intervals."""

    def draw() -> str:
        from videomme_pipeline.reports.charts import breakdown_chart  # noqa: PLC0415 - loads Altair

        return breakdown_chart(connection, benchmark, column).to_json()

    return chart_picture(draw, column)
