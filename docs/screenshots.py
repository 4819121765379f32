"""Screenshots of the results page for the docs.

    python -m docs.screenshots DATA [--folder docs/img]

Opens the page of a smoke benchmark in the data folder `DATA` in Chromium and saves one image per
view. Content of Video-MME must not be published, so the folder may have smoke benchmarks only.
"""

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from tests.support.page_server import running_page
from videomme_pipeline.storage.layout import Store

PUBLIC_BENCHMARKS = ("smoke", "smoke_v2")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One screenshot: its file name, the fragment of its URL, and the window."""

    name: str
    address: str
    width: int = 1280
    height: int = 960
    scheme: Literal["light", "dark"] = "light"


SHOTS = (
    Shot(name="report", address="leaderboard", width=1440, height=1000),
    Shot(name="report-breakdowns", address="breakdowns"),
    Shot(
        name="report-question",
        address="question?id={question}&show=smoke-embedded-subtitles,smoke-embedded",
        height=1250,
    ),
    Shot(name="report-compare", address="compare", scheme="dark"),
    Shot(name="report-phone", address="leaderboard", width=390, height=844),
)
HISTORY = Shot(name="report-history", address="history")
"""Needs nightly runs: `docs.screenshots_ui` takes it."""


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the data folder")
    parser.add_argument("--folder", type=Path, default=Path("docs/img"))
    parser.add_argument("--question", default="001-1", help="the question to open")
    arguments = parser.parse_args()
    path = chromium_path()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    store = Store.at(arguments.data)
    if private := set(store.benchmarks()).difference(PUBLIC_BENCHMARKS):
        raise SystemExit(f"Only smoke benchmarks may be shown, and not {', '.join(private)}")
    with running_page(store) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for shot in SHOTS:
            address = shot.address.format(question=arguments.question)
            take(browser, f"{server.url}#{address}", shot, arguments.folder)
        browser.close()


def chromium_path() -> str:
    """The installed Chromium. Raises SystemExit if there is none."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("Chromium is needed (`apt-get install chromium`)")
    return path


def project_parser(description: str | None) -> argparse.ArgumentParser:
    """The options of a script that takes screenshots of a project of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--media", type=Path, help="folder with smoke videos, to save drawing them")
    parser.add_argument("--folder", type=Path, default=Path("docs/img"))
    return parser


def take(browser: Browser, url: str, shot: Shot, folder: Path) -> None:
    """Save one screenshot in `folder`."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.scheme,
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("html[data-ready=texts]", state="attached")
    page.screenshot(path=folder / f"{shot.name}.png")
    context.close()


if __name__ == "__main__":
    main()
