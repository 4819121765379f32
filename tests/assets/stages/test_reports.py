"""The results page as an asset."""

from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import WHOLE
from videomme_pipeline.stages.shared import ReportPage


def test_texts_that_are_missing_and_rebuilt_make_the_page_stale(project: Project) -> None:
    page = ReportPage(project)
    complete = page.target(WHOLE).fingerprint
    for kind in ("prompts", "responses"):
        file = project.store.variant_files(kind)[0]
        aside = file.rename(file.with_name("aside"))
        assert page.target(WHOLE).fingerprint != complete
        aside.rename(file)
        assert page.target(WHOLE).fingerprint == complete
