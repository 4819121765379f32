"""Screenshots of the Dagster UI for the docs, from a project that this script runs.

    python -m docs.screenshots_ui [--media DATA/smoke/media] [--folder docs/img]

Creates a smoke project in a temporary folder (with the videos of `--media`, or drawing them), runs
a reference and five nightly runs against a local model server, and starts `videomme ui`. It edits
an evaluation and brings it up to date from the check `up_to_date`. Then the model becomes worse and
a schedule that ticks every minute starts the sixth nightly run, whose check fails. At last the
script adds a sampling to samplings.yaml, reloads the definitions and backfills it. The history of
the results page is taken from the same project. Only the smoke benchmark is shown.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import yaml
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from docs.screenshots import FLAGS, HISTORY, chromium_path, project_parser, take
from tests.support.model_server import ModelServer
from tests.support.page_server import running_page
from tests.support.ports import free_port
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.run import refresh_project, run_nightly
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.project.project import open_project
from videomme_pipeline.storage.layout import Store

EVALUATION = "served-16"
LONGEST = {"benchmark": "smoke", "model": "longest-option", "sampling": "uniform_n-16"}
NIGHTLY_RUNS = 5
WINDOW: ViewportSize = {"width": 1280, "height": 800}
GRAPH_WINDOW: ViewportSize = {"width": 1440, "height": 640}
NEW_SAMPLING = "keyframe-8"
STARTS_WITHIN_SECONDS = 300
ENDS_WITHIN_SECONDS = 600


class Model:
    """Answers 97% of the questions correctly, or 30% when `broken`."""

    def __init__(self) -> None:
        self.questions: Sequence[Question] = ()
        self.broken = False
        self._draw = random.Random(7)

    def __call__(self, prompt: str) -> str:
        asked = [question for question in self.questions if question.question in prompt]
        right = self._draw.random() < (0.3 if self.broken else 0.97)
        return asked[0].answer.value if asked and right else "A"


def write_project(folder: Path, url: str) -> None:
    """Write a configuration with one evaluation that is tracked every night."""
    (folder / "evaluations").mkdir(parents=True)
    files = {
        "benchmarks.yaml": {"smoke": None},
        "models.yaml": {"served": {"base_url": url, "profile": "generic"}},
        "samplings.yaml": {},
        f"evaluations/{EVALUATION}.yaml": {
            "benchmark": "smoke",
            "model": "served",
            "sampling": "uniform_n-16",
            "subtitles": "window-500",
        },
        "evaluations/longest.yaml": LONGEST,
    }
    for name, value in files.items():
        (folder / name).write_text(yaml.safe_dump(value))
    track(folder, cron="0 2 * * *")


def track(folder: Path, cron: str) -> None:
    """Write nightly.yaml: the evaluation is run again at the times of `cron`."""
    since = datetime.now(UTC).date() - timedelta(days=NIGHTLY_RUNS)
    value = {"since": since.isoformat(), "cron": cron, "evaluations": {EVALUATION: {}}}
    (folder / "nightly.yaml").write_text(yaml.safe_dump(value))


def build_history(model: Model, instance: dg.DagsterInstance) -> None:
    """Run the reference and nightly runs of the days before today."""
    project = open_project()
    benchmark = project.benchmarks["smoke"]
    refresh_project(project, instance, ["longest"])
    model.questions = [q for questions in benchmark.snapshot.questions.values() for q in questions]
    assert refresh_project(project, instance, [EVALUATION]).not_fresh == []
    today = datetime.now(UTC).date()
    for days in range(NIGHTLY_RUNS, 0, -1):
        run_nightly(project, instance, [EVALUATION], (today - timedelta(days=days)).isoformat())


@contextmanager
def running_ui() -> Iterator[str]:
    """URL of a running `videomme ui`, which is stopped on exit."""
    port = free_port()
    videomme = Path(sys.executable).with_name("videomme")
    process = subprocess.Popen([videomme, "ui", "--port", str(port)])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def take_screenshots(page: Page, url: str, root: Path, folder: Path, model: Model) -> None:
    """Click through the UI and save one image per view."""
    configuration = root / "configuration"
    nightly = f"{url}/assets/smoke/nightly_runs/{EVALUATION}"
    groups = f"{url}/locations/videomme/asset-groups"
    partitions = f"{url}/assets/smoke/frames?view=partitions"

    def shot(name: str) -> None:
        page.wait_for_timeout(2_000)
        page.screenshot(path=folder / f"{name}.png")

    def shot_of_graph(name: str, group: str) -> None:
        page.set_viewport_size(GRAPH_WINDOW)
        page.goto(f"{groups}/{group}/lineage")
        expect(page.get_by_text("scores").first).to_be_visible(timeout=60_000)
        page.wait_for_timeout(10_000)  # the colors of the assets arrive later
        shot(name)
        page.set_viewport_size(WINDOW)

    shot_of_graph("graph", "smoke")
    wait_for(page, f"{partitions}&partition=uniform_n-16%7C004", "contact_sheet")
    shot("partition")

    bring_up_to_date(page, url, configuration, shot)

    model.broken = True
    track(configuration, cron="* * * * *")
    reload_definitions(page, url)
    wait_for(page, f"{nightly}?view=checks&checkDetail=accuracy", "This is a real change")
    page.goto(f"{url}/locations/videomme/schedules/nightly")
    expect(page.get_by_text("1 run requested").first).to_be_visible(timeout=60_000)
    shot("nightly-ticks")
    track(configuration, cron="0 2 * * *")
    reload_definitions(page, url)
    wait_until_idle()
    wait_for(page, f"{nightly}?view=checks&checkDetail=accuracy", "This is a real change")
    shot("nightly-check")
    shot_of_graph("nightly-graph", "smoke_nightly")

    backfill_a_sampling(page, url, configuration, shot)

    change_a_video(root)
    wait_for(page, f"{partitions}&partition=uniform_n-16%7C004", "Unsynced")
    expect(page.get_by_text("contact_sheet")).to_be_visible(timeout=60_000)
    shot("partition-unsynced")


def bring_up_to_date(
    page: Page, url: str, configuration: Path, shot: Callable[[str], None]
) -> None:
    """Edit an evaluation, and bring it up to date from the check that shows this."""
    longest = configuration / "evaluations" / "longest.yaml"
    longest.write_text(yaml.safe_dump(LONGEST | {"prompt": "lmms_eval"}))
    check = f"{url}/assets/smoke/prompts?view=checks&checkDetail=up_to_date"
    wait_for(page, check, "24 of 48 not fresh")
    shot("up-to-date")
    link = page.get_by_role("link", name=f"{url}/locations/videomme/jobs/refresh_stale")
    page.goto(link.get_attribute("href") or url)  # a click opens another tab
    expect(page.get_by_role("button", name="Launch Run")).to_be_enabled(timeout=60_000)
    page.get_by_role("button", name="Launch Run").click()
    wait_for(page, check, "48 fresh")


def backfill_a_sampling(
    page: Page, url: str, configuration: Path, shot: Callable[[str], None]
) -> None:
    """Add a sampling, and backfill it for all videos."""
    partitions = f"{url}/assets/smoke/frames?view=partitions"
    sampling = {"smoke": [{"strategy": "keyframe", "frames": 8}]}
    (configuration / "samplings.yaml").write_text(yaml.safe_dump(sampling))
    reload_definitions(page, url)
    wait_for(page, partitions, NEW_SAMPLING)
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Select a partition or create one").first.click()
    page.get_by_text(NEW_SAMPLING).locator("visible=true").last.click()
    dialog.get_by_text("Launch runs to materialize").click()
    dialog.get_by_role("button", name="All", exact=True).last.click()
    dialog.get_by_role("button", name="Launch backfill").click()
    wait_for(page, f"{partitions}&partition={NEW_SAMPLING}%7C004", "Materialized (48)")
    wait_for(page, f"{partitions}&partition={NEW_SAMPLING}%7C004", "contact_sheet")
    shot("backfill-done")


def reload_definitions(page: Page, url: str) -> None:
    """Load the configuration again, as a user does in the UI."""
    page.goto(f"{url}/asset-groups")
    page.get_by_role("button", name="Reload definitions").click()
    expect(page.get_by_text("Definitions reloaded!")).to_be_visible(timeout=120_000)


def wait_until_idle() -> None:
    """Wait until no run is in progress."""
    status = dg.DagsterRunStatus
    unfinished = dg.RunsFilter(
        statuses=[status.NOT_STARTED, status.QUEUED, status.STARTING, status.STARTED]
    )
    with open_instance() as instance:
        while instance.get_runs_count(unfinished):
            time.sleep(1)


def wait_for(page: Page, address: str, text: str) -> None:
    """Reload `address` until it shows `text`."""
    ends = time.monotonic() + ENDS_WITHIN_SECONDS
    while True:
        page.goto(address)
        try:
            expect(page.get_by_text(text).first).to_be_visible(timeout=10_000)
        except AssertionError:
            if time.monotonic() > ends:
                raise
        else:
            return


def change_a_video(root: Path) -> None:
    """Change the bytes of video 004 and materialize only its row."""
    video = next((root / "data" / "smoke" / "media").glob("*-0004.mp4"))
    video.write_bytes(video.read_bytes() + (8).to_bytes(4) + b"free")
    with open_instance() as instance:
        job = build_definitions(open_project()).resolve_implicit_global_asset_job_def()
        job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["smoke", "videos"])],
            partition_key="004",
        )


def main() -> None:
    """Create the project, run it and save the screenshots."""
    arguments, chromium = project_parser(__doc__).parse_args(), chromium_path()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    model = Model()
    with tempfile.TemporaryDirectory() as scratch, ModelServer(answer=model) as server:
        root = Path(scratch)
        os.environ["VIDEOMME_CONFIGURATION"] = str(root / "configuration")
        os.environ["VIDEOMME_DATA"] = str(root / "data")
        os.environ["DAGSTER_HOME"] = str(root / "home")
        write_project(root / "configuration", server.base_url)
        if arguments.media:
            shutil.copytree(arguments.media, root / "data" / "smoke" / "media")
        with open_instance() as instance:
            build_history(model, instance)
        (root / "configuration" / "nightly.yaml").unlink()
        with running_ui() as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page(viewport=WINDOW)
            wait_until_up(page, url)
            take_screenshots(page, url, root, arguments.folder, model)
            with running_page(Store.at(root / "data")) as report:
                address = f"{report.url}#{HISTORY.address}"
                take(browser, address, HISTORY, arguments.folder)
            browser.close()


def wait_until_up(page: Page, url: str) -> None:
    """Open `url` as soon as the server answers."""
    ends = time.monotonic() + STARTS_WITHIN_SECONDS
    while True:
        try:
            page.goto(url)
        except PlaywrightError:
            if time.monotonic() > ends:
                raise
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main()
