"""A whole project that asks real vLLM: a citation counts the frames that the engine showed.

The model is tiny and random, so the scores mean nothing. VIDEOMME_VLLM is the folder of an
environment with vLLM.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import write_video
from tests.support.cli import use, videomme
from tests.support.real_vllm import VllmServer, is_installed, running_vllm
from videomme_pipeline.project.project import open_project
from videomme_pipeline.warehouse.database import connect, query

pytestmark = [pytest.mark.slow, pytest.mark.engine]

VIDEOS = {"wide": (40, 640, 360), "upright": (30, 120, 160)}
"""Seconds, width and height of each video, with 10 frames per second."""
CONTEXT_TOKENS = 8_192
Entry = tuple[str, str, Mapping[str, Any]]


def taken(**settings: float) -> Mapping[str, Any]:
    """Settings of vLLM's loader for the model, which replace those of the sampling."""
    return {"extra_body": {"media_io_kwargs": {"video": settings}}}


PLANNED: dict[str, Entry] = {
    "rate": ("video_file", "qwen3_vl-2-max-16", {}),
    "number": ("video_file", "uniform_n-8-endpoints", {}),
    "patches": ("video_file", "qwen3_vl-1.patches-32-video-min-4096-max-300000", {}),
    "pictures": ("images", "uniform_n-8", {}),
    "frames": ("frame_sequence", "uniform_n-40", {}),
}
"""The way to send frames, the sampling, and further keys of the model, by evaluation."""
OTHERS: dict[str, Entry] = {
    # The loader that vLLM chooses for the model ignores `num_frames`.
    "few": ("video_file", "uniform_n-32-endpoints", taken(num_frames=32, fps=-1)),
    "many": ("video_file", "fps_based-1-max-8", taken(num_frames=8, fps=1)),
    "two_fewer": ("video_file", "qwen3_vl-2-max-16", taken(num_frames=-1, fps=2, max_frames=14)),
    "two_more": ("video_file", "qwen3_vl-2-max-16", taken(num_frames=-1, fps=2, max_frames=18)),
    # Without the times of the frames, vLLM keeps 32 of them.
    "first": ("frame_sequence", "uniform_n-40", {"extra_body": {"media_io_kwargs": None}}),
}
"""The same, with settings by which vLLM shows other frames than planned."""
SHOWN = {
    "few": (4, 32),
    "many": (40, 8),
    "two_fewer": (14, 16),
    "two_more": (18, 16),
    "first": (32, 40),
}
"""The number of frames that vLLM shows of the first video, and the planned one."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    if not is_installed():
        pytest.skip("VIDEOMME_VLLM does not name an environment with vLLM")
    args = {"max-model-len": CONTEXT_TOKENS, "limit-mm-per-prompt": {"image": 8, "video": 1}}
    with running_vllm(tmp_path_factory.mktemp("vllm"), "qwen3_vl", args) as served:
        yield served


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of a project that `videomme init` wrote, with a benchmark of two videos."""
    root = tmp_path_factory.mktemp("project")
    configuration, videos = root / "configuration", root / "clips"
    rows = [
        {"video": f"{name}.mp4", "question": f"What is {n}?", "options": ["Red", "Blue", "Green"]}
        | {"answer": "ABC"[n]}
        for name in VIDEOS
        for n in range(3)
    ]
    for name, (seconds, width, height) in VIDEOS.items():
        path = videos / f"{name}.mp4"
        write_video(path, frames=10 * seconds, fps=10, width=width, height=height)
    (videos / "questions.json").write_text(json.dumps(rows))
    (root / "home").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        use(patch, root)
        patch.chdir(root)
        for arguments in ([], ["--benchmark", "clips", str(videos)]):
            ended = videomme("init", *arguments)
            assert ended.status == 0, ended.err
        yield configuration


def write(project: Path, served: VllmServer, entries: Mapping[str, Entry]) -> None:
    """Write an evaluation and a model of the same name for each entry, and remove all others."""
    for path in (project / "evaluations").glob("*.yaml"):
        path.unlink()
    models = {
        name: {
            "base_url": served.urls[0],
            "model": served.name,
            "profile": "vllm",
            "frames_as": frames_as,
            **further,
        }
        for name, (frames_as, _, further) in entries.items()
    }
    (project / "models.yaml").write_text(yaml.safe_dump(models))
    for name, (_, sampling, _) in entries.items():
        evaluation = {
            "benchmark": "clips",
            "model": name,
            "sampling": sampling,
            "generation": {"max_tokens": 4, "constrain_answer": True},
        }
        (project / "evaluations" / f"{name}.yaml").write_text(yaml.safe_dump(evaluation))


def rows_of(project: Path, evaluations: Collection[str], sql: str) -> list[dict[str, Any]]:
    """The rows of a query that are about these evaluations."""
    store = open_project(project, str(project.parent / "data")).store
    with connect(store) as connection:
        rows = query(connection, sql)
    return [row for row in rows if row["evaluation"] in evaluations]


def test_only_scores_of_the_planned_frames_may_be_cited(project: Path, served: VllmServer) -> None:
    write(project, served, PLANNED | OTHERS)
    ended = videomme("run", *PLANNED, *OTHERS)
    assert ended.status == 0, ended.err
    names = PLANNED | OTHERS
    table = rows_of(project, names, "select evaluation, citation, questions from leaderboard")
    assert {row["questions"] for row in table} == {6}
    citations = {row["evaluation"]: row["citation"] for row in table}
    assert citations == dict.fromkeys(PLANNED, "ok") | dict.fromkeys(OTHERS, "blocked")
    tokens = "select * from citation_findings where check_name = 'prompt_tokens'"
    summaries = {row["evaluation"]: row["summary"] for row in rows_of(project, names, tokens)}
    for name, (shown, planned) in SHOWN.items():
        assert f"({shown} of {planned})" in summaries[name]


def test_the_dry_run_counts_the_tokens_that_vllm_reports(project: Path, served: VllmServer) -> None:
    write(project, served, PLANNED)
    assert videomme("run", *PLANNED).status == 0
    counted = "select evaluation, sum(prompt_tokens) as tokens from scored_questions group by all"
    reported = rows_of(project, PLANNED, counted)
    for path in (project / "evaluations").glob("*.yaml"):
        path.write_text(path.read_text().replace("max_tokens: 4", "max_tokens: 5"))
    costs = videomme("run", *PLANNED, "--dry-run", "--json").json["requests"]
    planned = {cost["evaluation"]: cost for cost in costs}
    assert len(planned) == len(PLANNED)
    for row in reported:
        cost = planned[row["evaluation"]]
        assert cost["prompt_tokens"] == pytest.approx(row["tokens"], abs=cost["requests"])
        assert cost["seconds"] > 0


def test_a_question_that_cannot_fit_is_not_sent(project: Path, served: VllmServer) -> None:
    entry: dict[str, Entry] = {
        "fits": ("video_file", "uniform_n-60-endpoints", {}),
        "long": ("video_file", "uniform_n-80-endpoints", {}),
    }
    write(project, served, entry)
    ended = videomme("run", *entry)
    assert ended.status == 1
    answered = "select evaluation, video_id, count(*) filter (raw_output is not null) as answers"
    rows = rows_of(project, entry, f"{answered} from scored_questions group by all")
    answers = {(row["evaluation"], row["video_id"]): row["answers"] for row in rows}
    assert answers == {
        ("fits", "wide"): 3,
        ("fits", "upright"): 3,
        ("long", "wide"): 0,
        ("long", "upright"): 3,
    }
    assert "at most 7" in ended.err
    assert f"the context has {CONTEXT_TOKENS:,}" in ended.err
