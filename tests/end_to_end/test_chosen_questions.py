"""An evaluation of chosen questions asks only these, and its score stays apart."""

import dagster as dg
import pytest

from tests.support.cli import use, videomme
from tests.support.projects import Copy, WriteProject
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse import database

KEYS = {"benchmark": "videomme", "model": "constant-A"}
CHOSEN = ["002-1", "002-3", "004-2"]

pytestmark = pytest.mark.slow


def test_only_chosen_questions_are_asked_and_shown_apart(
    write_project: WriteProject,
    instance: dg.DagsterInstance,
    copy: Copy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = write_project({"whole": KEYS, "errors": KEYS | {"questions": CHOSEN}})
    assert refresh_project(project, instance, ["whole", "errors"]).not_fresh == []
    store = project.store
    prompts = read_rows(stored_file(store, "prompts", "videomme", "errors", "002"), Prompt)
    responses = read_rows(stored_file(store, "responses", "videomme", "errors", "002"), Response)
    assert [row.question_id for row in prompts] == ["002-1", "002-3"]
    assert [row.question_id for row in responses] == ["002-1", "002-3"]
    scores = read_rows(stored_file(store, "scores", "videomme", "errors"), ScoredQuestion)
    assert [(row.question_id, row.track) for row in scores] == [
        (question_id, "chosen_without_subtitles") for question_id in CHOSEN
    ]
    with database.connect(store) as connection:
        board = connection.execute(
            "select evaluation, track, questions, complete, citation from leaderboard order by all"
        ).fetchall()
        findings = connection.execute(
            "select evaluation, summary from citation_findings "
            "where check_name = 'release' and status = 'blocked'"
        ).fetchall()
    assert board == [
        ("errors", "chosen_without_subtitles", 3, False, "blocked"),
        ("whole", "without_subtitles", 9, False, "warning"),
    ]
    summary = "3 questions on 2 videos: a list of questions that were chosen by their ids"
    assert findings == [("errors", summary)]

    use(monkeypatch, copy.folder.parent)
    for command in (("scores",), ("scores", "videomme")):
        tables = videomme(*command).out.split("\n\n")
        assert ("whole" in tables[0], "errors" in tables[0]) == (True, False)
        assert tables[1].startswith("Chosen lists of questions (no scores of a benchmark)\n")
        assert ("whole" in tables[1], "errors" in tables[1]) == (False, True)

    project = write_project({"whole": KEYS, "errors": KEYS | {"questions": [*CHOSEN, "004-3"]}})
    result = refresh_project(project, instance, ["whole", "errors"])
    assert result.not_fresh == []
    built = {asset: count for asset, count in result.built.items() if "videomme" in asset}
    assert built == {"videomme/prompts": 1, "videomme/responses": 1, "videomme/scores": 1}

    project = write_project({"errors": KEYS | {"questions": ["002-1", "2-1"]}})
    (state, *_) = refresh_project(project, instance, ["errors"]).not_fresh
    assert "`questions` has 2-1, but the benchmark" in str(state)
