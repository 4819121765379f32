"""The page in Chromium without a network."""

import csv
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser import Visit
from tests.support.made_up_results import (
    HOSTILE,
    HOSTILE_NAMES,
    MadeUpEvaluation,
    store_checkpoint,
    store_evaluation,
    store_nightly_run,
    store_questions,
    store_race,
    v1_questions,
    v2_questions,
)
from tests.support.stored_files import made_up_file, show_made_up, stored_file, write_made_up
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.reports.page import write_page
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.scoring.verdicts import CheckpointOutcome
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect

VIEWS = ("leaderboard", "breakdowns", "questions", "compare", "history", "question?id=001-1")


def table_rows(page: Page, name: str) -> list[list[str]]:
    """Visible text of the cells of the table under the heading `name`, once it is drawn."""
    table = page.locator(".toolbar", has_text=name).first.locator("xpath=following::table[1]")
    table.wait_for()
    rows = table.locator("tbody tr:not(.group, .folded, .published)")
    texts: list[list[str]] = rows.evaluate_all(
        "rows => rows.map(row => [...row.cells].map(c => c.innerText))"
    )
    return texts


def view_rows(store: Store, select: str) -> list[tuple[Any, ...]]:
    """Rows of a query on the DuckDB file."""
    with connect(store) as connection:
        return connection.execute(select).fetchall()


def scored(store: Store, evaluation: str) -> list[ScoredQuestion]:
    return read_rows(stored_file(store, "scores", "videomme", evaluation), ScoredQuestion)


def test_every_view_opens_without_console_messages(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file)
    for view in VIEWS:
        visit.turn(view)
        expect(page.locator("main table, main .options").first).to_be_visible()
    assert [url.split("#")[0] for url in visit.requests if url != "about:blank"] == [
        page_file.as_uri()
    ]


def test_the_leaderboard_equals_its_view_best_of_each_track_first(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    expected = view_rows(
        store,
        "select evaluation, printf('%s%.1f', if(failed > 0, '≥ ', ''), 100 * accuracy) "
        "from leaderboard where benchmark = 'videomme' order by track desc, accuracy desc",
    )
    shown = [(row[0].split("\n")[0], row[2].split("\n")[0]) for row in table_rows(page, "Evalu")]
    assert shown == expected


def test_the_leaderboard_sorts_by_any_column(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file)
    board = page.get_by_role("region", name="Evaluations", exact=True)
    head = board.get_by_role("columnheader", name="Evaluation")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    names = [row[0].split("\n")[0] for row in table_rows(page, "Evaluations")]
    assert names == ["blind", "model-a", "model-a-32", "model-b", "model-a-subtitles"]
    assert page.url.endswith("sort=name")


def test_the_leaderboard_filters_by_words_and_track(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file)
    page.get_by_label("Filter").fill("model-a uniform")
    assert {row[0].split("\n")[0] for row in table_rows(page, "Evaluations")} == {
        *("model-a", "model-a-32", "model-a-subtitles"),
    }
    page.get_by_role("combobox", name="Subtitles").select_option("with")
    assert {row[0].split("\n")[0] for row in table_rows(page, "Evaluations")} == {
        "model-a-subtitles"
    }


def test_each_score_has_tokens_cost_latency_and_cached_share(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    [(cached, cost, p50, p95)] = view_rows(
        store,
        "select cached_tokens / prompt_tokens, cost_dollars, latency_p50_seconds, "
        "latency_p95_seconds from leaderboard where evaluation = 'model-b'",
    )
    row = " ".join(next(r for r in table_rows(page, "Evaluations") if r[0].startswith("model-b")))
    assert f"{100 * cached:.0f}% cached" in row
    assert f"${cost:.4f}" in row
    assert f"{p50:.2f} s" in row
    assert f"p95 {p95:.2f} s" in row


def test_the_leaderboard_shows_what_blocks_a_citation(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    expected = view_rows(
        store,
        "select evaluation, check_name, summary from citation_findings "
        "where benchmark = 'videomme' and status = 'blocked' order by all",
    )
    rows = table_rows(page, "What to know before citing")
    shown = [(row[0], row[2], row[3]) for row in rows if row[1] == "do not cite"]
    assert expected
    assert sorted(shown) == expected
    expect(page.get_by_text("Do not cite", exact=False).first).to_be_visible()
    visit.open(page_file, "compare?a=model-a&b=model-b")
    expect(page.locator(".notice", has_text="Do not cite this comparison")).to_be_visible()


def test_published_results_are_separate_rows(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file)
    rows = page.get_by_role("region", name="Evaluations", exact=True).locator("tbody tr")
    kinds = rows.evaluate_all("rows => rows.map(row => row.className)")
    own = ["group", "", "", "", "reference", "group", ""]
    assert kinds[:9] == [*own, "group", "published"]
    assert set(kinds[8:]) == {"published"}
    expect(page.get_by_text("Source: Video-MME leaderboard")).to_be_visible()
    page.get_by_label("Filter").fill('"gpt-4o openai"')
    cells = rows.evaluate_all("rows => rows.map(row => [...row.cells].map(c => c.innerText))")
    assert [row[:3] for row in cells[1:]] == [
        ["GPT-4o OpenAI\npublished", "with", "77.2"],
        ["GPT-4o OpenAI\npublished", "none", "71.9"],
    ]
    page.get_by_label("Filter").fill("")
    page.get_by_label("Published results (102)").uncheck()
    expect(rows).to_have_count(len(own))
    assert page.url.endswith("published=hidden")


def test_chance_and_the_best_baseline_are_lines_in_the_charts(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    [(overall,), (short,)] = view_rows(
        store,
        "select accuracy from leaderboard where evaluation = 'blind' union all "
        "select accuracy from by_duration where evaluation = 'blind' and duration = 'short'",
    )
    expect(page.get_by_text("chance 25.0%")).to_be_visible()
    expect(page.get_by_text(f"best baseline (blind) {100 * overall:.1f}%")).to_be_visible()
    positions = "lines => lines.map(line => parseFloat(line.getAttribute('x1')))"
    visit.turn("breakdowns")
    row = page.locator("tr", has=page.get_by_role("link", name="short", exact=True))
    assert row.locator(".reference.chance").evaluate_all(positions) == [25.0]
    assert row.locator(".reference.blind").evaluate_all(positions) == [round(100 * short, 5)]


def test_the_chart_of_the_leaderboard_is_zoomed_to_the_evaluations_and_the_references(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    [(low, high, blind)] = view_rows(
        store,
        "select min(accuracy_low) filter (evaluation <> 'blind'), max(accuracy_high), "
        "max(accuracy) filter (evaluation = 'blind') from leaderboard where benchmark = 'videomme'",
    )
    low = min(low, blind, 0.25)
    low, high = math.floor(20 * low) / 20, math.ceil(20 * high) / 20
    expect(page.get_by_text(f"Chart zoomed to {100 * low:.0f}–{100 * high:.0f}")).to_be_visible()
    [(value, start)] = view_rows(
        store, "select accuracy, accuracy_low from leaderboard where evaluation = 'model-b'"
    )
    row = page.locator("tr", has=page.get_by_role("link", name="model-b", exact=True)).first
    shown = row.locator(".interval").get_attribute("x1"), row.locator("svg svg").get_attribute("x")
    assert [float(text.strip("%")) for text in shown if text] == [
        pytest.approx(100 * (number - low) / (high - low), abs=0.01) for number in (start, value)
    ]


@pytest.mark.parametrize("width", [1440, pytest.param(1024, marks=pytest.mark.slow), 390])
def test_the_leaderboard_fits_the_window(visit: Visit, page_file: Path, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open(page_file)
    board = page.get_by_role("region", name="Evaluations", exact=True)
    assert board.evaluate("frame => frame.scrollWidth - frame.clientWidth") == 0
    unfold = board.get_by_role("button", name="Show")
    assert width == 1440 or unfold.is_visible()
    if unfold.is_visible():
        assert re.fullmatch(r"Show (1 more column|\d+ more columns)", unfold.inner_text())
        unfold.click()
        assert board.evaluate("frame => frame.scrollWidth - frame.clientWidth") == 0
    texts = board.inner_text()
    assert all(name in texts for name in ("Tokens", "Cost", "Latency", "Date", "Outcomes"))


@pytest.mark.parametrize("view", ["questions", "compare", "breakdowns"])
def test_tables_fold_columns_before_they_scroll(visit: Visit, page_file: Path, view: str) -> None:
    visit.page.set_viewport_size({"width": 1024, "height": 900})
    page = visit.open(page_file, f"{view}?show=model-a,model-a-32,model-a-subtitles,model-b")
    frames = page.locator(".table-frame")
    expect(frames.first).to_be_visible()
    assert max(frames.evaluate_all("all => all.map(f => f.scrollWidth - f.clientWidth)")) == 0


def test_every_pair_of_evaluations_is_in_the_matrix(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    rows = table_rows(page, "Wins and losses")
    names = [row[0].partition(" ")[2] for row in rows]
    for name, row in [(names[0], rows[0]), (names[-1], rows[-1])]:
        compared = {other: compare(scored(store, other), scored(store, name)) for other in names}
        for other, cell in zip(names, row[3:], strict=True):
            if other == name:
                assert not cell
                continue
            difference = 100 * compared[other].accuracy.difference.mean
            assert f"{difference:+.1f}".replace("-", "−") in cell
            assert cell.endswith(f"{len(compared[other].won)} : {len(compared[other].lost)}")
            significant = compared[other].accuracy.p_value < 0.05
            assert (cell[0] in "▲▼") == significant
        better = [
            other
            for other in names
            if compared[other].accuracy.p_value < 0.05
            and compared[other].accuracy.difference.mean > 0
        ]
        assert row[1] == str(len(better))


@pytest.mark.slow
def test_a_large_matrix_folds_and_says_what_was_compared(visit: Visit, tmp_path: Path) -> None:
    store, questions = Store.at(tmp_path / "store"), v1_questions(6)
    store_questions(store, questions)
    for number in range(22):
        evaluation = MadeUpEvaluation(name=f"model-{number:02d}", skill=0.3 + 0.03 * number)
        store_evaluation(store, questions, evaluation, texts=False)
    page = visit.open(write_page(store, tmp_path / "page.html"))
    rows = table_rows(page, "Wins and losses")
    assert (len(rows), {len(row) for row in rows}) == (22, {3 + 12})
    assert rows[0][1].partition(" of ")[2] == ""
    assert rows[-1][1].endswith(" of 1")
    expect(page.get_by_text("Only the best 12 have a column. 192 of 231 pairs")).to_be_visible()


def test_the_pareto_line_connects_what_no_cheaper_evaluation_equals(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "leaderboard?price=latency")
    chart = page.get_by_role("img", name="Score and median latency.")
    prices = view_rows(
        store,
        "select evaluation, accuracy, track from leaderboard where benchmark = 'videomme' "
        "and evaluation <> 'blind' order by latency_p50_seconds",
    )
    best = [
        (name, track)
        for number, (name, accuracy, track) in enumerate(prices)
        if all(accuracy > other for _, other, of in prices[:number] if of == track)
    ]
    tracks = {track for _, track in best}
    assert len(tracks) > 1
    expect(chart.locator("line.path")).to_have_count(len(best) - len(tracks))
    expect(chart.locator(".mark.hollow")).to_have_count(len(prices) - len(best))
    assert chart.locator("text").all_text_contents()[-len(best) :] == [name for name, _ in best]


def test_evaluations_with_the_same_numbers_share_a_point_of_the_chart(
    visit: Visit, tmp_path: Path
) -> None:
    store, questions = Store.at(tmp_path / "store"), v1_questions(10)
    store_questions(store, questions)
    first = MadeUpEvaluation(name="first")
    store_evaluation(store, questions, first, texts=False)
    for name in ("second", "third"):
        write_made_up(
            made_up_file(store, "scores", "videomme", name),
            [replace(row, evaluation=name) for row in scored(store, "first")],
            ScoredQuestion,
            settings=first.specification,
        )
        show_made_up(store, "videomme", name)
    page = visit.open(write_page(store, tmp_path / "page.html"), "leaderboard?price=latency")
    chart = page.get_by_role("img", name="Score and median latency. first, second, third: ")
    expect(chart.locator(".mark")).to_have_count(1)
    assert chart.locator("text").all_text_contents()[-1] == "first and 2 more"
    expect(page.get_by_text("It ties with second (paired 95% CI")).to_be_visible()


def test_the_citation_box_has_figure_settings_and_references(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "leaderboard?of=model-a")
    [(accuracy, low, high, fingerprint)] = view_rows(
        store,
        "select 100 * accuracy, 100 * accuracy_low, 100 * accuracy_high, "
        "any_value(evaluation_fingerprint) over () from leaderboard join (select distinct "
        "evaluation, evaluation_fingerprint from scored_questions) using (evaluation) "
        "where evaluation = 'model-a'",
    )
    text, references = page.locator(".copy-boxes pre").all_text_contents()
    assert f"accuracy {accuracy:.1f}% (95% CI {low:.1f}–{high:.1f}, clustered by video)" in text
    assert f"Fingerprint {fingerprint}." in text
    assert "\ngeneration.max_tokens: 64\n" in text
    assert references.count("@") == 1
    assert "arXiv:2405.21075" in references
    visit.turn("leaderboard?of=model-b")
    expect(page.get_by_text("Do not cite this score.")).to_be_visible()


def test_links_to_the_sections_stay_in_the_window(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file, "breakdowns")
    links = page.get_by_role("navigation", name="Parts of this page")
    links.get_by_role("button", name="Heat map").click()
    box = links.bounding_box()
    heading = page.get_by_role("heading", name="Heat map").bounding_box()
    assert box is not None
    assert heading is not None
    assert box["y"] == 0
    assert heading["y"] >= box["height"]


def test_a_filter_keeps_exactly_the_questions_with_that_outcome(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "questions?show=model-a")
    page.get_by_label("Outcome").select_option("incorrect")
    wrong = {row.question_id for row in scored(store, "model-a") if row.outcome == "incorrect"}
    assert {row[0] for row in table_rows(page, "Questions")} == wrong
    expect(page.get_by_text(f"{len(wrong)} of 45 questions").first).to_be_visible()


def test_filters_are_in_the_url(visit: Visit, page_file: Path, store: Store) -> None:
    page = visit.open(page_file, "questions?show=model-b&outcome=failed&sort=-id")
    assert [row[0] for row in table_rows(page, "Questions")] == ["002-1"]
    page.get_by_label("Outcome").select_option("")
    page.get_by_label("Sub-category").select_option("Sub-category 3")
    assert "sub_category=Sub-category" in page.url
    again = visit.open(page_file, page.url.split("#")[1])
    assert [row[0] for row in table_rows(again, "Questions")] == ["003-3", "003-2", "003-1"]


def test_search_finds_question_text_and_options(
    visit: Visit, page_file: Path, store: Store
) -> None:
    prompt = read_rows(stored_file(store, "prompts", "videomme", "model-a", "007"), Prompt)[1]
    text = prompt.text.split("Question: ")[1].split("?")[0]
    page = visit.open(page_file, "questions")
    page.get_by_label("Search").fill(f'"{text}"')
    assert [row[0] for row in table_rows(page, "Questions")] == [prompt.question_id]


def test_a_checkbox_keeps_only_questions_with_different_outcomes(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "questions?show=model-a,model-b")
    page.get_by_label("Only different outcomes").check()
    a, b = (
        {row.question_id: row.outcome for row in scored(store, name)}
        for name in ("model-a", "model-b")
    )
    assert {row[0] for row in table_rows(page, "Questions")} == {
        question_id for question_id in a if a[question_id] != b[question_id]
    }


def test_a_question_shows_inputs_response_and_reading(
    visit: Visit, page_file: Path, store: Store
) -> None:
    row = next(
        row
        for row in scored(store, "model-a-subtitles")
        if row.span_start is not None and row.video_id == "001"
    )
    assert row.raw_output is not None
    page = visit.open(page_file, "questions")
    page.get_by_role("link", name=row.question_id, exact=True).click()
    card = page.locator("article", has=page.get_by_role("heading", name="model-a-subtitles"))
    assert card.locator("pre").first.inner_text() == row.raw_output
    assert card.locator("mark").inner_text() == row.raw_output[row.span_start : row.span_end]
    expect(card.get_by_text(f"Read by rule {row.rule}")).to_be_visible()
    card.get_by_text("Prompt as sent").click()
    prompts = read_rows(
        stored_file(store, "prompts", "videomme", "model-a-subtitles", "001"), Prompt
    )
    sent = next(prompt for prompt in prompts if prompt.question_id == row.question_id)
    assert card.locator("pre").nth(1).text_content() == sent.text
    response = next(
        response
        for response in read_rows(
            stored_file(store, "responses", "videomme", "model-a-subtitles", "001"), Response
        )
        if response.question_id == row.question_id
    )
    facts = card.locator("dl").inner_text()
    assert f"Attempts\n{response.served.attempts}" in facts
    assert f"Prompt tokens\n{response.usage.prompt_tokens:,}" in facts
    assert f"Latency\n{response.served.latency_seconds:.2f} s" in facts
    right = page.locator(".options li.right")
    assert right.inner_text().startswith(f"{row.answer}. ")
    page.get_by_text("8 subtitle lines with their times").click()
    expect(page.get_by_text("0:04.0 to 0:06.5 · frame 2")).to_be_visible()
    expect(page.get_by_role("heading", name="8 frames").first).to_be_visible()


def test_a_question_that_failed_shows_its_error(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file, "question?id=002-1&show=model-b")
    expect(page.get_by_text("503 Service Unavailable, asked 12 times")).to_be_visible()
    expect(page.get_by_text("failed").first).to_be_attached()


def test_a_page_without_pictures_says_how_to_see_them(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file, "question?id=001-1&show=model-a")
    expect(page.get_by_text("videomme report --serve shows the pictures")).to_be_visible()
    expect(page.locator(".frames li")).to_have_count(8)
    expect(page.get_by_role("img", name="Frame ")).to_have_count(0)


def test_a_weak_subset_links_to_its_wrong_answers(visit: Visit, tmp_path: Path) -> None:
    store = Store.at(tmp_path / "weak")
    questions = v1_questions(15, benchmark="smoke")
    store_questions(store, questions)
    weak = {q.question_id: "Answer: E" for q in questions if q.duration == "long"}
    store_evaluation(store, questions, MadeUpEvaluation(name="weak", skill=1, responses=weak))
    page = visit.open(write_page(store, tmp_path / "page.html"), "breakdowns")
    expect(page.get_by_text("weak is weak in long (duration, 0.0%)")).to_be_visible()
    page.get_by_role("link", name="long", exact=True).first.click()
    page.get_by_label("Outcome").select_option("unreadable")
    assert {row[0] for row in table_rows(page, "Questions")} == set(weak)


def test_score_by_frames_is_drawn_for_samplings_of_one_model(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "breakdowns")
    scores = dict(view_rows(store, "select evaluation, accuracy from leaderboard"))
    rows = table_rows(page, "Number of frames")
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("model-a", "8", f"{100 * scores['model-a']:.1f}"),
        ("model-a-32", "32", f"{100 * scores['model-a-32']:.1f}"),
    ]
    chart = page.get_by_role("img", name="Score by number of frames for model-a without subtitles")
    heights = chart.locator("g > svg").evaluate_all(
        "marks => marks.map(mark => parseFloat(mark.getAttribute('y')))"
    )
    assert (heights[0] > heights[1]) == (scores["model-a"] < scores["model-a-32"])


def test_two_crossed_facets_equal_their_view(visit: Visit, page_file: Path, store: Store) -> None:
    page = visit.open(page_file, "breakdowns?show=model-b")
    page.get_by_label("Facets").select_option("duration_and_task_type")
    expected = {
        (task, duration): f"n {n}: {'≥ ' if failed else ''}{100 * accuracy:.0f}"
        for task, duration, n, failed, accuracy in view_rows(
            store,
            "select task_type, duration, questions, failed, accuracy "
            "from by_duration_and_task_type where evaluation = 'model-b'",
        )
    }
    shown = {
        (row[0], duration): cell
        for row in table_rows(page, "Two facets crossed")
        for duration, cell in zip(("short", "medium", "long"), row[1:], strict=True)
        if cell != "–"
    }
    assert shown == expected
    assert "cross=duration_and_task_type" in page.url


def test_the_heat_map_is_darker_where_the_score_is_higher(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "breakdowns")
    expected = dict(
        view_rows(
            store,
            "select sub_category, accuracy from by_sub_category where evaluation = 'model-b'",
        )
    )
    region = page.get_by_role("region", name="Sub-category × evaluation: darker is better")
    column = [head.strip() for head in region.locator("thead th").all_inner_texts()].index(
        "model-b"
    )
    cells = region.locator("tbody tr").evaluate_all(
        f"rows => rows.map(row => [row.cells[0].innerText, row.cells[{column}].innerText, "
        f"row.cells[{column}].className.match(/heat-(\\d)/)[1]])"
    )
    assert {name: text.removeprefix("≥ ") for name, text, _ in cells} == {
        name: f"{100 * accuracy:.0f}" for name, accuracy in expected.items()
    }
    assert [int(shade) for *_, shade in cells] == [
        min(5, int(6 * expected[name] + 1e-4)) for name, *_ in cells
    ]


def test_the_effect_of_subtitles_equals_the_view(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "breakdowns?show=model-a")
    expected = view_rows(
        store,
        "select printf('%+.1f', 100 * difference) from track_against_track "
        "where with_subtitles = 'model-a-subtitles' and without_subtitles = 'model-a' "
        "and duration = 'all'",
    )
    rows = table_rows(page, "Effect of subtitles: model-a, uniform_n-8")
    assert [(row[0], row[2].replace("−", "-")) for row in rows[:1]] == [
        ("All questions", expected[0][0])
    ]
    assert [row[0].split("\n")[0] for row in rows[1:]] == ["short", "medium", "long"]


def test_the_benchmark_can_be_changed(visit: Visit, page_file: Path, store: Store) -> None:
    page = visit.open(page_file)
    page.get_by_label("Benchmark").select_option("videomme_v2")
    expect(page.get_by_role("heading", name="Video-MME-v2")).to_be_visible()
    scores = view_rows(
        store,
        "select evaluation, printf('%.1f', group_score) from leaderboard "
        "where benchmark = 'videomme_v2' order by track desc, group_score desc",
    )
    rows = [row[:3] for row in table_rows(page, "Evaluations")]
    assert [(row[0].split("\n")[0], row[2].split("\n")[0]) for row in rows] == scores
    best = max(scores, key=lambda row: float(row[1]))[0]
    visit.turn("breakdowns?benchmark=videomme_v2")
    for view, title in (
        ("group_score_by_level", "Level"),
        ("group_score_by_second_head", "Second head"),
        ("group_score_by_third_head", "Third head"),
        ("group_score_by_group_type", "Group type"),
    ):
        if (more := page.get_by_role("button", name="more of")).count():
            more.first.click()
        expected = view_rows(store, f"select group_score from {view} where evaluation = '{best}'")
        shown = [float(row[4].split("\n")[0]) for row in table_rows(page, title)]
        assert sorted(shown) == pytest.approx(sorted(score for (score,) in expected), abs=0.06)


def test_the_whole_page_works_from_the_keyboard(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file, "questions?show=model-a")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type('"sub-category 5"')
    expect(page.get_by_text("3 of 45 questions").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "005-1"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Question 005-2")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Question 005-3")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search")).to_have_value('"sub-category 5"')
    assert page.evaluate("document.activeElement.textContent") == "005-3"
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "search"


def test_tab_visits_controls_in_reading_order(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file)
    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert seen[0] == "Skip to the results"
    assert seen[3:7] == ["Leaderboard", "Breakdowns", "Questions", "Compare"]


def test_the_theme_follows_the_system_or_the_button(chromium: Browser, page_file: Path) -> None:
    context = chromium.new_context(color_scheme="dark", offline=True)
    page = Visit(context.new_page()).open(page_file)
    background: Callable[[], str] = lambda: page.evaluate(  # noqa: E731
        "getComputedStyle(document.body).backgroundColor"
    )
    assert background() == "rgb(20, 23, 28)"
    page.get_by_role("button", name="Light").click()
    assert background() == "rgb(255, 255, 255)"
    context.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(visit: Visit, small_file: Path, scheme: str) -> None:
    page = visit.open(small_file)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8"))
    for view in VIEWS:
        visit.turn(view)
        violations = page.evaluate(
            """async () => (await axe.run({resultTypes: ["violations"]})).violations
                .map(found => [found.id, found.nodes[0].html.slice(0, 200)])"""
        )
        assert violations == [], view


def test_a_phone_shows_few_filters(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file, "questions")
    expect(page.locator(".controls select:visible")).to_have_count(6)
    visit.page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.get_by_text("More filters")).to_be_visible()
    assert page.locator(".controls select:visible").count() < 4
    page.get_by_text("More filters").click()
    expect(page.locator(".controls select:visible")).to_have_count(6)


def test_the_page_fits_a_phone(visit: Visit, page_file: Path, hostile_file: Path) -> None:
    visit.page.set_viewport_size({"width": 360, "height": 740})
    for file in (page_file, hostile_file):
        page = visit.open(file)
        for view in VIEWS:
            visit.turn(view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_print_hides_the_controls(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file, "breakdowns")
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="Views")).to_be_hidden()
    expect(page.get_by_label("Order of rows")).to_be_hidden()
    expect(page.get_by_role("table").first).to_be_visible()


def test_the_printed_leaderboard_fits_on_a4(visit: Visit, page_file: Path) -> None:
    page = visit.open(page_file)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # less 1 cm on each side
    beyond = "frame => frame.scrollWidth - frame.clientWidth"
    assert page.locator(".table-frame").first.evaluate(beyond) <= 0


def test_untrusted_texts_are_shown_and_never_run(visit: Visit, hostile_file: Path) -> None:
    page = visit.open(hostile_file)
    for view in (*VIEWS, "question?id=003-3", "question?id=001-1&show=down", "history?flips=all"):
        visit.turn(view)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0


def test_a_hostile_response_is_shown_unchanged(visit: Visit, hostile_file: Path) -> None:
    page = visit.open(hostile_file)
    for number, text in enumerate(HOSTILE):
        show = urlencode({"show": HOSTILE_NAMES[0]})
        visit.turn(f"question?id={number // 3 + 1:03d}-{number % 3 + 1}&{show}")
        assert page.locator(".question-text").text_content() == text
        shown = page.locator("article pre").first
        assert (shown.text_content(), shown.get_attribute("dir")) == (text, "auto")


def test_every_other_untrusted_text_is_shown_unchanged(visit: Visit, hostile_file: Path) -> None:
    page = visit.open(hostile_file, "question?id=001-1&show=down")
    assert page.locator("article pre").first.text_content() == HOSTILE[0]
    visit.turn("question?id=001-1&" + urlencode({"show": HOSTILE_NAMES[0]}))
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert HOSTILE_NAMES[0] in page.locator("article h3").all_text_contents()[0]
    assert HOSTILE[3] in page.locator("article pre").all_text_contents()
    assert page.locator(".lines li").first.locator("span[dir=auto]").text_content() == HOSTILE[1]
    assert HOSTILE[0] in page.locator("dl.facts dd").all_text_contents()
    visit.turn("history")
    assert page.locator(".findings [dir=auto]").text_content() == HOSTILE[2]


def test_a_csv_download_escapes_formulas(visit: Visit, hostile_file: Path) -> None:
    page = visit.open(hostile_file, "questions")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.splitlines()[0].startswith("Question,Text,Duration")
    assert '"\'=HYPERLINK(""http://127.0.0.1/"",""open"")"' in text


def test_a_shared_page_says_what_it_leaves_out(visit: Visit, shared_file: Path) -> None:
    page = visit.open(shared_file, "question?id=001-1")
    expect(page.get_by_text("no question, options, prompts, responses").first).to_be_visible()
    expect(page.locator("article pre")).to_have_count(0)
    page = visit.open(shared_file, "questions")
    assert table_rows(page, "Questions")[0][0] == "001-1"


def test_compare_lists_the_questions_and_settings_that_differ(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file, "compare?a=model-a&b=model-b&flips=lost")
    before = {row.question_id: row.outcome for row in scored(store, "model-a")}
    after = {row.question_id: row.outcome for row in scored(store, "model-b")}
    lost = {
        question_id
        for question_id in before
        if before[question_id] == Outcome.CORRECT
        and after[question_id] in (Outcome.INCORRECT, Outcome.UNREADABLE)
    }
    assert {row[0] for row in table_rows(page, "Questions that differ")} == lost
    won = sum(
        before[name] in (Outcome.INCORRECT, Outcome.UNREADABLE) and after[name] == Outcome.CORRECT
        for name in before
    )
    expect(page.get_by_text(f"of the answers changed: {won} won, {len(lost)} lost")).to_be_visible()
    specification = page.get_by_role("region", name="Settings that differ")
    assert specification.locator("tbody tr").all_inner_texts() == ["model.name\tmodel-a\tmodel-b"]


def test_history_shows_every_nightly_run_and_the_changed_questions(
    visit: Visit, page_file: Path, store: Store
) -> None:
    page = visit.open(page_file)
    expect(page.get_by_text("Last nightly run, 2026-11-20: not assessed for")).to_be_visible()
    visit.turn("history")
    rows = table_rows(page, "Nightly runs")
    assert [row[0] for row in rows] == ["2026-11-20", "2026-11-19", "2026-11-18"]
    expected = view_rows(
        store,
        "select printf('%.1f', 100 * accuracy) from accuracy_by_nightly_run order by observation",
    )
    assert [row[2] for row in reversed(rows)] == [text for (text,) in expected]
    change = float(rows[0][3].replace("−", "-"))
    assert change == pytest.approx(float(rows[0][2]) - float(rows[1][2]), abs=0.11)
    expect(page.get_by_role("img", name="Score by nightly run for model-a")).to_be_visible()
    after, before = (
        {row.question_id: row for row in read_rows(folder / f"{date}.parquet", ScoredQuestion)}
        for folder in [store.path("videomme", "nightly_runs", "model-a")]
        for date in ("2026-11-20", "2026-11-19")
    )
    lost = {name for name in after if before[name].is_correct > after[name].is_correct}
    page.get_by_role("combobox", name="Show").select_option("lost")
    shown = {row[0]: row for row in table_rows(page, "Questions that differ")}
    assert set(shown) == lost
    responses = {name: after[name].raw_output or "" for name in lost}
    name = next(name for name in lost if len(responses[name]) > 2)
    assert shown[name][-1].endswith(responses[name])


def test_a_nightly_run_with_an_alarm_is_marked(visit: Visit, hostile_file: Path) -> None:
    page = visit.open(hostile_file)
    expect(page.get_by_text("▲ alarm")).to_be_visible()
    page.get_by_role("link", name="What changed").click()
    expect(page.locator("circle.alarm.error")).to_have_count(1)
    expect(page.get_by_text("▲ accuracy, new")).to_be_visible()


@pytest.mark.slow
def test_the_curve_of_a_training_run_marks_the_gates_that_did_not_pass(
    visit: Visit, tmp_path: Path
) -> None:
    store, questions = Store.at(tmp_path / "data"), v1_questions(6)
    store_questions(store, questions)
    store_evaluation(store, questions, MadeUpEvaluation(name="short"), texts=False)
    page = visit.open(write_page(store, tmp_path / "before.html"))
    expect(page.get_by_role("link", name="Training")).to_have_count(0)
    outcomes = (
        CheckpointOutcome.PASSED,
        CheckpointOutcome.UNDECIDED,
        CheckpointOutcome.FAILED,
        CheckpointOutcome.PASSED,
    )
    for step, outcome in zip((200, 400, 800, 1000), outcomes, strict=True):
        store_checkpoint(store, questions, step, 0.5, outcome)
    page = visit.open(write_page(store, tmp_path / "after.html"))
    page.get_by_role("link", name="Training").click()
    rows = table_rows(page, "Checkpoints")
    assert [row[0] for row in rows] == ["1,000", "800", "400", "200"]
    scores = view_rows(
        store, "select printf('%.1f', 100 * score) from accuracy_by_checkpoint order by step desc"
    )
    assert [row[3].split("\n")[0] for row in rows] == [text for (text,) in scores]
    assert [row[6] for row in rows] == ["passed", "failed", "undecided", "passed"]
    assert {row[7] for row in rows} == {"−4.2"}
    expect(page.get_by_role("img", name="Score by training step for tuned (short)")).to_be_visible()
    expect(page.locator("circle.alarm.error")).to_have_count(1)
    expect(page.locator("circle.alarm.warn")).to_have_count(1)
    expect(page.locator("svg .path")).to_have_count(3)
    page.get_by_role("combobox", name="Published result").select_option("Qwen2-VL Alibaba")
    expect(page.locator("svg .reference.published")).to_have_count(1)
    expect(page.get_by_text("the published result of Qwen2-VL Alibaba")).to_be_visible()


def test_a_race_shows_each_look_and_the_moment_of_the_decision(
    visit: Visit, tmp_path: Path
) -> None:
    store, questions = Store.at(tmp_path / "data"), v1_questions(6)
    store_questions(store, questions)
    store_evaluation(store, questions, MadeUpEvaluation(name="short"), texts=False)
    store_race(store, "short", "other", [(100, -3.0, None), (200, -4.2, "decided")])
    store_race(store, "short", "third", [(100, 0.4, "budget")])
    page = visit.open(write_page(store, tmp_path / "page.html"))
    page.get_by_role("link", name="Races").click()
    expect(page.get_by_text("other against short: worse")).to_be_visible()
    expect(page.get_by_text("−4.2 points after 200 of 900 videos.")).to_be_visible()
    rows = table_rows(page, "Looks")
    assert [(row[0], row[3]) for row in rows] == [("100", "−3.0"), ("200", "−4.2")]
    expect(page.get_by_role("img", name="Difference by videos asked")).to_be_visible()
    expect(page.locator("svg .interval")).to_have_count(2)
    expect(page.locator("circle.alarm.error")).to_have_count(1)
    expect(page.locator("svg .reference.published")).to_have_count(2)
    page.get_by_role("combobox", name="Race").select_option("short and third")
    expect(page.get_by_text("The next look would have exceeded a limit.")).to_be_visible()
    expect(page.locator("circle.alarm.warn")).to_have_count(1)


def test_without_javascript_the_scores_are_a_plain_table(
    chromium: Browser, page_file: Path, store: Store
) -> None:
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    texts = page.locator("noscript table").first.inner_text()
    for (accuracy,) in view_rows(
        store, "select printf('%.1f', 100 * accuracy) from leaderboard where benchmark = 'videomme'"
    ):
        assert accuracy in texts
    context.close()


def test_a_store_without_evaluations_says_what_to_do(visit: Visit, tmp_path: Path) -> None:
    page = visit.open(write_page(Store.at(tmp_path / "none"), tmp_path / "page.html"))
    expect(page.get_by_text("No evaluation has been scored yet.")).to_be_visible()


@pytest.mark.slow
def test_a_single_evaluation_with_repeats_has_a_page(visit: Visit, tmp_path: Path) -> None:
    store = Store.at(tmp_path / "one")
    questions = v1_questions(3, benchmark="smoke")
    store_questions(store, questions)
    store_evaluation(store, questions, MadeUpEvaluation(name="only", repeats=3), texts=False)
    file = write_page(store, tmp_path / "page.html")
    for view in VIEWS:
        visit.open(file, view)
    expect(visit.open(file, "compare").get_by_text("There is only one evaluation")).to_be_visible()
    [expected] = view_rows(
        store,
        "select evaluation, repeats::varchar, printf('%.1f', 100 * accuracy), "
        "printf('%.1f', 100 * majority_vote), printf('%.1f', 100 * pass_at_k), "
        "printf('%.1f', 100 * pass_at_all), printf('%.1f', 100 * flip_rate) "
        "from repeats join pass_at_k using (benchmark, evaluation) where k = 2",
    )
    [row] = table_rows(visit.open(file), "Repeats")
    assert tuple(cell.split("\n")[0] for cell in row) == expected
    page = visit.open(file, f"question?id={questions[0].question_id}")
    expect(page.get_by_role("heading", name="Repeat 1 of 3")).to_be_visible()
    expect(page.get_by_role("heading", name="Repeat 2 of 3")).to_be_hidden()
    page.get_by_text("2 more repeats").click()
    expect(page.get_by_role("heading", name="Repeat 3 of 3")).to_be_visible()


def test_pass_at_k_says_how_many_questions_were_asked_k_times(visit: Visit, tmp_path: Path) -> None:
    store = Store.at(tmp_path / "uneven")
    questions = v1_questions(4, benchmark="smoke")
    store_questions(store, questions)
    store_evaluation(store, questions, MadeUpEvaluation(name="only", repeats=3), texts=False)
    path = stored_file(store, "scores", "smoke", "only")
    rows = read_rows(path, ScoredQuestion)
    asked_twice = {question.question_id for question in questions[:5]}
    kept = [row for row in rows if row.repeat < 2 or row.question_id not in asked_twice]
    write_made_up(path, kept, ScoredQuestion)
    [row] = table_rows(visit.open(write_page(store, tmp_path / "page.html")), "Repeats")
    pass_at_2, pass_at_3 = row[4].split("\n"), row[5].split("\n")
    assert len(pass_at_2) == 2, "every question was asked twice"
    assert pass_at_3[2] == f"{len(questions) - 5} of {len(questions)} questions"


def test_a_notice_names_what_the_page_does_not_have(visit: Visit, small_file: Path) -> None:
    page = visit.open(small_file, "history")
    notice = page.locator(".notice").first
    expect(notice).to_contain_text("There are no nightly runs yet. A nightly run asks")
    for address, text in {
        "nowhere?show=model-a": "There is no view “nowhere”. This is the leaderboard.",
        "constructor": "There is no view “constructor”. This is the leaderboard.",
        "leaderboard?benchmark=other": "This page has no benchmark “other”.",
        "compare?a=other&b=model-a": "videomme run other adds it",
        "question?id=999-9": "No question 999-9",
    }.items():
        visit.turn(address)
        expect(notice).to_contain_text(text)


def test_a_table_is_copied_as_markdown_and_latex(
    visit: Visit, context: BrowserContext, page_file: Path, store: Store
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(page_file, "compare?a=model-a&b=model-b")

    def copied(form: str) -> list[str]:
        page.get_by_role("button", name=f"{form} of compare-model-a-model-b").click()
        done = f"{form} of compare-model-a-model-b copied"
        expect(page.locator("#announcer")).to_have_text(done)
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text.splitlines()

    name, _, difference, interval, questions, *_ = table_rows(page, "Difference by subset")[0]
    name = name.replace("\n", " ")
    markdown, latex = copied("Markdown"), copied("LaTeX")
    assert markdown[0].startswith("| Questions | Difference | 95% CI | n | Adjusted p |")
    assert markdown[1].startswith("| --- | ---: | ---: | ---: | ---: |")
    assert markdown[2].startswith(f"| {name} | {difference} | {interval} | {questions} |")
    assert latex[0] == r"\begin{tabular}{lrrrrl}"
    assert latex[2].startswith(r"Questions & Difference & 95\% CI & n & Adjusted p & ")
    assert latex[4].startswith(f"{name} & {difference.replace('−', '$-$')} & ")
    assert len(markdown) + 4 == len(latex)


def test_the_leaderboard_is_copied_with_one_value_per_cell(
    visit: Visit, context: BrowserContext, page_file: Path, store: Store
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(page_file)
    page.get_by_role("button", name="LaTeX of evaluations").click()
    expect(page.locator("#announcer")).to_have_text("LaTeX of evaluations copied")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    [expected] = view_rows(
        store,
        "select printf('%.1f & %.1f--%.1f & %d', 100 * accuracy, 100 * accuracy_low, "
        "100 * accuracy_high, questions) from leaderboard where evaluation = 'model-b' "
        "and failed > 0",
    )
    assert lines[2] == r"Evaluation & Subtitles & Accuracy (\%) & 95\% CI & n \\"
    assert lines[4] == rf"model-b & without & $\geq$ {expected[0]} \\"


def test_a_benchmark_with_only_groups_has_a_page(visit: Visit, tmp_path: Path) -> None:
    store = Store.at(tmp_path / "groups")
    questions = v2_questions(6)
    store_questions(store, questions)
    store_evaluation(store, questions, MadeUpEvaluation(name="groups-a"))
    file = write_page(store, tmp_path / "page.html")
    page = visit.open(file)
    for view in VIEWS:
        visit.turn(view)
    visit.turn("breakdowns")
    assert [row[0] for row in table_rows(page, "Level")] == ["Level 1", "Level 2", "Level 3"]


def test_a_question_of_a_conversation_shows_what_was_sent_before_it(
    visit: Visit, tmp_path: Path
) -> None:
    store, questions = Store.at(tmp_path / "groups"), v2_questions(2)[::-1]
    store_questions(store, questions)
    for evaluation in (
        MadeUpEvaluation(name="single"),
        MadeUpEvaluation(name="talk", repeats=2, is_conversation=True),
        MadeUpEvaluation(
            name="cut",
            responses=dict.fromkeys(["001-3"]),
            error="not asked: asked after a failed turn (001-2)",
            is_conversation=True,
        ),
    ):
        store_evaluation(store, questions, evaluation)
    page = visit.open(write_page(store, tmp_path / "page.html"), "question?id=001-3")
    expect(page.get_by_text("of the conversation, sent before this prompt")).to_have_count(2)
    card = page.locator("article", has=page.get_by_role("heading", name="talk"))
    prompts = {
        prompt.question_id: prompt.text
        for prompt in read_rows(stored_file(store, "prompts", "videomme_v2", "talk", "001"), Prompt)
    }
    answers = {
        (row.question_id, row.repeat): row.raw_output
        for row in read_rows(stored_file(store, "scores", "videomme_v2", "talk"), ScoredQuestion)
    }
    folds = card.locator("summary", has_text="2 earlier turns").locator("..")
    expect(folds).to_have_count(2)
    for repeat, turns in enumerate(folds.all()):
        assert turns.locator("pre").all_text_contents() == [
            text for name in ("001-1", "001-2") for text in (prompts[name], answers[name, repeat])
        ]
    card.get_by_text("2 earlier turns").first.click()
    card.get_by_role("link", name="001-1").first.click()
    expect(page.get_by_role("heading", name="Question 001-1")).to_be_visible()
    expect(page.get_by_text("earlier turn")).to_have_count(0)


@pytest.fixture(scope="module")
def silent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with an evaluation without any answer and one with a failed question."""
    store, questions = Store.at(tmp_path_factory.mktemp("silent")), v1_questions(12)
    store_questions(store, questions)
    unanswered = dict.fromkeys(question.question_id for question in questions)
    for evaluation in (
        MadeUpEvaluation(name="silent", responses=unanswered),
        MadeUpEvaluation(name="partly", responses=dict.fromkeys(["001-1"])),
    ):
        store_evaluation(store, questions, evaluation)
    store_nightly_run(
        store, questions, MadeUpEvaluation(name="silent", responses=unanswered), "2026-11-20"
    )
    return write_page(store, tmp_path_factory.mktemp("page") / "silent.html")


def test_an_evaluation_without_any_answer_has_neither_number_nor_dot(
    visit: Visit, silent_file: Path
) -> None:
    page = visit.open(silent_file)
    row = page.locator("tr", has=page.get_by_role("link", name="silent", exact=True)).first
    expect(row.locator("path.mark")).to_have_count(0)
    assert "0.0" not in row.inner_text()
    for view in ("breakdowns", "history"):
        visit.turn(view)
        assert "NaN" not in page.content()
    visit.turn("history?show=silent")
    expect(page.locator(".figure path.mark")).to_have_count(0)


def test_a_lower_bound_is_marked_on_the_page_in_latex_and_in_csv(
    visit: Visit, silent_file: Path, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(silent_file)
    row = page.locator("tr", has=page.get_by_role("link", name="partly", exact=True)).first
    expect(row.locator(".strong").first).to_have_text(re.compile("^≥ "))
    page.get_by_role("button", name="LaTeX of evaluations").click()
    assert "$\\geq$ " in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of evaluations").click()
    with download.value.path().open(encoding="utf-8", newline="") as file:
        bounds = {row["Evaluation"]: row["Lower bound"] for row in csv.DictReader(file)}
    assert bounds["partly"] == "yes"
