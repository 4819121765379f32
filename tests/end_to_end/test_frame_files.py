"""A file names the frames of each question: real videos, Dagster runs and a real HTTP server."""

import base64
import io
import json
import signal
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import av
import dagster as dg
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from PIL import Image

from tests.support.builders import read_barcode
from tests.support.cli import use, videomme
from tests.support.commands import QuickCommand, run_quickly
from tests.support.model_server import ModelServer
from tests.support.projects import Copy, WriteServed
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.models.endpoint.endpoints import FramesAs
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.subtitles.align import AlignedLine
from videomme_pipeline.warehouse import database

EVALUATION = {
    "benchmark": "videomme",
    "model": "served",
    "sampling": "from_file-chosen.native.png",
}
VIDEOS = ("002", "003")
CHOSEN: Mapping[str, Sequence[int]] = {
    "002-1": [20, 3],
    "002-2": [3, 7, 29],
    "002-3": [11],
    "003-1": [39],
    "003-2": [0, 1, 2],
    "003-3": [5, 30],
}


def write_chosen(root: Path, entries: Mapping[str, object]) -> None:
    folder = root / "configuration" / "samplings"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chosen.json").write_text(json.dumps(entries))


def pictures(body: Mapping[str, Any]) -> list[NDArray[np.uint8]]:
    parts = [part for part in body["messages"][-1]["content"] if part["type"] == "image_url"]
    urls = [part["image_url"]["url"] for part in parts]
    data = [
        Path(url.removeprefix("file://")).read_bytes()
        if url.startswith("file://")
        else base64.b64decode(url.partition("base64,")[2])
        for url in urls
    ]
    return [np.asarray(Image.open(io.BytesIO(encoded))) for encoded in data]


def arrived(server: ModelServer, project: Project) -> dict[str, list[list[NDArray[np.uint8]]]]:
    """The pictures of each request by the id of its question."""
    questions = project.benchmarks["videomme"].snapshot.questions
    ids = {q.question: q.question_id for on_video in questions.values() for q in on_video}
    by_question = defaultdict[str, list[list[NDArray[np.uint8]]]](list)
    for received in server.requests:
        (question_id,) = [ids[text] for text in ids if text in received.question]
        by_question[question_id].append(pictures(received.body))
    return by_question


def decoded(path: Path) -> list[NDArray[np.int16]]:
    with av.open(str(path)) as container:
        frames = container.decode(video=0)
        return [frame.to_ndarray(format="rgb24").astype(np.int16) for frame in frames]


def numbers(sent: Sequence[Sequence[NDArray[np.uint8]]]) -> list[int]:
    (of_one_request,) = sent
    return list(map(read_barcode, of_one_request))


def rows_of(project: Project, name: str = "served") -> dict[str, ScoredQuestion]:
    rows = read_rows(stored_file(project.store, "scores", "videomme", name), ScoredQuestion)
    return {row.question_id: row for row in rows}


@pytest.mark.slow
def test_each_question_gets_its_own_frames_in_its_order_and_a_change_asks_about_one_video(
    write_served: WriteServed, root: Path, copy: Copy, instance: dg.DagsterInstance
) -> None:
    write_chosen(root, CHOSEN)
    with ModelServer() as server:
        project = write_served(server.base_url, {"served": EVALUATION}, VIDEOS)
        assert refresh_project(project, instance, ["served"]).not_fresh == []
        sent = arrived(server, project)
        assert {name: numbers(of_one) for name, of_one in sent.items()} == CHOSEN
        for video_id in VIDEOS:
            frames = decoded(copy.video(video_id))
            for name, ((*of_one,),) in sent.items():
                if name.startswith(video_id):
                    for number, picture in zip(CHOSEN[name], of_one, strict=True):
                        distances = [np.abs(picture - frame).mean() for frame in frames]
                        assert np.argmin(distances) == number
                        assert distances[number] < 5
        rows = rows_of(project)
        assert {name: row.num_frames for name, row in rows.items()} == {
            name: len(chosen) for name, chosen in CHOSEN.items()
        }
        assert {row.sampling for row in rows.values()} == {"from_file-chosen.native.png"}
        with database.connect(project.store) as connection:
            checks = dict(
                connection.execute("select check_name, summary from citation_findings").fetchall()
            )
            (usage,) = connection.execute(
                "select frames_per_question, frame_bytes_per_question, "
                "decode_cpu_seconds_per_question from usage"
            ).fetchall()
            ((decoded_seconds,),) = connection.execute(
                "select sum(decode_cpu_seconds) from decode_times"
            ).fetchall()
        assert checks["frames"] == "6 requests were sent with the planned 1 to 3 frames"
        assert usage[0] == 2
        assert usage[2] == pytest.approx(decoded_seconds / 6)
        assert usage[2] > 0
        sizes = [received.body_bytes for received in server.requests]
        assert usage[1] > 0
        assert sum(sizes) > 6 * usage[1]

        asked = server.request_count
        write_chosen(root, {**CHOSEN, "002-1": [3, 20], "999-1": [1]})
        project = write_served(server.base_url, {"served": EVALUATION}, VIDEOS)
        changed = refresh_project(project, instance, ["served"])
        assert changed.not_fresh == []
        own = ("frames", "prompts", "responses", "scores")
        assert {f"videomme/{name}": 1 for name in own}.items() <= changed.built.items()
        assert changed.built["videomme/videos"] == changed.built["videomme/questions"] == 0
        assert server.request_count == asked + 1, "the other two questions have the same frames"
        assert numbers(arrived(server, project)["002-1"][1:]) == [3, 20]
        fingerprints = {row.evaluation_fingerprint for row in rows_of(project).values()}
        assert fingerprints == {project.configuration.evaluation("served").fingerprint}
        write_chosen(root, {**CHOSEN, "002-1": [3, 20], "999-1": [2]})
        project = write_served(server.base_url, {"served": EVALUATION}, VIDEOS)
        assert refresh_project(project, instance, ["served"]).built["videomme/responses"] == 0
        assert server.request_count == asked + 1


@pytest.mark.slow
def test_a_question_without_usable_frames_fails_alone_and_is_never_answered(
    write_served: WriteServed, root: Path, instance: dg.DagsterInstance
) -> None:
    rows = [
        {"question_id": "002-1", "frame_idx": [1, 2]},
        {"question_id": "002-2", "frame_idx": [4, 30]},
        {"question_id": "003-1", "frame_idx": []},
        {"question_id": "003-2", "frame_idx": [1]},
        {"question_id": "003-2", "frame_idx": [2]},
        {"question_id": "003-3", "frame_idx": [6]},
    ]
    write_chosen(root, {"rows": rows})
    evaluations = {
        "blind": {**EVALUATION, "sampling": "none"},
        "served": EVALUATION,
        "served-subtitles": {**EVALUATION, "subtitles": "window-500"},
    }
    with ModelServer() as server:
        project = write_served(server.base_url, evaluations, ("002", "003", "004"))
        refreshed = refresh_project(project, instance, list(evaluations))
    states = [state for state in refreshed.not_fresh if "frames" in state.name]
    (reason,) = [state.reason or "" for state in states]
    assert "question 004-1: chosen.json has no entry for this question or for" in reason
    scored = rows_of(project)
    assert [name for name, row in scored.items() if row.outcome is not Outcome.FAILED] == [
        "002-1",
        "003-3",
    ]
    errors = {name: row.error or "" for name, row in scored.items()}
    assert "names frame 30, but the video has 0 to 29" in errors["002-2"]
    assert "no entry" in errors["002-3"]
    assert "empty list" in errors["003-1"]
    assert "more than one entry for 003-2" in errors["003-2"]
    assert errors["004-1"]
    assert {scored[name].num_frames for name in ("002-2", "002-3", "003-1")} == {0}
    for video_id in VIDEOS:
        path = stored_file(project.store, "responses", "videomme", "served", video_id)
        responses = {row.question_id: row for row in read_rows(path, Response)}
        assert sum(row.raw_output is not None for row in responses.values()) == 1
    path = stored_file(
        project.store, "subtitles", "videomme", "from_file-chosen.native.png.window-500", "002"
    )
    lines = read_rows(path, AlignedLine)
    assert [(line.question_id, line.frame, line.text) for line in lines] == [("002-1", 0, "hello")]


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_frames_that_are_stored(root: Path, copy: Copy) -> None:
    write_chosen(root, CHOSEN)
    with ModelServer(delay_seconds=0.3) as server:
        folder = root / "configuration"
        (folder / "evaluations").mkdir()
        (folder / "evaluations" / "served.yaml").write_text(yaml.safe_dump(EVALUATION))
        limits = {"base_url": server.base_url, "limits": {"concurrency": 1}}
        (folder / "models.yaml").write_text(yaml.safe_dump({"served": limits}))
        spec = {"accept_license": True, "source": "folder", "folder": str(copy.folder)}
        benchmarks = {"videomme": spec | {"videos": list(VIDEOS)}}
        (folder / "benchmarks.yaml").write_text(yaml.safe_dump(benchmarks))
        killed = QuickCommand(root, "run", "served")
        assert killed.wait_until(lambda: server.answered.total() >= 2)
        killed.send(signal.SIGKILL)
        killed.finish()
        ended = run_quickly(root, "run", "served")
        assert ended.status == 0, ended.err
        assert len(server.request_counts) == len(CHOSEN)
        # Of the killed run, one answer was being stored, and one was in flight.
        assert server.request_count <= len(CHOSEN) + 2
        project = open_project(folder, str(root / "data"))
        for name, sent in arrived(server, project).items():
            assert {tuple(map(read_barcode, of_one)) for of_one in sent} == {tuple(CHOSEN[name])}
    planned = run_quickly(root, "run", "served", "--dry-run")
    assert "Everything is fresh" in planned.err + planned.out


@pytest.mark.slow
def test_commands_know_the_file(
    write_served: WriteServed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, root)
    write_chosen(root, {"002": [1.0, 0.2], "002-3": [2.9]})
    times = {**EVALUATION, "frame_times": "<{seconds:.1f} seconds>"}
    with ModelServer() as server:
        write_served(server.base_url, {"served": times})
        planned = videomme("run", "served", "--dry-run", "--json").json
        assert planned["requests"]
        swept = videomme(
            *("sweep", "served", "--sampling", "uniform_n-4"),
            *("--sampling", EVALUATION["sampling"], "--json"),
        )
        frames = {row["evaluation"]: row["frames"] for row in swept.json["settings"]}
        assert frames["served"] == pytest.approx((2 + 2 + 1) / 3)
        texts = [str(received.body["messages"]) for received in server.requests]
        two = [text for text in texts if "<0.2 s" in text and "<1.0 s" in text]
        assert [text.index("<1.0 s") < text.index("<0.2 s") for text in two] == [True, True]
    assert videomme("status", "--json").json["failures"] == []
    shown = videomme(
        "frames", "show", "002", "--sampling", "from_file-chosen", "-o", str(root / "a.jpg")
    )
    assert "3 of 3 requested frames" in shown.err
    gone = videomme("cache", "gc", "--dry-run")
    assert "from_file-chosen.native.png" not in gone.out + gone.err
    native = {"frames_as": FramesAs.VIDEO_FILE.value, "profile": "vllm"}
    write_served("http://127.0.0.1:9/v1", {"served": EVALUATION}, **native)
    refused = videomme("run", "served")
    assert refused.status == 1
    assert "takes frames from the video itself; send frames" in refused.err
