"""The facet `needs_video`: a blind run or a published list splits the scores of other runs."""

import gzip
import json
import re
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.cli import use, videomme
from tests.support.model_server import Fault, ModelServer, letter_of, no_faults
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import AnnotationError, ConfigurationError
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.reports.page import build_page
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.storage.tables import read_rows, stored_settings
from videomme_pipeline.warehouse.database import connect, query

SEEING = {"benchmark": "smoke", "model": "served", "sampling": "uniform_n-2"}
BLIND = {"benchmark": "smoke", "model": "served", "prompt": "blind.txt", "repeats": 3}
GUESSES = {"benchmark": "smoke", "model": "random"}
EVALUATIONS: Mapping[str, Any] = {"seeing": SEEING, "blind": BLIND, "guesses": GUESSES}
BLIND_MARK = "You see nothing."
PROMPT = f"{{{{ question }}}}\n{{{{ options }}}}\n{BLIND_MARK}"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def write(
    root: Path, server: ModelServer, needs_video: str | None, prompt: str = PROMPT
) -> Project:
    folder = root / "configuration"
    (folder / "evaluations").mkdir(parents=True, exist_ok=True)
    for name, evaluation in EVALUATIONS.items():
        (folder / "evaluations" / f"{name}.yaml").write_text(yaml.safe_dump(evaluation))
    (folder / "evaluations" / "blind.txt").write_text(prompt)
    served = {"base_url": server.base_url, "limits": {"max_attempts": 1}}
    (folder / "models.yaml").write_text(yaml.safe_dump({"served": served}))
    smoke = {"limit": 2} | ({"needs_video": needs_video} if needs_video else {})
    (folder / "benchmarks.yaml").write_text(yaml.safe_dump({"smoke": smoke}))
    return open_project(folder, str(root / "data"))


def scored(project: Project, evaluation: str) -> list[ScoredQuestion]:
    return read_rows(stored_file(project.store, "scores", "smoke", evaluation), ScoredQuestion)


def split_of(project: Project, evaluation: str) -> dict[str, str | None]:
    return {row.question_id: row.facets.get("needs_video") for row in scored(project, evaluation)}


def by_hand(project: Project, blind: str) -> dict[str, str]:
    """The split, recomputed from the letters of the blind run."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for row in scored(project, blind):
        asked[row.question_id] += row.extracted_answer is not None
        right[row.question_id] += row.extracted_answer == row.answer
    return {
        question: "no" if right[question] > asked[question] / 2 else "yes" for question in asked
    }


class Model:
    """Answers that depend on the text and on the number of earlier requests with the same text."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, text: str) -> str:
        self.asked[text] += 1
        is_odd = self.asked[text] % 3 == 0
        return letter_of(text) if is_odd or BLIND_MARK not in text else "AB"["Guess" in text]


@pytest.mark.slow
def test_a_blind_run_splits_the_scores_of_all_other_evaluations(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(answer=Model()) as server:
        without = write(tmp_path, server, None)
        assert refresh_project(without, instance, list(EVALUATIONS)).not_fresh == []
        assert set(split_of(without, "seeing").values()) == {None}
        requests = server.request_count

        project = write(tmp_path, server, "blind")
        states = plan_project(project, list(EVALUATIONS))
        assert {state.name for state in states if state.freshness is not Freshness.FRESH} == {
            "smoke/scores seeing", "smoke/scores guesses", "warehouse", "report_page",
        }  # fmt: skip
        again = refresh_project(project, instance, list(EVALUATIONS))
        assert again.not_fresh == []
        assert server.request_count == requests, "a split needs no new answer"
        assert again.built == {"smoke/scores": 2, "warehouse": 1, "report_page": 1}

        expected = by_hand(project, "blind")
        assert set(expected.values()) == {"yes", "no"}
        assert split_of(project, "seeing") == split_of(project, "guesses") == expected
        assert set(split_of(project, "blind").values()) == {None}, "its own split would be 0 and 1"
        settings = stored_settings(stored_file(project.store, "scores", "smoke", "seeing"))
        blind = project.configuration.evaluation("blind")
        assert settings["needs_video"] == {
            "evaluation": "blind",
            "fingerprint": blind.fingerprint,
        }

        correct: dict[str, list[bool]] = defaultdict(list)
        for row in scored(project, "seeing"):
            correct[expected[row.question_id]].append(row.is_correct)
        shown = {
            value: (len(rows), sum(rows) / len(rows)) for value, rows in sorted(correct.items())
        }
        with connect(project.store) as connection:
            rows = query(connection, "from by_needs_video where evaluation = 'seeing' order by all")
        assert {r["needs_video"]: (r["questions"], r["accuracy"]) for r in rows} == {
            value: (n, pytest.approx(accuracy)) for value, (n, accuracy) in shown.items()
        }
        data = re.search(r'id="data-summary">([^<]*)<', build_page(project.store))
        assert data
        (smoke,) = json.loads(gzip.decompress(b64decode(data[1])))["benchmarks"]
        (cells,) = [b for b in smoke["breakdowns"] if b["key"] == "needs_video"]
        assert [row["values"] for row in cells["rows"]] == [
            ["needs video: yes"],
            ["needs video: no"],
        ]
        assert dict(
            zip(smoke["questions"]["id"], smoke["questions"]["needs_video"], strict=True)
        ) == (expected)

        use(monkeypatch, tmp_path)
        compared = videomme("compare", "seeing", "guesses", "--json").json["marginals"]
        n_of = {m["value"]: m["n"] for m in compared if m["column"] == "needs_video"}
        assert n_of == {value: n for value, (n, _) in shown.items()}
        gate = videomme("gate", "seeing", "seeing", "--facet", "needs_video", "--json")
        assert {check["name"] for check in gate.json["checks"]} >= {"needs_video: yes"}

        changed = write(tmp_path, server, "blind", prompt=f"{PROMPT} Guess.")
        states = plan_project(changed, ["seeing"])
        assert [s.name for s in states if s.freshness is not Freshness.FRESH] == [
            "smoke/scores seeing", "warehouse", "report_page",
        ]  # fmt: skip
        assert refresh_project(changed, instance, list(EVALUATIONS)).not_fresh == []
        new = [
            received for received in server.requests[requests:] if "image_url" in str(received.body)
        ]
        assert (new, server.request_count) == ([], requests + 3 * len(expected))
        assert split_of(changed, "seeing") == by_hand(changed, "blind") != expected


@pytest.mark.slow
def test_a_question_without_a_blind_answer_is_unknown_until_it_is_answered(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with ModelServer(answer=Model()) as server:
        project = write(tmp_path, server, "blind")
        refused = project.benchmarks["smoke"].open_source().questions()[0]

        def fault(text: str, asked_before: int) -> Fault | None:
            is_refused = refused.question in text and BLIND_MARK in text
            return Fault.SERVER_ERROR if is_refused else None

        server.faults = fault
        refreshed = refresh_project(project, instance, ["seeing", "blind"])
        reasons = {state.name: state.reason for state in refreshed.not_fresh}
        unanswered = {r.question_id for r in scored(project, "blind") if r.raw_output is None}
        assert refused.question_id in unanswered
        assert reasons["smoke/scores seeing"] == (
            f"`needs_video` needs the answers of blind, which has not answered "
            f"{3 * len(unanswered)} questions; run `videomme run blind`"
        )
        split = split_of(project, "seeing")
        assert {question for question, value in split.items() if value == "unknown"} == unanswered
        with connect(project.store) as connection:
            (row,) = query(connection, "from by_needs_video where needs_video = 'unknown'")
        assert row["questions"] == len(unanswered)

        before = server.request_count
        server.faults = no_faults
        assert refresh_project(project, instance, ["seeing", "blind"]).not_fresh == []
        assert "unknown" not in split_of(project, "seeing").values()
        assert server.request_count == before + 3 * len(unanswered)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("seeing", "`needs_video: seeing` has `benchmark: smoke` and `sampling: uniform_n-2`; "),
        ("blimd", "no evaluation `blimd`"),
    ],
)
def test_only_a_blind_evaluation_of_the_benchmark_can_split_scores(
    name: str, message: str, tmp_path: Path
) -> None:
    with ModelServer() as server, pytest.raises(ConfigurationError) as error:
        write(tmp_path, server, name)
    assert message in str(error.value)


def write_listed(root: Path, native: str) -> Project:
    """A project with a benchmark that declares the file of the questions that need the video."""
    folder, data = root / "configuration", root / "mine"
    (folder / "benchmarks").mkdir(parents=True, exist_ok=True)
    data.mkdir(exist_ok=True)
    rows = [
        {"id": f"q {n}", "clip": "a.mp4", "q": f"What {n}?", "o": ["x", "y"], "a": "A"}
        for n in range(3)
    ]
    (data / "questions.json").write_text(json.dumps(rows))
    (data / "native.txt").write_text(native)
    columns = {"question_id": "id", "video": "clip", "question": "q", "options": "o", "answer": "a"}
    declaration = {
        "title": "Mine",
        "folder": str(data),
        "annotations": "questions.json",
        "columns": columns,
        "facets": {"needs_video": {"file": "native.txt"}},
    }
    (folder / "benchmarks" / "mine.yaml").write_text(yaml.safe_dump(declaration))
    if not (folder / "benchmarks.yaml").exists():
        (folder / "benchmarks.yaml").write_text("{}")
    return open_project(folder, str(root / "data"))


@pytest.mark.parametrize("native", ['["q 0", "q 2", "other"]', "q 0\nq 2\n"])
def test_a_published_list_splits_the_questions_of_a_declared_benchmark(
    native: str, tmp_path: Path
) -> None:
    source = write_listed(tmp_path, native).benchmarks["mine"].open_source()
    questions = source.questions()
    assert [q.facets["needs_video"] for q in questions] == ["yes", "no", "yes"]
    assert set(find_benchmark("mine").breakdowns(Measure.ACCURACY)) == {"overall", "by_needs_video"}
    assert "needs_video" not in dataset_row(questions[0]), "the dataset has no such column"

    before = source.version
    changed = write_listed(tmp_path, "q 1").benchmarks["mine"].open_source()
    assert changed.version != before
    assert [q.facets["needs_video"] for q in changed.questions()] == ["no", "yes", "no"]
    with pytest.raises(AnnotationError, match=r"native.txt: no question .* has one of its ids"):
        write_listed(tmp_path, "q1").benchmarks["mine"].open_source().questions()


def test_a_list_and_a_blind_run_exclude_each_other(tmp_path: Path) -> None:
    project = write_listed(tmp_path, "q 1")
    folder = project.configuration.folder
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "blind.yaml").write_text("{benchmark: mine, model: random}")
    (folder / "benchmarks.yaml").write_text("mine: {needs_video: blind}")
    with pytest.raises(ConfigurationError, match="the benchmark declares this facet itself"):
        open_project(folder, str(tmp_path / "data"))
