"""The other published benchmarks and a user's own, from the hub or a folder to scores."""

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.support.facet_means import mean_over
from tests.support.hub_server import running_hub
from tests.support.other_benchmarks import COUNTS, OtherBenchmarks, settings
from tests.support.registered import registered
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.evaluation.writing import write_declaration
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.project.project import HOME_VARIABLE, Project, open_project
from videomme_pipeline.reports.across import across_rows, with_settings
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.stages.data_folder import DataFolder
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_files, read_rows
from videomme_pipeline.subtitles.align import AlignedLine
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse import database

pytestmark = pytest.mark.slow

OWN = ("own-a", "own-b")
"""Two sets of the user about the same video files."""
WITH_SUBTITLES = ("longvideobench_val", "cgbench_mini")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Every benchmark after a run of a model that always answers B."""
    root = tmp_path_factory.mktemp("others")
    configuration = root / "configuration"
    (configuration / "evaluations").mkdir(parents=True)
    with (
        running_hub() as hub,
        pytest.MonkeyPatch.context() as patch,
        registered(),
        dg.DagsterInstance.local_temp(str(root)) as instance,
    ):
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv(HOME_VARIABLE, str(root))
        others = OtherBenchmarks(hub, root / "videos")
        for name in COUNTS:
            others.publish(name)
        entries = {name: settings(name, others.folder) for name in COUNTS}
        (configuration / "benchmarks.yaml").write_text(yaml.safe_dump(entries))
        for name in OWN:
            write_declaration(configuration, name, own_folder(root / name, others.clip))
        for name in (*COUNTS, *OWN):
            evaluation = {"benchmark": name, "model": "constant-B", "sampling": "uniform_n-2"}
            if name in WITH_SUBTITLES:
                evaluation |= {"subtitles": "full"}
            elif name in COUNTS and find_benchmark(name).prompts:
                evaluation |= {"prompt": name}
            path = configuration / "evaluations" / f"{name}-b.yaml"
            path.write_text(yaml.safe_dump(evaluation))
        project = open_project(configuration, str(root / "data"))
        refresh_project(project, instance, [f"{name}-b" for name in (*COUNTS, *OWN)])
        yield project


def own_folder(folder: Path, clip: bytes) -> Path:
    folder.mkdir()
    (folder / f"{folder.name}.mp4").write_bytes(clip)
    rows = [
        {
            "video": f"{folder.name}.mp4",
            "question": f"What is {number}?",
            "options": ["Red", "Blue"],
            "answer": "AB"[number % 2],
        }
        for number in range(2)
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def scores(project: Project, name: str) -> list[ScoredQuestion]:
    return read_rows(stored_file(project.store, "scores", name, f"{name}-b"), ScoredQuestion)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_every_question_of_a_published_benchmark_is_scored(project: Project, name: str) -> None:
    rows = scores(project, name)
    questions = read_rows(stored_file(project.store, "questions", name), Question)
    assert len(rows) == len(questions) == COUNTS[name][0]
    failed = {row.video_id for row in rows if row.outcome is Outcome.FAILED}
    assert failed == ({"requested"} if name == "mvbench" else set())
    assert all(row.extracted_answer == "B" for row in rows if row.video_id not in failed)


def test_a_mean_over_tasks_is_the_headline(project: Project) -> None:
    facet = find_benchmark("mvbench").facet("task")
    assert mean_over(scores(project, "mvbench"), facet).mean == pytest.approx(5 / 6)
    with database.connect(project.store) as connection:
        rows = database.query(connection, "select benchmark, accuracy from mean_over_task")
    assert [(row["benchmark"], row["accuracy"]) for row in rows] == [
        ("mvbench", pytest.approx(5 / 6))
    ]


def test_subtitles_of_a_clip_start_with_the_clip(project: Project) -> None:
    store = project.store
    lines = read_rows(
        stored_file(store, "subtitles", "longvideobench_val", "uniform_n-2.full", "vid_b"),
        AlignedLine,
    )
    assert [(line.start_seconds, line.text) for line in lines] == [(1.0, "hello")]


def test_a_video_that_benchmarks_share_is_decoded_once(project: Project) -> None:
    """All benchmarks show the same clip, under other names and with other questions."""
    hashes = {
        video.content_hash
        for name in (*COUNTS, *OWN)
        for video in read_files(Results(project.store).videos(name).values(), Video)
        if name != "mvbench"
    }
    assert len(hashes) == 1
    (shared,) = hashes
    files = list(project.store.path("frames").glob(f"{shared}.*.parquet"))
    assert len(files) == 3  # the whole video and two clips of MVBench
    settings_of = project.benchmarks["own-a"].snapshot.versions.frame_settings
    sampling = project.configuration.evaluation("own-a-b").sampling_name
    frames = read_frames(project.store, shared, settings_of("own-a", sampling))
    assert len(frames.frames) == 2


def test_frames_of_clips_are_in_use(project: Project) -> None:
    garbage = DataFolder(project).garbage()
    assert [item.why for item in garbage if item.why.startswith("frames")] == []


def test_scores_of_several_benchmarks_are_side_by_side(project: Project) -> None:
    with database.connect(project.store) as connection:
        stored = database.query(connection, "select * from across_benchmarks")
    cells = [with_settings(row, {}) for row in stored]
    rows = across_rows(cells, ["mlvu_test", "mvbench", "own-a"])
    without = next(row for row in rows if row["track"] == "without_subtitles")
    assert without["scores"]["mvbench"]["score"] == pytest.approx(5 / 6)
    assert without["scores"]["mvbench"]["metric"] == "mean_over_task"
    assert without["scores"]["mvbench"]["benchmark_questions"] == 4000
    assert not without["scores"]["mvbench"]["complete"]


def test_different_benchmarks_are_not_compared(project: Project) -> None:
    with pytest.raises(ScoringError, match="mlvu_test: different benchmarks or splits"):
        compare(scores(project, "mlvu_dev"), scores(project, "mlvu_test"))
