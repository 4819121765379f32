"""Words that other programs write for a missing value, as options, answers and responses."""

import csv
import http.client
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.ports import free_port
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.formats.score_file import ScoreOptions, ScoreReport, audited_file, score_file
from videomme_pipeline.scoring.findings.run import Runs
from videomme_pipeline.scoring.findings.run_checks import stored_failures
from videomme_pipeline.scoring.readers.careful import is_error_text
from videomme_pipeline.scoring.readers.read_answer import ReaderName

WORDS = ("None", "N/A", "NA", "null", "nan")


def scored(path: Path, rows: list[dict[str, Any]]) -> ScoreReport:
    """The score of `rows`, written as a table or as JSON."""
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return score_file(path, ScoreOptions())


def row(number: int, options: list[str], answer: str, response: str | None) -> dict[str, Any]:
    return {
        "video_id": f"v{number}",
        "question": f"How many in {number}?",
        "options": options,
        "answer": answer,
        "prediction": response,
    }


@pytest.mark.parametrize("suffix", [".json", ".csv"])
@pytest.mark.parametrize("word", WORDS)
def test_an_option_can_be_called_like_a_missing_value(
    tmp_path: Path, suffix: str, word: str
) -> None:
    options = [word, "One", "Two", "Three"]
    rows = [row(1, options, word, word), row(2, options, "One", word), row(3, options, word, "A")]
    report = scored(tmp_path / f"results{suffix}", rows)
    assert [r.outcome.value for r in report.rows] == ["correct", "incorrect", "correct"]
    assert not any("left out:" in note for note in report.notes)


@pytest.mark.parametrize("word", WORDS)
def test_a_missing_response_of_a_table_is_failed(tmp_path: Path, word: str) -> None:
    options = ["Zero", "One", "Two", "Three"]
    rows = [row(1, options, "A", word), row(2, options, "A", ""), row(3, options, "A", "A")]
    report = scored(tmp_path / "results.csv", rows)
    assert [r.outcome.value for r in report.rows] == ["failed", "failed", "correct"]


def test_a_table_may_have_one_column_per_option(tmp_path: Path) -> None:
    rows = [
        {
            "index": number,
            "video": f"v{number}",
            "question": f"How many in {number}?",
            **dict(zip("ABCD", texts, strict=True)),
            "answer": answer,
            "prediction": response,
        }
        for number, (texts, answer, response) in enumerate(
            [
                (("Four", "N/A", "One", "Three"), "C", "One"),
                (("Four", "One", "", ""), "B", "One"),
                (("Four", "", "One", "Three"), "C", "C"),
                (("Four", "Two", "One", "Three"), "A", "Failed to obtain answer via API."),
            ]
        )
    ]
    report = scored(tmp_path / "results.csv", rows)
    outcomes = [(r.outcome.value, r.extracted_answer) for r in report.rows]
    assert outcomes[:2] == [("correct", "C"), ("correct", "B")]
    assert [question for question in report.notes if "option B is empty" in question]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"B": "Two", "C": "One"}, "option A is empty"),
        ({"A": "Two", "B": "Four", "D": "One"}, "option C is empty"),
        ({"options": ["A. Two", "C. Four", "D. One"]}, "the options have the letters A, C, D"),
        ({"options": "['Two' 'Four' 'One']"}, "it has no `options`, but only"),
        ({"options": ["One"]}, "it has no `options`, but only"),
    ],
)
def test_options_with_unclear_letters_are_a_problem_of_the_row(
    tmp_path: Path, columns: dict[str, Any], error: str
) -> None:
    unclear = {k: v for k, v in row(1, [], "A", "A").items() if k != "options"} | columns
    report = scored(tmp_path / "results.json", [unclear, row(2, ["Two", "One"], "A", "A")])
    assert len(report.rows) == 1
    assert error in report.notes[0]


@pytest.mark.parametrize("form", ["columns", "map", "text of a map", "text of a list"])
def test_the_tenth_option_has_the_tenth_letter(tmp_path: Path, form: str) -> None:
    texts = {str(number): f"Box {number}" for number in range(1, 11)}
    forms: dict[str, dict[str, Any]] = {
        "columns": {f"option{number}": text for number, text in texts.items()},
        "map": {"options": texts},
        "text of a map": {"options": str(texts)},
        "text of a list": {"options": str(tuple(texts.values()))},
    }
    plain = {k: v for k, v in row(1, [], "J", "Box 10").items() if k != "options"}
    report = scored(tmp_path / "results.json", [plain | forms[form]])
    assert [(r.extracted_answer, r.is_correct) for r in report.rows] == [("J", True)]


def test_a_key_whose_letter_and_text_name_two_options_is_a_problem(tmp_path: Path) -> None:
    options = ["Zero", "One", "Two"]
    rows = [row(1, options, "(B) Two", "B"), row(2, options, "(B) One", "B")]
    report = scored(tmp_path / "results.json", rows)
    assert len(report.rows) == 1
    assert "`answer` is '(B) Two', but this is the text of C" in report.notes[0]


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"is_success": False}, "failed"),
        ({"error_info": "x", "success": False}, "failed"),
        ({"error": "timeout"}, "failed"),
        ({"error": {"code": 429}}, "failed"),
        ({"error_code": 503}, "failed"),
        ({"error_message": "timeout"}, "failed"),
        ({"is_success": 0.0}, "failed"),
        ({"status": "Error: 429"}, "failed"),
        ({"status": "timed_out"}, "failed"),
        ({"status_code": 500}, "failed"),
        ({"error": {"code": None, "message": None}, "error_code": 0.0}, "correct"),
        ({"error": "N/A", "status_code": 200, "is_success": 1.0}, "correct"),
        ({"status": "failed"}, "failed"),
        ({"finish_reason": "error"}, "failed"),
        ({"is_success": True, "error": "", "status": "ok", "finish_reason": "length"}, "correct"),
        ({"error": None, "error_code": 0, "success": "True"}, "correct"),
    ],
)
def test_a_failure_beside_the_text_is_no_answer(
    tmp_path: Path, facts: dict[str, Any], outcome: str
) -> None:
    options = ["Zero", "One"]
    rows = [row(1, options, "A", "A") | facts, row(2, options, "A", "A")]
    report = scored(tmp_path / "results.json", rows)
    assert [r.outcome.value for r in report.rows] == [outcome, "correct"]
    if outcome == "failed":
        assert report.rows[0].error == f"{next(iter(facts))}: {next(iter(facts.values()))}"
        assert "1 of 2 answers are missing" in report.notes[0]


ERRORS = (
    "RateLimitError: 429 Too Many Requests",
    "[ERROR]",
    "This model's maximum context length is 32768 tokens.",
    "Cannot connect to host localhost:8000",
    "HTTPSConnectionPool(host='x', port=443): Read timed out.",
    "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
    "All 5 attempts failed",
    "Failed to obtain answer via API.",
    "<!DOCTYPE html><html><head>",
    '{"error": {"message": "A", "code": 500}}',
    "503 Service Unavailable",
    "Request timed out.",
    "None",
)


@pytest.mark.parametrize("text", ERRORS)
def test_the_text_of_an_error_is_failed_and_blocks_publication(tmp_path: Path, text: str) -> None:
    options = ["Zero", "One"]
    rows = [row(1, options, "A", text), row(2, options, "A", "A")]
    report = scored(tmp_path / "results.json", rows)
    assert [r.outcome.value for r in report.rows] == ["failed", "correct"]
    assert (report.rows[0].raw_output, report.rows[0].error) == (None, text)
    assert "1 of 2 answers are missing" in report.notes[0]
    run = audited_file(tmp_path / "results.json", ScoreOptions())
    (finding,) = stored_failures(run, Runs(runs=[run]))
    assert finding.numbers == {"empty": 0, "texts": 1, "answers": 2}
    as_published = ScoreOptions(reader=ReaderName.OFFICIAL_V1)
    report = score_file(tmp_path / "results.json", as_published)
    assert "failed" not in [r.outcome.value for r in report.rows]
    assert "1 responses are texts of errors" in report.notes[0]


@pytest.mark.parametrize("client", ["urllib", "http.client", "httpx", "openai"])
def test_the_error_of_a_client_without_a_server_is_no_answer(client: str) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/v1"
    requests: dict[str, Callable[[], object]] = {
        "urllib": lambda: urllib.request.urlopen(address),
        "http.client": lambda: http.client.HTTPConnection("127.0.0.1", port).request("GET", "/"),
        "httpx": lambda: httpx.get(address),
        "openai": openai.OpenAI(api_key="x", base_url=address, max_retries=0).models.list,
    }
    with pytest.raises((OSError, httpx.HTTPError, openai.OpenAIError)) as raised:
        requests[client]()
    assert is_error_text(str(raised.value), tuple(Letter)[:4], ())


@pytest.mark.parametrize("text", [text for text in ERRORS if "<" not in text])
def test_an_option_with_the_text_of_an_error_is_an_answer(tmp_path: Path, text: str) -> None:
    rows = [row(1, ["The page loads.", text], "B", text)]
    report = scored(tmp_path / "results.json", rows)
    assert [r.outcome.value for r in report.rows] == ["correct"]
