"""Size of the results page, time to build it, and time to open it in Chromium.

    python -m perf.report [--quick] [--json]

The page shows two, four and ten made-up evaluations of the size of Video-MME (900 videos, 2,700
questions with prompts, responses and subtitle lines). Browser times are medians of five visits
without a network. A key of a search costs the CPU time of the page's main thread, which does not
depend on the load of the machine, until the results are laid out. For comparison, the same four
breakdown charts as an Altair page with Vega inlined.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.browser import CHROMIUM_FLAGS
from tests.support.made_up_results import (
    MadeUpEvaluation,
    store_evaluation,
    store_questions,
    v1_questions,
)
from videomme_pipeline.reports.charts import breakdown_chart
from videomme_pipeline.reports.page import write_page
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.warehouse.database import connect

VISITS = 5
EVALUATIONS = (
    MadeUpEvaluation(name="model-a", skill=0.62),
    MadeUpEvaluation(name="model-a-subtitles", skill=0.67, subtitles="window"),
    MadeUpEvaluation(name="model-b", model="model-b", skill=0.7),
    MadeUpEvaluation(name="blind", sampling="none", skill=0.4),
    *(MadeUpEvaluation(name=f"model-{n}", model=f"model-{n}", skill=n / 20) for n in range(10, 16)),
)
PAGES = (2, 4, 10)
KEYS = ("g", "gr", "gre", "gree", "green", "gree", "g", "", "t", "th", "the")
"""Contents of the search field, key by key."""
CHARTS = ("duration", "domain", "sub_category", "task_type")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="12 videos instead of 900, one visit")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result = measure(*(12, 1) if arguments.quick else (900, VISITS))
    for name, value in result.items():
        print(f"{name:44} {value}")
    if arguments.json:
        print(json.dumps(result))


def measure(videos: int, visits: int) -> dict[str, Any]:
    """All figures for a benchmark with this number of videos, from medians of `visits` visits."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("Chromium is needed (`apt-get install chromium`)")
    result: dict[str, Any] = {"videos": videos, "questions": 3 * videos}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        store = Store.at(Path(folder) / "data")
        questions = v1_questions(videos)
        store_questions(store, questions)
        for number, evaluation in enumerate(EVALUATIONS, start=1):
            store_evaluation(store, questions, evaluation)
            if number in PAGES:
                name = f"page_of_{number}"
                result |= page_figures(name, store, Path(folder) / f"{name}.html", browser, visits)
        result |= altair_figures(store, Path(folder) / "altair.html", browser)
        browser.close()
    return result


def page_figures(
    name: str, store: Store, path: Path, browser: Browser, visits: int
) -> dict[str, Any]:
    """Size, time to build, time to open, and time to draw each view."""
    connect(store).close()  # do not measure building the DuckDB file
    wall, cpu = time.perf_counter(), time.process_time()
    write_page(store, path)
    build = {
        f"{name}_megabytes": round(path.stat().st_size / 1e6, 2),
        f"{name}_build_seconds": round(time.perf_counter() - wall, 1),
        f"{name}_build_cpu_seconds": round(time.process_time() - cpu, 1),
    }
    times = [visit(browser, path) for _ in range(visits)]
    return build | {
        f"{name}_{key}_ms": round(statistics.median(seen[key] for seen in times))
        for key in times[0]
    }


def visit(browser: Browser, path: Path) -> dict[str, float]:
    """Milliseconds from the start of navigation to each stage, and to draw each view after that."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=texts]", state="attached", timeout=60_000)
    times: dict[str, float] = page.evaluate(
        """() => {
            const mark = name => performance.getEntriesByName(name)[0].startTime;
            const load = performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd;
            return {parsed: load, numbers: mark("numbers"), texts: mark("texts")};
        }"""
    )
    times["opens_after_load"] = times["numbers"] - times["parsed"]
    for view in ("breakdowns", "questions", "compare"):
        times[view] = page.evaluate(
            """view => new Promise(done => {
                const start = performance.now();
                addEventListener("hashchange", () => requestAnimationFrame(
                    () => done(performance.now() - start)), {once: true});
                location.hash = view;
            })""",
            view,
        )
    page.evaluate("location.hash = 'questions'")
    page.wait_for_selector("#search")
    keys = search_keys(page)
    times |= {"search_key_median_cpu": statistics.median(keys), "search_key_most_cpu": max(keys)}
    context.close()
    return times


def search_keys(page: Page) -> list[float]:
    """CPU milliseconds of the main thread for each of `KEYS`, until the results are laid out."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        seconds: float = next(
            metric["value"] for metric in metrics if metric["name"] == "TaskDuration"
        )
        return 1_000 * seconds

    spent = []
    for text in KEYS:
        before = busy()
        page.evaluate(
            """text => {
                const search = document.getElementById("search");
                search.value = text;
                search.dispatchEvent(new Event("input", {bubbles: true}));
                document.body.getBoundingClientRect();
            }""",
            text,
        )
        spent.append(busy() - before)
    return spent


def altair_figures(store: Store, path: Path, browser: Browser) -> dict[str, Any]:
    """Size and drawing time of the same four charts as a page of Altair with Vega inlined."""
    with connect(store) as connection:
        charts = [breakdown_chart(connection, "videomme", column) for column in CHARTS]
    altair.vconcat(*charts).save(path, inline=True)

    def drawn() -> float:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        page = context.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("canvas, svg.marks", timeout=60_000)
        elapsed: float = page.evaluate("performance.now()")
        context.close()
        return elapsed

    return {
        "altair_four_charts_megabytes": round(path.stat().st_size / 1e6, 2),
        "altair_four_charts_drawn_ms": round(median_of(drawn)),
    }


def median_of(once: Callable[[], float], rounds: int = VISITS) -> float:
    values: Sequence[float] = [once() for _ in range(rounds)]
    return statistics.median(values)


if __name__ == "__main__":
    main()
