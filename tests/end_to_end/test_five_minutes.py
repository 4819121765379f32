"""The page `five-minutes.md`, clicked in Chromium in a demo with two videos."""

import shutil
from pathlib import Path

import dagster as dg
import pytest
import yaml
from playwright.sync_api import sync_playwright

from docs.screenshots_demo import NIGHTS, WINDOW, Visitor, frame_files, three_uses
from tests.support.browser import CHROMIUM_FLAGS
from tests.support.dagster_ui import running_ui
from tests.support.paths import ROOT
from videomme_pipeline.evaluation.writing import write_project

VIDEOS = ["002", "004"]


def test_the_page_has_the_command_of_the_nightly_runs() -> None:
    page = (ROOT / "docs" / "five-minutes.md").read_text(encoding="utf-8")
    assert f"videomme {' '.join(NIGHTS)}" in page


@pytest.mark.slow
def test_the_three_uses_are_at_most_twenty_clicks_by_labels(tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed (`apt-get install chromium`)")
    configuration = tmp_path / "configuration"
    write_project(tmp_path, configuration, demo=True)
    (configuration / "benchmarks.yaml").write_text(yaml.safe_dump({"smoke": {"videos": VIDEOS}}))
    for file in (configuration / "evaluations").glob("smoke_v2-*"):
        file.unlink()
    with running_ui(tmp_path) as ui, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        visitor = Visitor(browser.new_page(viewport=WINDOW), tmp_path)
        three_uses(visitor, ui.url, tmp_path)
        browser.close()
        assert visitor.clicks <= 20
        assert "<html" in ui.results_page()
    assert frame_files(tmp_path) == 2 * len(VIDEOS)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        (state,) = [s for s in instance.all_instigator_state() if s.instigator_name == "nightly"]
        assert state.is_running
    log = (tmp_path / "ui.log").read_text(encoding="utf-8")
    assert "DEBUG" not in log
