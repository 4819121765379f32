"""`report_page`: the results as one HTML page that works offline."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg
from upath import UPath

from assets.stages.base import Built, Failed, SharedStage, Target
from assets.stages.warehouse import Warehouse
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.partitions import Whole
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
        return UPath(self.store.report())

    def target(self, partition: Whole) -> Target[Whole]:
        warehouse = Warehouse(self.project)
        version = warehouse.target(partition).data_version
        scores = super().target(partition)
        findings = self.store.variant_files("findings")
        own = fingerprint(scores.fingerprint, [stored_fingerprint(file) for file in findings])
        return replace(
            scores, fingerprint=own, data_version=own, inputs={warehouse.asset_key: version}
        )

    def build(self, targets: Sequence[Target[Whole]]) -> Iterator[Built[Whole] | Failed[Whole]]:
        (target,) = targets
        try:
            path = write_page(self.store, Path(str(target.path)))
        except VideoMMEError as error:
            yield Failed(partition=target.partition, reason=str(error))
            return
        self.sign(target)
        yield Built(
            target=target,
            metadata={
                "page": dg.MetadataValue.url(path.resolve().as_uri()),
                "path": dg.MetadataValue.path(path.resolve()),
                "bytes": path.stat().st_size,
            },
        )
