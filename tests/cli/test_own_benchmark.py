"""Every command with `-b` knows a private benchmark of the project, also in a new process."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.builders import write_video
from tests.support.cli import use, videomme
from tests.support.registered import registered
from videomme_pipeline.benchmarks import registry
from videomme_pipeline.evaluation.writing import write_declaration

VIDEOS = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with the benchmark `mine` and the scores of two baselines."""
    root = tmp_path_factory.mktemp("own")
    evaluations = root / "configuration" / "evaluations"
    evaluations.mkdir(parents=True)
    (root / "home").mkdir()
    (root / "configuration" / "benchmarks.yaml").write_text("{}")
    videos = root / "videos"
    videos.mkdir()
    for number in range(VIDEOS):
        write_video(videos / f"{number}.mp4", frames=20 + number, width=64, height=48)
    questions = [
        {
            "video": f"{number}.mp4",
            "question_id": f"q{number}",
            "question": "Which?",
            "options": ["Left", "Right"],
            "answer": "A" if number % 3 else "B",
        }
        for number in range(VIDEOS)
    ]
    (videos / "questions.json").write_text(json.dumps(questions))
    write_declaration(root / "configuration", "mine", videos)
    for letter in "AB":
        (evaluations / f"always-{letter.lower()}.yaml").write_text(
            f"benchmark: mine\nmodel: constant-{letter}\n"
        )
    plain = "\n".join(["question_id,response", *(f"q{n},A" for n in range(VIDEOS))])
    (root / "plain.csv").write_text(plain)
    with registered(), pytest.MonkeyPatch.context() as patch:
        use(patch, root)
        assert videomme("run", "-b", "mine").status == 0
        yield root


@pytest.fixture(autouse=True)
def unknown_before(root: Path) -> None:
    """Forget the benchmark, as a new process does not know it."""
    registry._BENCHMARKS.pop("mine", None)


def test_a_table_of_ids_and_responses_is_scored_with_the_questions_of_the_project(
    root: Path,
) -> None:
    ended = videomme("score", str(root / "plain.csv"), "-b", "mine", "--json")
    assert ended.json["outcomes"] == {"correct": 4, "incorrect": 2, "unreadable": 0, "failed": 0}


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "plain.csv", "always-b", "-b", "mine"),
        ("compare", "plain.csv", "always-b"),
        ("gate", "plain.csv", "always-a", "-b", "mine"),
        ("gate", "plain.csv", "always-a"),
        ("audit", "plain.csv", "always-a"),
        ("power", "-b", "mine", "--videos", "90", "--questions", "270"),
        ("frames", "show", "0", "-b", "mine", "--sampling", "uniform_n-2", "-o", "sheet.jpg"),
        ("frames", "show", "0", "--sampling", "uniform_n-2", "-o", "sheet.jpg"),
        ("status", "-b", "mine"),
        ("run", "-b", "mine", "--dry-run"),
        ("scores", "mine"),
        ("init", "third", "-b", "mine"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_knows_the_benchmark(
    root: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    ended = videomme(*command)
    assert "Error" not in ended.err
    assert ended.status in ((0, 3) if command[0] == "gate" else (0,))


def test_an_export_compared_with_its_evaluation_has_the_same_answers(root: Path) -> None:
    export = root / "export.jsonl"
    export.write_text(videomme("export", "always-a", "--format", "lmms_eval").out)
    shown = videomme("compare", str(export), "always-a", "-b", "mine")
    assert "+0.0 points" in shown.out
    assert "A and B have the same answers" in shown.out
    assert "the track of the results file is unknown" in shown.err
