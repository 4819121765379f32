"""Chromium without a network, and pages built from made-up stores."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.support.browser import CHROMIUM_FLAGS, Visit
from tests.support.made_up_results import (
    EVALUATIONS,
    HOSTILE,
    HOSTILE_NAMES,
    MadeUpEvaluation,
    store_evaluation,
    store_frames,
    store_nightly_run,
    store_questions,
    v1_questions,
    v2_questions,
)
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.reports.page import write_page
from videomme_pipeline.scoring.nightly.assess import NightlyFinding
from videomme_pipeline.scoring.nightly.policy import RULE_VERSION, NightlyCheck, Severity
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import write_rows

NIGHTLY_DATES = ("2026-11-18", "2026-11-19", "2026-11-20")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The installed Chromium."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed (`apt-get install chromium`)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    yield context
    context.close()


@pytest.fixture
def visit(context: BrowserContext) -> Iterator[Visit]:
    """A visit that fails on console messages, page errors and requests for other files."""
    visit = Visit(context.new_page())
    visit.page.on("console", lambda m: visit.problems.append(f"{m.type}: {m.text}"))
    visit.page.on("pageerror", lambda error: visit.problems.append(str(error)))
    visit.page.on("dialog", lambda dialog: visit.problems.append(f"dialog: {dialog.message}"))
    visit.page.on("request", lambda request: visit.requests.append(request.url))
    yield visit
    assert visit.problems == []
    assert [url for url in visit.requests if not url.startswith(("file:", "about:"))] == []


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Small versions of both benchmarks: 15 videos of Video-MME and 12 groups of Video-MME-v2."""
    store = Store.at(tmp_path_factory.mktemp("store"))
    questions = v1_questions(15)
    store_questions(store, questions)
    for evaluation in EVALUATIONS:
        store_evaluation(store, questions, evaluation)
    for date in NIGHTLY_DATES:
        store_nightly_run(store, questions, EVALUATIONS[0], date)
    for question in questions[:6:3]:
        store_frames(store, question, "uniform_n-8")
    groups = v2_questions(12)
    store_questions(store, groups)
    for evaluation in (
        MadeUpEvaluation(name="groups-a", skill=0.8),
        MadeUpEvaluation(name="groups-b", skill=0.7, subtitles="concat"),
    ):
        store_evaluation(store, groups, evaluation)
    return store


@pytest.fixture(scope="session")
def page_file(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `store`."""
    return write_page(store, tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="session")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a few elements of each kind."""
    store = Store.at(tmp_path_factory.mktemp("small"))
    questions = v1_questions(2, benchmark="smoke")
    store_questions(store, questions)
    for evaluation in EVALUATIONS:
        store_evaluation(store, questions, evaluation)
    return write_page(store, tmp_path_factory.mktemp("page") / "small.html")


@pytest.fixture(scope="session")
def shared_file(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(store, tmp_path_factory.mktemp("page") / "shared.html", share=True)


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store where every untrusted text is markup, a script or a formula."""
    store = Store.at(tmp_path_factory.mktemp("hostile"))
    questions = [
        replace(
            question,
            question=HOSTILE[number],
            options=tuple(f"{letter}. {HOSTILE[number][:300]}" for letter in "ABCD"),
            facets=Facets(
                {
                    **question.facets,
                    "domain": HOSTILE[0],
                    "sub_category": HOSTILE[7],
                    "task_type": HOSTILE[2],
                }
            ),
        )
        for number, question in enumerate(v1_questions(3)[: len(HOSTILE)])
    ]
    store_questions(store, questions)
    responses = dict(zip((question.question_id for question in questions), HOSTILE, strict=True))
    for name in HOSTILE_NAMES:
        evaluation = MadeUpEvaluation(
            name=name,
            model=HOSTILE[2],
            responses=responses,
            subtitles="window",
            reasoning=HOSTILE[3],
        )
        store_evaluation(store, questions, evaluation, line=HOSTILE[1])
    failed = dict.fromkeys(responses)
    down = MadeUpEvaluation(name="down", responses=failed, error=HOSTILE[0], reasoning=HOSTILE[2])
    store_evaluation(store, questions, down)
    store_nightly_run(store, questions, replace(evaluation, responses={}), "2026-11-20")
    findings = [
        NightlyFinding(
            check=NightlyCheck.ACCURACY,
            severity=Severity.ERROR,
            passed=False,
            is_new=True,
            summary=HOSTILE[2],
            rule_version=RULE_VERSION,
        )
    ]
    path = store.findings("videomme", evaluation.name, "2026-11-20")
    write_rows(path, findings, NightlyFinding, fingerprint="made-up")
    return store


@pytest.fixture(scope="session")
def hostile_file(hostile_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(hostile_store, tmp_path_factory.mktemp("page") / "hostile.html")
