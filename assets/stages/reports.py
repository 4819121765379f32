"""`report_page`: the results as one page that opens without a network."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg
from upath import UPath

from assets.partitions import Cell
from assets.stages.base import Failed, Made, SharedStage, Target
from assets.stages.warehouse import Warehouse
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.reports.page import PAGE_VERSION, write_page
from videomme_pipeline.store import stored_fingerprint


class ReportPage(SharedStage):
    name = "report_page"
    description = "The results of all evaluations as one self-contained HTML page."
    upstream = ("warehouse",)
    kinds = frozenset({"html"})
    code_version = str(PAGE_VERSION)

    @property
    def path(self) -> UPath:
        return UPath(self.store.local("reports", "index.html"))

    def target(self, cell: Cell) -> Target:
        warehouse = Warehouse(self.project)
        version = warehouse.target(cell).data_version
        made_of = super().target(cell)
        findings = sorted(self.store.path().glob("*/findings/*/*.parquet"), key=str)
        own = fingerprint(made_of.fingerprint, [stored_fingerprint(file) for file in findings])
        return replace(
            made_of, fingerprint=own, data_version=own, inputs={warehouse.asset_key: version}
        )

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        (target,) = targets
        try:
            path = write_page(self.store, Path(str(target.path)))
        except VideoMMEError as error:
            yield Failed(cell=target.cell, reason=str(error))
            return
        self.sign(target)
        yield Made(
            target=target,
            metadata={
                "page": dg.MetadataValue.url(path.resolve().as_uri()),
                "path": dg.MetadataValue.path(path.resolve()),
                "bytes": path.stat().st_size,
            },
        )
