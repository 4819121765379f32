"""A grouped benchmark that one YAML file declares runs through the whole pipeline.

Its groups have three questions. Its facets, scores and structures differ from Video-MME-v2.
"""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.cli import use, videomme
from tests.support.model_server import ModelServer
from tests.support.registered import registered
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.formats.results_format import ResultsFormat
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.project.project import HOME_VARIABLE, Project, open_project
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.reports.page import build_page
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import group_breakdowns
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse import database

DECLARATION = """\
title: Trios
folder: {folder}
annotations: questions.json
columns: {{video: video, question: question, options: options, answer: answer, question_id: id}}
letters: 3
is_public: true
facets:
  kind: {{values: [free, steps], required: true}}
  structure: {{tested: false, shown: false}}
  topic: {{of_video: true}}
  difficulty: {{values: [1, 2], value_title: "Grade {{}}"}}
grouping:
  size: 3
  scores: [0, 10, 40, 100]
  chain:
    facet: kind
    value: steps
    structure: structure
    scores: {{"[1,[2,3]]": [0, 5, 50, 100]}}
strata: [kind]
"""

ANSWERS = ("AAB", "BAA", "AAA", "ABA")
"""The answers to the questions on each video. Every other video has questions in steps."""
SCORES = {"always-a": (40, 0, 100, 50), "always-b": (10, 5, 0, 0)}
"""The scores of the groups: video 3 has question 1 and one of the second step right."""


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{video}-{number}",
            "video": f"{video}.mp4",
            "question": f"What is {number} of {video}?",
            "options": ["Red", "Blue", "Green"],
            "answer": answer,
            "kind": "steps" if video % 2 else "free",
            "structure": "[1, [2, 3]]" if video % 2 else None,
            "topic": "house" if video < 2 else "garden",
            "difficulty": number % 2 + 1,
        }
        for video, answers in enumerate(ANSWERS)
        for number, answer in enumerate(answers, start=1)
    ]


@pytest.fixture(scope="module", autouse=True)
def restored_registry() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The benchmark after a complete run of two models."""
    root = tmp_path_factory.mktemp("trios")
    configuration, videos = root / "configuration", root / "videos"
    for folder in (configuration / "evaluations", configuration / "benchmarks", videos):
        folder.mkdir(parents=True)
    (configuration / "benchmarks.yaml").write_text("")
    (configuration / "benchmarks" / "trios.yaml").write_text(DECLARATION.format(folder=videos))
    (videos / "questions.json").write_text(json.dumps(rows()))
    for video in range(len(ANSWERS)):
        write_video(videos / f"{video}.mp4", frames=20 + video, width=64, height=48)
    for letter in "AB":
        evaluation = f"{{benchmark: trios, model: constant-{letter}}}\n"
        (configuration / "evaluations" / f"always-{letter.lower()}.yaml").write_text(evaluation)
    project = open_project(configuration, str(root / "data"))
    (root / "home").mkdir()
    with (
        pytest.MonkeyPatch.context() as patch,
        dg.DagsterInstance.local_temp(str(root / "home")) as instance,
    ):
        patch.setenv(HOME_VARIABLE, str(root / "home"))
        assert refresh_project(project, instance, list(SCORES)).not_fresh == []
    return project


def scores(project: Project, evaluation: str) -> list[ScoredQuestion]:
    return read_rows(stored_file(project.store, "scores", "trios", evaluation), ScoredQuestion)


@pytest.mark.parametrize("evaluation", SCORES)
def test_groups_are_scored_by_the_declared_rule(project: Project, evaluation: str) -> None:
    _, groups, unscored = group_breakdowns(find_benchmark("trios"), scores(project, evaluation))
    assert unscored == []
    assert tuple(group.score for group in groups) == SCORES[evaluation]
    assert [group.facets.get("structure") for group in groups] == [None, "[1,[2,3]]"] * 2


def test_each_facet_has_a_view_with_the_numbers_of_the_library(project: Project) -> None:
    benchmark = find_benchmark("trios")
    expected = group_breakdowns(benchmark, scores(project, "always-a"))[0]
    assert list(expected) == [
        "group_score_overall",
        "group_score_by_kind",
        "group_score_by_topic",
        "group_score_by_difficulty",
    ]
    with database.connect(project.store) as connection:
        for name, cells in expected.items():
            column = name.removeprefix("group_score_by_")
            in_sql = database.query(
                connection,
                f"select * from {name} where benchmark = 'trios' and evaluation = 'always-a'",
            )
            assert {(str(row.get(column, "")), row["group_score"]) for row in in_sql} == {
                ("".join(cell.values), cell.group_score) for cell in cells
            }
        (first, second) = database.query(
            connection, "select * from headlines where benchmark = 'trios' order by score desc"
        )
    assert (first["metric"], first["score"]) == ("group_score", pytest.approx(0.475))
    assert second["score"] == pytest.approx(0.0375)


def page_part(project: Project, part: str) -> Any:
    """The data of the page in `part` (summary or details)."""
    packed = re.search(rf'id="data-{part}">([^<]*)<', build_page(project.store))
    assert packed is not None
    return json.loads(gzip.decompress(b64decode(packed[1])))


def test_the_page_shows_the_group_scores(project: Project) -> None:
    (trios,) = page_part(project, "summary")["benchmarks"]
    assert [item["group_score"] for item in trios["evaluations"]] == [0.475, 0.0375]
    assert [item["key"] for item in trios["breakdowns"]] == ["kind", "topic", "difficulty"]


def test_a_comparison_tests_groups_by_their_facets(project: Project) -> None:
    comparison = compare(scores(project, "always-b"), scores(project, "always-a"))
    assert comparison.group_score is not None
    assert comparison.group_score.difference.mean == pytest.approx(47.5 - 3.75)
    assert {marginal.column for marginal in comparison.marginals} == {
        "kind",
        "topic",
        "difficulty",
    }


@pytest.mark.slow
def test_a_conversation_is_another_protocol(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = project.configuration.folder
    keys = {"benchmark": "trios", "model": "served", "sampling": "uniform_n-4"}
    evaluations = {
        "single": keys,
        "talk": {**keys, "conversation": "group"},
        "cut": {**keys, "conversation": "group", "questions": ["0-1", "1-1", "1-2", "1-3"]},
    }
    for name, entry in evaluations.items():
        (configuration / "evaluations" / f"{name}.yaml").write_text(yaml.safe_dump(entry))
    use(monkeypatch, configuration.parent)
    monkeypatch.setenv(HOME_VARIABLE, str(configuration.parent / "home"))
    with ModelServer(answer=lambda text: "AB"["is 2" in text]) as server:
        models = f"served: {{base_url: '{server.base_url}', prices: {{input: 1, output: 1}}}}\n"
        (configuration / "models.yaml").write_text(models)
        assert videomme("run", "single").status == 0
        assert server.request_count == 12
        before = {row["evaluation"]: row for row in dry_run("talk")["requests"]}
        assert videomme("run", "talk").status == 0
        assert server.request_count == 12 + 8, "the first turns are requests of `single`"
        assert dry_run("talk")["requests"] == []
        cut = videomme("run", "cut")
        assert "has 1 of the 3 questions on 0, which are one conversation" in cut.out + cut.err
        assert server.request_count == 20, "the answers about 1 are stored"
        bodies = [request.body for request in server.requests[12:]]
    assert (before["talk"]["questions"], before["talk"]["requests"]) == (12, 8)
    assert before["talk"]["prompt_tokens"] is None, "the model has no published rule"
    assert {
        len([part for part in message["content"] if part["type"] == "image_url"])
        for body in bodies
        for message in body["messages"][:1]
    } == {4}
    assert {type(message["content"]) for body in bodies for message in body["messages"][1:]} == {
        str
    }

    prompts = read_rows(stored_file(project.store, "prompts", "trios", "talk", "2"), Prompt)
    assert [prompt.question_id for prompt in prompts] == ["2-1", "2-2", "2-3"]
    assert ["frames" in prompt.text for prompt in prompts] == [True, False, False]
    answers = {
        name: question["answers"][-1][0]
        for name, question in page_part(project.reopened(), "details")["trios"]["videos"]["2"][
            "questions"
        ].items()
    }
    assert [answers[name]["earlier"] for name in ("2-1", "2-2")] == [[], ["2-1"]]
    turns = [(answers[name]["prompt"], answers[name]["raw"]) for name in answers["2-3"]["earlier"]]
    sent = next(body["messages"] for body in bodies if "is 3 of 2?" in str(body["messages"][-1]))
    assert sent[0]["content"][-1]["text"] == turns[0][0]
    assert [message["content"] for message in sent[1:]] == [
        turns[0][1],
        *turns[1],
        answers["2-3"]["prompt"],
    ]
    talk, single = scores(project, "talk"), scores(project, "single")
    assert {row.track for row in talk} == {"conversation_without_subtitles"}
    assert [row.num_frames for row in talk] == [row.num_frames for row in single]
    with pytest.raises(ScoringError, match="talk is conversation without subtitles: they are of"):
        compare(single, talk)
    with database.connect(project.reopened().store) as connection:
        stated = database.query(
            connection, "from citation_findings where check_name = 'conversation'"
        )
    assert {(row["evaluation"], row["status"]) for row in stated} == {
        ("talk", "warning"),
        ("cut", "warning"),
    }
    shown = " ".join(videomme("scores").out.split())
    titles = [
        "Chosen lists of questions (no scores of a benchmark); Groups of questions, each asked",
        "Groups of questions, each asked as one conversation",
    ]
    assert [shown.count(title) for title in titles] == [1, 2]
    assert "changed setting" not in videomme("status", "--explain", "talk").out
    tracks = "of different tracks (without_subtitles, conversation_without_subtitles)"
    assert tracks in videomme("race", "single", "talk").err


def dry_run(name: str) -> Any:
    return videomme("run", name, "--dry-run", "--json").json


WRITTEN = [form for form in FORMATS.values() if form.rows is not None]


@pytest.mark.parametrize("form", WRITTEN, ids=[form.name for form in WRITTEN])
def test_an_exported_file_gets_the_same_score(
    project: Project, form: ResultsFormat, tmp_path: Path
) -> None:
    questions = read_rows(stored_file(project.store, "questions", "trios"), Question)
    path = tmp_path / "results"
    path.write_text(write_results(questions, scores(project, "always-a"), form))
    report = score_file(path, ScoreOptions(benchmark="trios"))
    (overall,) = report.group_breakdowns["group_score_overall"]
    assert (overall.groups, overall.group_score) == (4, 47.5)
    assert report.rating is None
