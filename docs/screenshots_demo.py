"""Screenshots of the page `five-minutes.md`: the three uses of the Dagster UI, in the demo.

    python -m docs.screenshots_demo [--media DATA/smoke/media] [--folder docs/img]

Writes the demo into a temporary folder (with the videos of `--media`, or drawing them), starts
`videomme ui` and clicks what the page says, by the labels that a person sees. A test does the same
with two videos.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from playwright.sync_api import Locator, Page, ViewportSize, expect, sync_playwright

from docs.screenshots import chromium_path, project_parser
from tests.support.browser import CHROMIUM_FLAGS
from tests.support.commands import VIDEOMME, environment_of, runs_of
from tests.support.dagster_ui import running_ui, wait_until
from tests.support.paths import ROOT
from videomme_pipeline.evaluation.writing import write_project
from videomme_pipeline.storage.layout import Store

WINDOW: ViewportSize = {"width": 1280, "height": 720}
NIGHTS = ("nightly", "--date", "2026-11-26", "--date", "2026-11-27")
BUILT_WITHIN_SECONDS = 600.0


@dataclass
class Visitor:
    """A person with a mouse, who takes screenshots. `clicks` counts the clicks."""

    page: Page
    folder: Path
    clicks: int = 0

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def open(self, *links: str) -> None:
        """Click links one after the other. The first one is in the navigation."""
        for link in links:
            self.click(self.page.get_by_role("link", name=link).first)

    def take(self, name: str) -> None:
        self.page.wait_for_timeout(2_000)  # until pictures and colors are drawn
        picture = self.folder / f"{name}.png"
        self.page.screenshot(path=picture)
        _compress(picture)


def frame_files(root: Path) -> int:
    """The number of files with frames."""
    return len(list(Store.at(root / "data").files("frames")))


def _compress(picture: Path) -> None:
    """Store a screenshot with 128 colors, which has half of the bytes."""
    from PIL import Image  # noqa: PLC0415 - only for screenshots

    with Image.open(picture) as image:
        image.quantize(128).save(picture, optimize=True)


def three_uses(visitor: Visitor, url: str, root: Path) -> None:
    """Build everything, turn the schedule on, and backfill a sampling that no evaluation uses.

    `root` has the demo, and the UI at `url` shows it.
    """
    page = visitor.page
    page.goto(url)
    visitor.open("Jobs", "refresh_stale")
    visitor.click(page.get_by_text("Launchpad", exact=True).first)
    expect(page.get_by_text("No errors")).to_be_visible()
    visitor.take("demo-launchpad")
    visitor.click(page.get_by_role("button", name="Launch Run"))
    page.wait_for_url("**/runs/*")
    run_id = page.url.partition("?")[0].rpartition("/")[2]
    wait_until(lambda: runs_of(root)[run_id] is dg.DagsterRunStatus.SUCCESS, BUILT_WITHIN_SECONDS)

    environment = os.environ | environment_of(root)
    subprocess.run([VIDEOMME, *NIGHTS], env=environment, cwd=ROOT, check=True)
    page.goto(
        f"{url}/assets/smoke/nightly_runs/smoke-embedded?view=partitions&partition=2026-11-27"
    )
    expect(page.get_by_text("failed_checks").first).to_be_visible(timeout=60_000)
    visitor.take("demo-nightly")

    visitor.open("Automation", "nightly")
    switch = page.get_by_role("row", name="Running").get_by_role("checkbox")
    visitor.click(switch.locator("xpath=.."))
    expect(switch).to_be_checked()
    visitor.take("demo-schedule")

    visitor.open("Catalog", "smoke / frames")
    visitor.click(page.get_by_role("button", name="Materialize"))
    dialog = page.get_by_role("dialog")
    for number in range(2):
        visitor.click(dialog.get_by_role("button", name="All", exact=True).nth(number))
    visitor.click(dialog.get_by_text("Backfill only failed and missing partitions"))
    visitor.take("demo-backfill")
    before = frame_files(root)
    visitor.click(dialog.get_by_role("button", name="Launch backfill"))
    wait_until(lambda: frame_files(root) > before, BUILT_WITHIN_SECONDS)
    finished = {dg.DagsterRunStatus.SUCCESS}
    wait_until(lambda: finished.issuperset(runs_of(root).values()), BUILT_WITHIN_SECONDS)


def main() -> None:
    """Write the demo and take the screenshots."""
    arguments, chromium = project_parser(__doc__).parse_args(), chromium_path()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        root = Path(scratch)
        write_project(root, root / "configuration", demo=True)
        if arguments.media:
            shutil.copytree(arguments.media, root / "data" / "smoke" / "media")
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        visitor = Visitor(browser.new_page(viewport=WINDOW), arguments.folder)
        with running_ui(root) as ui:
            three_uses(visitor, ui.url, root)
        browser.close()


if __name__ == "__main__":
    main()
