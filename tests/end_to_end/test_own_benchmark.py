"""A benchmark that is declared in one file outside the package runs through the whole pipeline."""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.facet_means import mean_over
from tests.support.registered import registered
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.benchmarks.benchmark import Benchmark, Size
from videomme_pipeline.benchmarks.facets import Facet, Facets
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.source import OnProgress, Source
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.formats.results_format import ResultsFormat
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.project.project import HOME_VARIABLE, Project, open_project
from videomme_pipeline.reports.page import build_page
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import breakdown
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse import database

# The declaration. A new benchmark needs nothing else.

VIDEOS = 4
ROOMS = ("kitchen", "garage")
QUESTIONS = (("counting", "E"), ("counting", "A"), ("order", "A"))


class DrawnSource(Source):
    """A few tiny videos, each with two questions on counting and one on order."""

    @property
    def version(self) -> str:
        return fingerprint(self.questions())

    def questions(self) -> Sequence[Question]:
        letters = find_benchmark(self.name).letters
        questions = [
            Question(
                benchmark=self.name,
                question_id=f"{video}-{number}",
                video_id=f"clip{video}",
                youtube_id=None,
                url=None,
                question=f"What is {number} of {video}?",
                options=tuple(f"{letter}. Thing {letter}." for letter in letters),
                answer=Letter(answer),
                facets=Facets({"skill": skill, "room": ROOMS[video % 2]}),
            )
            for video in range(VIDEOS)
            for number, (skill, answer) in enumerate(QUESTIONS)
        ]
        return self.settings.select(questions)

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        for number, video in enumerate(videos, start=1):
            path = self.folder / f"{video.file_stem}.mp4"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_video(path, frames=20 + number, width=64, height=48)
            on_progress(number, len(videos))
        self.invalidate()
        return {}


HOUSE = Benchmark(
    name="house",
    title="House",
    source=DrawnSource,
    facets=(
        Facet(column="skill", title="Skill", values=("counting", "order")),
        Facet(column="room", title="Room", of_video=True),
    ),
    crossings=(("skill", "room"),),
    letters=tuple(Letter)[:5],
    mean_of="skill",
    size=Size(videos=VIDEOS, questions_per_video=len(QUESTIONS)),
    is_public=True,
)

NARROW_HOUSE = HOUSE.model_copy(update={"name": "narrow_house", "letters": tuple(Letter)[:4]})
"""The same benchmark with a mistake: the answer E is not one of its letters."""

# The tests.


@pytest.fixture(scope="module", autouse=True)
def registered_house() -> Iterator[None]:
    with registered(HOUSE, NARROW_HOUSE):
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The benchmark after a complete run of two models, one of which sees no frames."""
    root = tmp_path_factory.mktemp("house")
    configuration = root / "configuration"
    (configuration / "evaluations").mkdir(parents=True)
    (configuration / "benchmarks.yaml").write_text("house: {}\nnarrow_house: {}\n")
    for name, evaluation in {
        "always-a": {"benchmark": "house", "model": "constant-A", "sampling": "uniform_n-4"},
        "always-e": {"benchmark": "house", "model": "constant-E"},
        "narrow": {"benchmark": "narrow_house", "model": "constant-A"},
    }.items():
        path = configuration / "evaluations" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(evaluation))
    project = open_project(configuration, str(root / "data"))
    (root / "home").mkdir()
    with (
        pytest.MonkeyPatch.context() as patch,
        dg.DagsterInstance.local_temp(str(root / "home")) as instance,
    ):
        patch.setenv(HOME_VARIABLE, str(root / "home"))
        assert refresh_project(project, instance, ["always-a", "always-e"]).not_fresh == []
    return project


def scores(project: Project, evaluation: str) -> list[ScoredQuestion]:
    return read_rows(stored_file(project.store, "scores", "house", evaluation), ScoredQuestion)


def test_the_error_names_an_answer_outside_the_declared_letters(
    project: Project, tmp_path: Path
) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        refreshed = refresh_project(project, instance, ["narrow"])
    reasons = {state.name: state.reason for state in refreshed.not_fresh}
    reason = reasons["narrow_house/questions"]
    assert "narrow_house, question 0-0: the answer is E, but the options are A, B, C, D" in reason


def test_questions_and_scores_have_the_facets_as_columns_of_sql(project: Project) -> None:
    with database.connect(project.store) as connection:
        for table in ("questions", "scored_questions"):
            assert {"skill", "room"} <= set(connection.table(table).columns)
    rows = scores(project, "always-a")
    assert len(rows) == 12
    assert {row.facets["room"] for row in rows} == set(ROOMS)
    assert len(Results(project.store).videos("house")) == VIDEOS


def test_the_fifth_option_is_offered_and_read(project: Project) -> None:
    rows = scores(project, "always-e")
    assert {row.extracted_answer for row in rows} == {Letter.E}
    assert sum(row.is_correct for row in rows) == VIDEOS


def test_each_facet_and_crossing_has_a_view_with_the_numbers_of_the_library(
    project: Project,
) -> None:
    rows = scores(project, "always-a")
    with database.connect(project.store) as connection:
        for name, columns in {
            "by_skill": ["skill"],
            "by_room": ["room"],
            "by_skill_and_room": ["skill", "room"],
        }.items():
            in_sql = database.query(
                connection,
                f"select * from {name} where benchmark = 'house' and evaluation = 'always-a'",
            )
            expected = breakdown(rows, [HOUSE.facet(column) for column in columns])
            assert {
                (*(row[column] for column in columns), row["accuracy"], row["questions"])
                for row in in_sql
            } == {(*row.values, row.accuracy, row.questions) for row in expected}


def test_the_headline_is_the_mean_of_the_skills_in_sql_as_in_the_library(project: Project) -> None:
    with database.connect(project.store) as connection:
        rows = database.query(connection, "select * from mean_over_skill order by evaluation")
    for row in rows:
        expected = mean_over(scores(project, row["evaluation"]), HOUSE.facet("skill"))
        assert row["accuracy"] == pytest.approx(expected.mean)
        assert row["standard_error"] == pytest.approx(expected.standard_error)
        assert (row["videos"], row["responses"]) == (VIDEOS, 12)
    # A is right for one of two counting questions, and for every order question.
    assert [row["accuracy"] for row in rows] == pytest.approx([0.75, 0.25])


def test_the_page_ranks_by_the_headline_and_shows_every_facet(project: Project) -> None:
    page = build_page(project.store)
    packed = re.search(r'id="data-summary">([^<]*)<', page)
    assert packed is not None
    (house,) = json.loads(gzip.decompress(b64decode(packed[1])))["benchmarks"]
    assert house["title"] == "House"
    assert house["mean_title"] == "Mean over skill (%)"
    assert [item["mean"]["value"] for item in house["evaluations"]] == [0.75, 0.25]
    assert [item["key"] for item in house["breakdowns"]] == ["skill", "room"]
    assert [item["key"] for item in house["crossed"]] == ["skill_and_room"]
    assert house["part_columns"] == [["counting", "Counting"], ["order", "Order"]]
    assert house["comparisons"][0]["overall"]["difference"] == -0.5


WRITTEN = [form for form in FORMATS.values() if form.rows is not None]


@pytest.mark.parametrize("form", WRITTEN, ids=[form.name for form in WRITTEN])
def test_an_exported_file_gets_the_same_score(
    project: Project, form: ResultsFormat, tmp_path: Path
) -> None:
    rows = scores(project, "always-a")
    questions = read_rows(stored_file(project.store, "questions", "house"), Question)
    path = tmp_path / "results"
    path.write_text(write_results(questions, rows, form))
    report = score_file(path, ScoreOptions(benchmark="house"))
    assert report.notes == ()
    assert [row.facets for row in report.rows] == [row.facets for row in rows]
    assert report.breakdowns.keys() == {"overall", "by_skill", "by_room", "by_skill_and_room"}


def test_a_file_that_lacks_a_video_is_reported(project: Project, tmp_path: Path) -> None:
    rows = scores(project, "always-a")
    questions = read_rows(stored_file(project.store, "questions", "house"), Question)[3:]
    path = tmp_path / "results.jsonl"
    path.write_text(write_results(questions, rows, FORMATS["lmms_eval"]))
    report = score_file(path, ScoreOptions(benchmark="house"))
    assert report.notes == ("3 videos, but the benchmark has 4",)


def test_compare_tests_the_facets_and_the_headline(project: Project) -> None:
    comparison = compare(scores(project, "always-e"), scores(project, "always-a"))
    assert comparison.mean_over is not None
    assert comparison.mean_over.difference.mean == pytest.approx(0.5)
    assert {marginal.column for marginal in comparison.marginals} == {"skill", "room"}
