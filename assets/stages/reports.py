"""`report_page`: the results as one HTML page that works offline."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import dagster as dg
from blake3 import blake3
from upath import UPath

from videomme_pipeline.assets.stages.base import (
    Built,
    Failed,
    Results,
    SharedStage,
    Target,
    Targets,
)
from videomme_pipeline.assets.stages.warehouse import Warehouse
from videomme_pipeline.errors import DamagedFileError, VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.state.partitions import Whole
from videomme_pipeline.reports.page_version import PAGE_VERSION
from videomme_pipeline.storage.tables import stored_fingerprint


class ReportPage(SharedStage):
    name = "report_page"
    description = "The results of all evaluations as one self-contained HTML page."
    upstream = ("warehouse",)
    kinds = frozenset({"html"})
    code_version = str(PAGE_VERSION)

    @property
    def path(self) -> UPath:
        return UPath(self.store.report())

    def target_over(self, results: Mapping[UPath, str | None]) -> Target[Whole]:
        warehouse = Warehouse(self.project)
        target = super().target_over(results)
        own = fingerprint(
            target.fingerprint,
            [stored_fingerprint(file) for file in self.store.variant_files("findings")],
            [self._stored_texts(file) for file in results if file.parent.name == "scores"],
        )
        inputs = {warehouse.asset_key: warehouse.target_over(results).data_version}
        return replace(target, fingerprint=own, data_version=own, inputs=inputs)

    def build(self, targets: Targets[Whole]) -> Results[Whole]:
        (target,) = targets
        self.remove_signature(target)
        try:
            left_out = self._write(Path(str(target.path)))
        except VideoMMEError as error:
            yield Failed(partition=target.partition, reason=str(error))
            return
        self.sign(target, incomplete=bool(left_out))
        yield Built(target=target, metadata=self.metadata(target), incomplete=bool(left_out))
        if left_out:
            reason = f"the page is incomplete: {'; '.join(left_out)}"
            yield Failed(partition=target.partition, reason=reason)

    def metadata(self, target: Target[Whole]) -> dict[str, object]:
        page = Path(str(target.path)).resolve()
        return {
            "page": dg.MetadataValue.url(page.as_uri()),
            "path": dg.MetadataValue.path(page),
            "bytes": page.stat().st_size,
        }

    def _stored_texts(self, scores: UPath) -> list[int]:
        """The numbers of an evaluation's videos with stored prompts and with stored responses.

        The page shows these texts. If texts were missing, because their files were damaged, the
        page becomes stale once they are rebuilt, although the scores do not change.
        """
        benchmark, evaluation = scores.parent.parent.name, scores.stem
        kinds = ("prompts", "responses")
        return [len(self.store.variant_files(kind, benchmark, evaluation)) for kind in kinds]

    def checksum(self, path: UPath) -> str:
        return blake3(path.read_bytes()).hexdigest() if path.is_file() else "not a file"

    def _write(self, path: Path) -> list[str]:
        """Write the page, and return a sentence for each damaged file that is missing from it.

        A damaged file is set aside when it is read, so the next attempt does not read it.
        """
        from videomme_pipeline.reports.page import write_page  # noqa: PLC0415 - loads DuckDB

        left_out: list[str] = []
        while True:
            try:
                write_page(self.store, path)
            except DamagedFileError as error:
                if str(error) in left_out:  # it could not be set aside
                    raise
                left_out.append(str(error))
            else:
                return left_out
