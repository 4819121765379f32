"""The data inside the page, read without a browser."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_results import (
    PRIVATE_SETTINGS,
    MadeUpEvaluation,
    store_evaluation,
    store_nightly_run,
    store_questions,
    v1_questions,
    v2_questions,
)
from tests.support.stored_files import stored_file
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import StorageError
from videomme_pipeline.reports import comparisons
from videomme_pipeline.reports.document import (
    content_policy,
    pack,
    shorten,
    utf16_length,
    utf16_span,
)
from videomme_pipeline.reports.numbers import chance
from videomme_pipeline.reports.page import build_page, write_page
from videomme_pipeline.reports.published import published_results
from videomme_pipeline.reports.stored import evaluations_of
from videomme_pipeline.scoring.nightly.assess import assess, write_findings
from videomme_pipeline.scoring.nightly.history import Observation
from videomme_pipeline.scoring.nightly.policy import AlarmSpec
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect

TEXTS = st.text(max_size=400)


def packed(html: str, part: str) -> Any:
    """The data of the page in `part` (summary or details)."""
    match = re.search(rf'id="data-{part}">([^<]*)<', html)
    assert match is not None
    return json.loads(gzip.decompress(b64decode(match[1])))


@pytest.fixture(scope="module")
def html(page_file: Path) -> str:
    return page_file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def v1(html: str) -> dict[str, Any]:
    """The numbers of the v1 benchmark."""
    return next(b for b in packed(html, "summary")["benchmarks"] if b["name"] == "videomme")


@pytest.mark.slow
def test_the_page_depends_only_on_the_data(store: Store, html: str) -> None:
    assert build_page(store) == html


def test_every_breakdown_value_equals_its_view(store: Store, v1: dict[str, Any]) -> None:
    names = [evaluation["name"] for evaluation in v1["evaluations"]]
    assert [breakdown["key"] for breakdown in v1["breakdowns"]] == [
        "duration",
        "domain",
        "sub_category",
        "task_type",
    ]
    with connect(store) as connection:
        for breakdown in v1["breakdowns"]:
            rows = connection.execute(
                f'select evaluation, "{breakdown["key"]}", questions, videos, '
                "round(accuracy, 7), round(accuracy_low, 7), round(accuracy_high, 7) "
                f"from \"by_{breakdown['key']}\" where benchmark = 'videomme'"
            ).fetchall()
            shown = {
                (name, row["values"][0]): (
                    *(cell["n"], cell["videos"], cell["value"], cell["low"], cell["high"]),
                )
                for row in breakdown["rows"]
                for name, cell in zip(names, row["cells"], strict=True)
            }
            assert shown == {(row[0], row[1]): row[2:] for row in rows}


def test_every_comparison_equals_scoring_compare(store: Store, v1: dict[str, Any]) -> None:
    names = [evaluation["name"] for evaluation in v1["evaluations"]]
    rows = [
        read_rows(stored_file(store, "scores", "videomme", name), ScoredQuestion) for name in names
    ]
    compared = [{names[shown["a"]], names[shown["b"]]} for shown in v1["comparisons"]]
    one_track = [name for name in names if name != "model-a-subtitles"]
    pairs = [set(pair) for pair in combinations(one_track, 2)] + [{"model-a", "model-a-subtitles"}]
    assert sorted(map(sorted, compared)) == sorted(map(sorted, pairs))
    for shown in v1["comparisons"]:
        comparison = compare(rows[shown["a"]], rows[shown["b"]])
        assert shown["overall"]["difference"] == round(comparison.accuracy.difference.mean, 7)
        assert shown["overall"]["p"] == pytest.approx(comparison.accuracy.p_value, rel=1e-3)
        assert {
            (row["value"], row["difference"], row["significant"]) for row in shown["marginals"]
        } == {
            (marginal.value, round(marginal.difference.difference.mean, 7), marginal.significant)
            for marginal in comparison.marginals
        }


def test_many_evaluations_are_compared_by_subset_only_with_the_best_of_their_track(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "MAX_EVALUATIONS", 3)
    monkeypatch.setattr(comparisons, "MAX_PAIRS", 4)
    evaluations = evaluations_of(Results(store), "videomme")
    facets = dict.fromkeys(("duration", "domain", "sub_category", "task_type"), "")
    compared = comparisons.comparisons(evaluations, [1, 2, 3, 0, 4], facets)
    assert {(entry["a"], entry["b"]): entry["marginals"] is not None for entry in compared} == {
        **dict.fromkeys([(0, 1), (1, 2), (1, 3), (1, 4)], True),
    }


def test_group_scores_are_compared_by_group(html: str) -> None:
    v2 = next(b for b in packed(html, "summary")["benchmarks"] if b["name"] == "videomme_v2")
    assert v2["comparisons"][0]["overall"]["by"] == "Group score"
    assert v2["comparisons"][0]["overall"]["n"] == 12
    assert {row["by"] for row in v2["comparisons"][0]["marginals"]} == {
        "Level",
        "Second head",
        "Third head",
        "Group type",
    }


def test_a_nightly_run_equals_its_view_and_shows_its_failures(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    questions = v1_questions(6)
    store_questions(store, questions)
    model = MadeUpEvaluation(name="a", skill=1)
    store_evaluation(store, questions, model, texts=False)
    down = replace(model, responses={question.question_id: None for question in questions[:4]})
    for date, evaluation in (("2026-11-19", model), ("2026-11-20", down)):
        store_nightly_run(store, questions, evaluation, date)
    [benchmark] = packed(build_page(store), "summary")["benchmarks"]
    with connect(store) as connection:
        view = connection.execute(
            "select observation, responses, failed, round(accuracy, 7), round(accuracy_low, 7) "
            "from accuracy_by_nightly_run order by observation"
        ).fetchall()
    shown = [
        tuple(run[key] for key in ("date", "n", "failed", "value", "low"))
        for run in benchmark["history"]
    ]
    assert shown == view
    assert [run["failed"] for run in benchmark["history"]] == [0, 4]
    [last] = benchmark["last_runs"]
    assert (last["date"], last["before_date"], last["overall"]["n"]) == (
        *("2026-11-20", "2026-11-19"),
        14,
    )


def test_a_nightly_run_of_groups_counts_failures_as_wrong(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    questions = v2_questions(6)
    store_questions(store, questions)
    model = MadeUpEvaluation(name="a", skill=1)
    store_evaluation(store, questions, model, texts=False)
    down = replace(model, responses={question.question_id: None for question in questions[:4]})
    store_nightly_run(store, questions, down, "2026-11-20")
    [benchmark] = packed(build_page(store), "summary")["benchmarks"]
    [run] = benchmark["history"]
    assert (run["n"], run["failed"]) == (6, 4)
    assert 0.5 < run["value"] <= 5 / 6
    [last] = benchmark["last_runs"]
    assert last["before_date"] is None
    assert last["overall"]["by"] == "Group score"


def test_a_nightly_run_shows_its_failed_checks(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    questions = v1_questions(30)
    store_questions(store, questions)
    model = MadeUpEvaluation(name="a", skill=0.9)
    store_evaluation(store, questions, model, texts=False)
    reference = read_rows(stored_file(store, "scores", "videomme", "a"), ScoredQuestion)
    store_nightly_run(store, questions, replace(model, skill=0.2), "2026-11-20")
    current = read_rows(store.observation("videomme", "a", "2026-11-20"), ScoredQuestion)
    observations = [
        Observation(name=name, rows=rows)
        for name, rows in (("reference", reference), ("2026-11-20", current))
    ]
    report = assess(observations, AlarmSpec())
    write_findings(store, "videomme", report, "made-up")
    [benchmark] = packed(build_page(store), "summary")["benchmarks"]
    [shown] = benchmark["history"]
    assert {finding["check"]: finding["summary"] for finding in shown["findings"]} == {
        finding.check.value: finding.summary for finding in report.findings if not finding.passed
    }
    assert "accuracy" in {finding["check"] for finding in shown["findings"]}
    [last] = benchmark["last_runs"]
    assert "points against the reference" in last["assessment"]


def test_only_the_named_evaluations_are_shown(store: Store) -> None:
    page = build_page(store, evaluations=["model-b", "blind"])
    [benchmark] = packed(page, "summary")["benchmarks"]
    assert [entry["name"] for entry in benchmark["evaluations"]] == ["blind", "model-b"]
    assert len(benchmark["comparisons"]) == 1


def test_an_evaluation_without_frames_is_a_baseline(v1: dict[str, Any]) -> None:
    assert {e["name"] for e in v1["evaluations"] if e["baseline"]} == {"blind"}


def test_a_shared_page_has_no_text_of_the_benchmark(store: Store, shared_file: Path) -> None:
    shared = shared_file.read_text(encoding="utf-8")
    assert packed(shared, "details") == {}
    content = json.dumps(packed(shared, "summary"), ensure_ascii=False) + unescape(shared)
    for question in read_rows(stored_file(store, "questions", "videomme"), Question):
        assert question.question not in content
        assert not any(option in content for option in question.options)
        assert question.question_id in content
    responses = {
        row.raw_output
        for row in read_rows(stored_file(store, "scores", "videomme", "model-a"), ScoredQuestion)
    }
    assert not any(raw in content for raw in responses if raw is not None and len(raw) > 2)


def test_a_shared_page_and_the_citation_have_no_address_path_or_price(tmp_path: Path) -> None:
    store, questions = Store.at(tmp_path), v1_questions(2)
    store_questions(store, questions)
    private = MadeUpEvaluation(
        name="own",
        model_settings=PRIVATE_SETTINGS,
        responses={"001-1": None},
        error="http://gpu7.private.example:8000/v1 did not answer",
    )
    store_evaluation(store, questions, private)
    shared = json.dumps(packed(build_page(store, share=True), "summary"))
    assert not re.search(r"private|PRIVATE|7\.7177", shared)
    (benchmark,) = packed(build_page(store), "summary")["benchmarks"]
    (evaluation,) = benchmark["evaluations"]
    assert evaluation["spec"]["model.base_url"] == PRIVATE_SETTINGS["base_url"]
    model = {k: v for k, v in evaluation["public_spec"].items() if k.startswith("model.")}
    assert model == {
        "model.kind": "openai_compatible",
        "model.name": "model-a",
        "model.model": "model-a",
        "model.revision": "r7",
    }


def test_the_page_requests_no_other_file(html: str) -> None:
    head = unescape(html[: html.index("</style>")])
    assert "default-src 'none'" in head
    assert "unsafe" not in head
    assert re.findall(r'\b(?:src|href)="(?!#)[^"]*"', html) == []
    assert "innerHTML" not in html
    assert "@import" not in html
    assert "url(" not in html


def test_the_policy_allows_only_this_style_and_script(html: str) -> None:
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert style is not None
    assert script is not None
    digests = [b64encode(sha256(m[1].encode()).digest()).decode() for m in (script, style)]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert re.findall(r"sha256-([^']+)", unescape(policy[1])) == digests
    assert "img-src 'none'; media-src 'none'" in unescape(policy[1])
    assert "img-src 'self'" in content_policy(style[1], script[1], is_served=True)


def test_a_page_is_written_atomically(store: Store, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file")
    with pytest.raises(StorageError):
        write_page(store, blocked / "page.html", share=True)
    assert blocked.read_text() == "a file"


@pytest.mark.slow
def test_a_page_with_long_responses_stays_within_the_size_limit(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    questions = v1_questions(5, benchmark="smoke")
    store_questions(store, questions)
    responses = {
        question.question_id: " ".join(f"{n * 7919 % 100_003:x}" for n in range(60_000))
        + f" {question.question_id} The answer is {question.answer}."
        for question in questions
    }
    store_evaluation(store, questions, MadeUpEvaluation(name="verbose", responses=responses))
    page = build_page(store)
    assert len(page.encode()) <= 2_500_000
    assert "only parts of long texts" in page
    answer = packed(page, "details")["smoke"]["videos"]["001"]["questions"]["001-1"]["answers"][0]
    parts = answer[0]["raw"]["parts"]
    assert sum(part.get("cut", utf16_length(part.get("text", ""))) for part in parts) == len(
        responses["001-1"]
    )
    assert parts[-1]["text"].endswith(f"The answer is {questions[0].answer}.")


@given(text=TEXTS, repeated=st.integers(1, 5), data=st.data())
def test_a_shortened_text_counts_every_character_and_keeps_the_span(
    text: str, repeated: int, data: st.DataObject
) -> None:
    text *= repeated
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    shortened = shorten(text, (start, end))
    if isinstance(shortened, str):
        assert shortened == text
        return
    units = text.encode("utf-16-le")
    position = 0
    kept = set()
    for part in shortened["parts"]:
        if "cut" in part:
            position += part["cut"]
            continue
        assert part["start"] == position
        length = utf16_length(part["text"])
        assert units[2 * position : 2 * (position + length)].decode("utf-16-le") == part["text"]
        kept |= set(range(position, position + length))
        position += length
    assert position == len(units) // 2
    assert set(range(*utf16_span(text, (start, end)))) <= kept


@given(TEXTS)
def test_packed_data_cannot_end_the_script_element(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", pack({"text": text}))


def test_chance_is_one_in_four_or_one_in_eight() -> None:
    assert chance(v1_questions(3)) == 0.25
    assert chance(v2_questions(3)) == 0.125


def test_published_results_have_a_source_and_both_tracks() -> None:
    published = published_results("videomme")
    assert published is not None
    assert "video-mme.github.io" in published["source"]
    gpt = next(row for row in published["rows"] if row["model"] == "GPT-4o OpenAI")
    assert gpt["overall"] == {"without": 0.719, "with": 0.772}
    assert published_results("smoke") is None
