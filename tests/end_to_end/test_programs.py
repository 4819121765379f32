"""A program answers the questions of a project, and its answers and frames are stored."""

import asyncio
import gzip
import io
import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from tests.support.cli import use, videomme
from tests.support.made_up_requests import frame_set, request
from tests.support.paths import ROOT
from tests.support.projects import WriteProject
from tests.support.stored_files import stored_file
from videomme_pipeline.models.catalog import Catalog, build_model
from videomme_pipeline.models.video_llm import Reply
from videomme_pipeline.project.project import Project
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse import database

AGENT = """\
import json, pathlib, sys
for line in sys.stdin:
    question = json.loads(line)
    with open("asked.jsonl", "a") as asked:
        asked.write(line)
    used = [frame["seconds"] for frame in question["frames"][:2]]
    if question["video"]:
        assert pathlib.Path(question["video"]["path"]).stat().st_size
        used = [0.5]
    trace = {"looked at": used}
    answer = {"id": question["id"], "text": "A", "frames_used": used, "trace": trace}
    print(json.dumps(answer))
"""
pytestmark = pytest.mark.slow
KEYS = {"benchmark": "videomme", "model": "agent", "sampling": "uniform_n-4"}


@pytest.fixture
def write(root: Path, write_project: WriteProject, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that writes a project whose evaluation asks the agent, with changes of both."""

    def write(entry: Mapping[str, Any] = {}, **keys: Any) -> Project:
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        (folder / "agent.py").write_text(AGENT)
        command = [sys.executable, "agent.py"]
        models = {"agent": {"command": command, "files": ["agent.py"], **entry}}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        use(monkeypatch, root)
        monkeypatch.setenv("DAGSTER_HOME", str(root / "home"))
        return write_project({"mine": KEYS | keys}, videos=["002", "003"])

    return write


def asked(root: Path) -> list[dict[str, Any]]:
    """The questions that the agent got."""
    path = root / "configuration" / "asked.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_only_a_run_starts_the_program(root: Path, write: Any) -> None:
    project: Project = write(subtitles="window-500")
    for command in (("status",), ("status", "--reasons"), ("run", "--dry-run"), ("doctor",)):
        assert videomme(*command).status in (0, 1), command
        assert asked(root) == []
    ran = videomme("run", "mine")
    assert ran.status == 0, ran
    assert f"models.yaml, agent: {sys.executable} agent.py" in ran.err
    questions = asked(root)
    assert len({question["id"] for question in questions}) == len(questions) == 6
    assert {json.dumps(question["subtitles"]) for question in questions} == {
        '[{"start_seconds": 0.0, "end_seconds": 1.0, "text": "hello"}]'
    }
    assert videomme("run", "mine").status == 0
    assert len(asked(root)) == 6, "stored answers are not asked again"

    responses = read_rows(
        stored_file(project.store, "responses", "videomme", "mine", "002"), Response
    )
    assert {response.num_frames for response in responses} == {4}
    scores = read_rows(stored_file(project.store, "scores", "videomme", "mine"), ScoredQuestion)
    assert {row.num_frames for row in scores} == {2}
    with database.connect(project.store) as connection:
        frames = connection.execute("select frames from leaderboard").fetchall()
        findings = connection.execute(
            "select status, summary from citation_findings where check_name = 'frames'"
        ).fetchall()
    assert frames == [(2.0,)]
    ((status, summary),) = findings
    assert status == "warning"
    assert "another number of frames than planned in 6 of 6 answers: 002-1 (2 of 4)" in summary
    assert "looked at" in page(project)


def page(project: Project) -> str:
    """The texts of the results page."""
    match = re.search(r'id="data-details">([^<]*)<', project.store.report().read_text())
    assert match is not None
    return gzip.decompress(b64decode(match[1])).decode()


def test_a_changed_program_is_asked_again(root: Path, write: Any) -> None:
    write()
    assert videomme("run", "mine").status == 0
    agent = root / "configuration" / "agent.py"
    agent.write_text(f"{AGENT}# another version\n")
    assert "changed setting" in videomme("status", "--explain", "mine").out
    assert videomme("run", "mine").status == 0
    assert len(asked(root)) == 12
    agent.write_text(AGENT)
    assert videomme("run", "mine").status == 0
    assert len(asked(root)) == 12, "the answers of the first version are in the journal"


def test_a_program_gets_the_video_and_chooses_frames(root: Path, write: Any) -> None:
    write({"frames_as": "video_file"})
    assert videomme("run", "mine").status == 0
    assert {len(question["frames"]) for question in asked(root)} == {0}
    names = {Path(question["video"]["path"]).suffix for question in asked(root)}
    assert names == {".mp4"}


def page_blocks(language: str) -> list[str]:
    """The blocks of docs/programs.md in a language, in their order."""
    text = (ROOT / "docs" / "programs.md").read_text("utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in blocks if name == language]


GRAPH = """\
class Graph:
    def invoke(self, state):
        assert state["question"] and state["video"].endswith(".mp4")
        return {"answer": "C", "steps": [{"tool": "look", "seconds": 0.5}]}

graph = Graph()
"""


def test_the_steps_of_the_page_work(
    root: Path, write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "configuration"
    write_project({}, videos=["002", "003"])
    use(monkeypatch, root)
    monkeypatch.setenv("DAGSTER_HOME", str(root / "home"))
    script, (entry, chosen) = page_blocks("python")[0], page_blocks("yaml")
    first, gate = page_blocks("")
    (folder / "agent.py").write_text(script)
    models = yaml.safe_load(entry)
    models["agent-new"] = models["my-agent"] | {"version": "prompt-4"}
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    for line in first.replace("smoke", "videomme").splitlines():
        ended = videomme(*line.split()[1:])
        assert ended.status == 0, (line, ended)
    path = folder / "evaluations" / "agent-20.yaml"
    keys = yaml.safe_load(path.read_text())
    new = path.with_name("agent-new.yaml")
    new.write_text(yaml.safe_dump(keys | {"model": "agent-new"} | yaml.safe_load(chosen)))
    assert videomme("run", "agent-new").status == 1, "004 is not among the videos"
    new.write_text(yaml.safe_dump(keys | {"model": "agent-new"}))
    assert videomme("run", "agent-new").status == 0
    gated = videomme(*gate.split()[1:])
    assert (gated.status, "All answers are the same" in gated.out) == (3, True), "2 videos"


def test_a_graph_answers(tmp_path: Path, root: Path, write: Any) -> None:
    project: Project = write({"frames_as": "video_file", "files": []})
    (root / "configuration" / "agent.py").write_text(page_blocks("py")[0])
    (root / "configuration" / "my_agent.py").write_text(GRAPH)
    assert videomme("run", "mine").status == 0
    responses = read_rows(
        stored_file(project.store, "responses", "videomme", "mine", "002"), Response
    )
    assert {response.raw_output for response in responses} == {"C"}
    assert '"tool"' in str(responses[0].usage_json)


@pytest.mark.engine
def test_weights_in_a_script_answer(tmp_path: Path) -> None:
    environment = os.environ.get("VIDEOMME_TRANSFORMERS")
    if environment is None:
        pytest.skip("VIDEOMME_TRANSFORMERS does not name an environment with transformers")
    python = f"{environment}/bin/python"
    maker = ROOT / "tests" / "support" / "tiny_idefics3.py"
    subprocess.run([python, maker, tmp_path / "weights"], check=True)
    (tmp_path / "agent.py").write_text(page_blocks("py")[1])
    entry = {"command": [python, "agent.py", "weights"], "files": ["agent.py", "weights/*.json"]}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"agent": entry}))
    spec = Catalog.read(tmp_path / "models.yaml").find("agent")
    asked = request(frames=0)
    pictures = tuple(replace(frame, picture=jpeg()) for frame in frame_set(1).frames)

    async def answers() -> list[Reply]:
        model = build_model(spec)
        try:
            shown = replace(asked.frames, frames=pictures)
            return [
                await model.respond(asked),
                await model.respond(replace(asked, frames=shown)),
            ]
        finally:
            await model.close()

    blind, seeing = asyncio.run(answers())
    assert seeing.usage.completion_tokens
    assert seeing.usage.prompt_tokens is not None
    assert blind.usage.prompt_tokens is not None
    assert seeing.usage.prompt_tokens > blind.usage.prompt_tokens


def jpeg() -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(sink, "JPEG")
    return sink.getvalue()
