"""`warehouse` and `report_page`: the results of all benchmarks in one file each."""

from dataclasses import replace
from operator import methodcaller
from pathlib import Path

from blake3 import blake3
from upath import UPath

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import DamagedFileError, VideoMMEError
from videomme_pipeline.fingerprint import text_fingerprint
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.reports.markdown import in_markdown, markdown_table
from videomme_pipeline.reports.terminal.runs import SCORE_TITLES, score_rows
from videomme_pipeline.stages import stage as stages
from videomme_pipeline.stages.facts import Facts, Markdown, chart_picture
from videomme_pipeline.storage.publish import writing
from videomme_pipeline.storage.results import Results


class Warehouse(stages.SharedStage):
    """The DuckDB file with every table and view, rebuilt when scores change."""

    name = "warehouse"
    description = "The DuckDB file: scored questions of all evaluations, and the views over them."
    kinds = frozenset({"duckdb"})
    code_version = "1"

    @property
    def path(self) -> UPath:
        return UPath(self.project.store.warehouse)

    def build(self, targets: stages.Targets) -> stages.BuildEvents:
        return stages.each(targets, self._rebuild)

    def _rebuild(self, target: stages.Target) -> Facts:
        from videomme_pipeline.warehouse.database import rebuild  # noqa: PLC0415 - loads DuckDB

        left_out = rebuild(self.project.store)
        self.sign(target)
        lines = Markdown("\n".join(f"- {in_markdown(line)}" for line in left_out))
        return {**self.facts(target), "left_out": lines or None}

    def facts(self, target: stages.Target) -> Facts:  # noqa: ARG002
        from videomme_pipeline.warehouse.database import connect, query  # noqa: PLC0415 - DuckDB

        with connect(self.project.store) as connection:
            rows = query(connection, "select * from leaderboard order by benchmark, accuracy desc")
            charts = {
                f"{benchmark}_by_{facet.column}": chart_picture(
                    methodcaller("breakdown_chart", connection, benchmark, facet.column),
                    facet.column,
                )
                for benchmark in sorted({str(row["benchmark"]) for row in rows})
                for facet in find_benchmark(benchmark).shown_facets[:1]
            }
        scores = Markdown(markdown_table(score_rows(rows), SCORE_TITLES)) if rows else None
        path = self.project.store.warehouse
        return {"scores": scores, "path": path, "evaluations": len(rows), **charts}


class ReportPage(stages.SharedStage):
    """The results as one HTML page that works offline."""

    name = "report_page"
    description = "The results of all evaluations as one self-contained HTML page."
    shared_upstream = ("warehouse",)
    kinds = frozenset({"html"})
    code_version = "11"  # raise it when the page shows the same data in another way

    @property
    def path(self) -> UPath:
        return UPath(self.project.store.report())

    def fingerprint_over(self, results: Results) -> str:
        """The page also shows findings of nightly runs, and the texts of prompts and responses.

        If the file of a text was lost, the page becomes stale once the file is rebuilt, although
        the scores do not change.
        """
        texts = [
            str(len(scores.files(stage)))
            for scores in results.scores()
            for stage in ("prompts", "responses")
        ]
        findings = map(str, map(self._named, results.store.variant_files("findings")))
        return text_fingerprint(super().fingerprint_over(results), *findings, *texts)

    def target(self, partition: Partition) -> stages.Target:
        warehouse = Warehouse(self.project).fingerprint(partition)
        return replace(super().target(partition), inputs={"warehouse": warehouse})

    def build(self, targets: stages.Targets) -> stages.BuildEvents:
        (target,) = targets
        with writing(self.path):  # a file is not taken for damaged if its writer is killed
            self.signature.unlink(missing_ok=True)
        try:
            left_out = self._write(Path(str(self.path)))
        except VideoMMEError as error:
            yield stages.BuildFailure(partition=target.partition, reason=str(error))
            return
        if not left_out:
            self.sign(target)
        yield stages.BuildResult(target=target, facts=self.facts(target), incomplete=bool(left_out))
        if left_out:
            reason = f"the page is incomplete: {'; '.join(left_out)}"
            yield stages.BuildFailure(partition=target.partition, reason=reason)

    def facts(self, target: stages.Target) -> Facts:  # noqa: ARG002
        page = Path(str(self.path)).resolve()
        return {"path": page, "bytes": page.stat().st_size}

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
                write_page(self.project.store, path)
            except DamagedFileError as error:
                if str(error) in left_out:  # it could not be set aside
                    raise
                left_out.append(str(error))
            else:
                return left_out
