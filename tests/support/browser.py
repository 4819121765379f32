"""Start Chromium and open pages in it, for tests and measurements."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def seconds_to_open(page: Page, address: str, text: str) -> float:
    """Open `address`, and return the time until it shows `text` and has its last answer."""
    answered: list[float] = []
    page.on("requestfinished", lambda _: answered.append(time.perf_counter()))
    began = time.perf_counter()
    page.goto(address)
    page.get_by_text(text).first.wait_for()
    shown = time.perf_counter()
    page.wait_for_load_state("networkidle")  # half a second after the last answer
    return max(shown, *answered) - began


@dataclass
class Visit:
    """One open page, with its problems and requests."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, file: Path, address: str = "") -> Page:
        """Open `file` at `#address` and wait until its texts are loaded."""
        self.page.goto("about:blank")
        self.page.goto(f"{file.as_uri()}#{address}" if address else file.as_uri())
        self.page.wait_for_selector("html[data-ready=texts]", state="attached", timeout=10_000)
        return self.page

    def turn(self, address: str) -> Page:
        """Follow a link within the open page.

        This waits with a promise, since Playwright's wait functions evaluate strings, which the
        page's content security policy forbids.
        """
        self.page.evaluate(
            """address => new Promise((done, fail) => {
                setTimeout(fail, 10_000, `#${address} was not drawn`);
                location.hash = address;
                const wait = () => document.documentElement.dataset.shown === location.hash
                    ? done() : setTimeout(wait, 5);
                wait();
            })""",
            address,
        )
        return self.page
