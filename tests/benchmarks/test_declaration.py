"""Benchmarks declared in YAML: their rows, their mistakes, and a declaration for a folder."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.registered import registered
from videomme_pipeline.benchmarks.columns import lettered
from videomme_pipeline.benchmarks.declaration import Declaration
from videomme_pipeline.benchmarks.inspection import inspect_folder
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.benchmarks.questions import read_questions
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.source import AnnotationContent
from videomme_pipeline.errors import AnnotationError, ConfigurationError, Status, VideoMissingError
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.evaluation.writing import write_declaration
from videomme_pipeline.fetch.release import Clip, Footage
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.servers import ServerRecord
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.integrity import check_data

COLUMNS = {"video": "video", "question": "question", "options": "options", "answer": "answer"}
ROW: Mapping[str, Any] = {
    "video": "a.mp4",
    "question": "Which?",
    "options": ["Red", "Blue", "Green"],
    "answer": "B",
}


@pytest.fixture(autouse=True)
def restored_registry() -> Iterator[None]:
    with registered():
        yield


def declaration(**keys: Any) -> Declaration:
    values = {"title": "Mine", "folder": "/nowhere", "annotations": "q.json", "columns": COLUMNS}
    return Declaration.model_validate(values | keys)


def read(
    tmp_path: Path, rows: Sequence[Any], columns: Any = COLUMNS, **keys: Any
) -> AnnotationContent:
    path = tmp_path / "q.json"
    path.write_text(json.dumps(rows))
    return read_questions(declaration(columns=columns, **keys), [path], "mine")


def test_half_an_emoji_is_replaced_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = {**ROW, "question": "Which \ud83d?", "options": ["Red", "Blue\ude00"]}
    (question,) = read(tmp_path, [row]).require()
    assert question.question == "Which \ufffd?"
    assert question.option_text(Letter.B) == "Blue\ufffd"
    assert fingerprint(question)
    assert "q.json: texts are cut inside a character" in caplog.text


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        ({}, {}),
        ({"options": {"A": "Red", "B": "Blue", "C": "Green"}}, {}),
        ({"options": "A. Red\nB. Blue\nC. Green"}, {}),
        ({"options": "['Red', 'Blue', 'Green']", "answer": "(b)"}, {}),
        (
            {"o0": "Red", "o1": "Blue", "o2": "Green", "o3": "N/A"},
            {"options": ["o0", "o1", "o2", "o3"], "missing_options": ["N/A"]},
        ),
        ({"question": "Which?\n(A) Red\n(B) Blue\n(C) Green"}, {"options": None}),
        ({"answer": 1}, {"answer_is": "index"}),
        ({"answer": 2.0}, {"answer_is": "index_from_1"}),
        ({"answer": "Blue"}, {"answer_is": "text"}),
    ],
    ids=["list", "map", "lines", "literal", "columns", "in-question", "index", "from-1", "text"],
)
def test_every_form_of_options_and_answers_is_read(
    tmp_path: Path, cells: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    (question,) = read(tmp_path, [{**ROW, **cells}], {**COLUMNS, **columns}).require()
    assert [question.option_text(letter) for letter in question.letters] == ["Red", "Blue", "Green"]
    assert (question.question, question.answer) == ("Which?", Letter.B)


def test_letters_belong_to_columns_and_never_move(tmp_path: Path) -> None:
    columns = {**COLUMNS, "options": list("ABCD")}
    row = {key: value for key, value in ROW.items() if key != "options"}
    texts = ["None", "N/A", "nan", "NULL"]
    annotated = read(tmp_path, [row | dict(zip("ABCD", texts, strict=True))], columns)
    (question,) = annotated.require()
    assert [question.option_text(letter) for letter in question.letters] == texts
    for gap in ("", None, math.nan):
        cells = {"A": "Four", "B": gap, "C": "One", "D": "Three", "answer": "C"}
        (problem,) = read(tmp_path, [row | cells], columns).problems
        assert "option B is empty, but a later one is 'One'" in problem.message
    (problem,) = read(tmp_path, [{**ROW, "options": {"A": "Four", "C": "One"}}]).problems
    assert "option B is empty" in problem.message
    cells = {"A": "Four", "B": "One", "C": "", "D": None, "answer": "B"}
    (question,) = read(tmp_path, [row | cells], columns).require()
    assert question.options == ("A. Four", "B. One")


def test_a_question_may_have_fourteen_options(tmp_path: Path) -> None:
    row = {**ROW, "options": [f"Number {number}" for number in range(14)], "answer": "N"}
    (question,) = read(tmp_path, [row], letters=14).require()
    assert question.answer is Letter.N
    assert lettered(["None", "N/A"]) == ["A. None", "B. N/A"]


def test_rows_with_hidden_answers_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "answer": None}, {**ROW, "answer": "NA"}]
    annotated = read(tmp_path, rows, {**COLUMNS, "hidden_answers": ["NA"]})
    assert (len(annotated.questions), annotated.hidden, annotated.problems) == (1, 2, [])


def test_the_error_names_each_row_that_cannot_be_used(tmp_path: Path) -> None:
    rows = [
        ROW,
        {**ROW, "answer": "Purple"},
        {**ROW, "options": ["Red"]},
        {**ROW, "video": "../a.mp4"},
        {**ROW, "options": list("abcdef")},
    ]
    annotated = read(
        tmp_path,
        [{"id": n, **row} for n, row in enumerate(rows, 10)],
        {**COLUMNS, "question_id": "id"},
    )
    assert [(problem.row, problem.message) for problem in annotated.problems] == [
        ("q.json, row 2, question 11", "the answer 'Purple' matches none of the options A, B, C"),
        ("q.json, row 3, question 12", "`options` must have at least two options, found ['Red']"),
        (
            "q.json, row 4, question 13",
            "the path '../a.mp4' leads out of the folder; name a path inside of it",
        ),
        ("q.json, row 5, question 14", "6 options, but `letters` is 4; raise it"),
    ]
    with pytest.raises(AnnotationError, match="row 2, question 11: the answer 'Purple'"):
        annotated.require()


def test_a_repeated_question_id_is_reported(tmp_path: Path) -> None:
    rows = [{**ROW, "id": 1}, {**ROW, "id": 1}]
    with pytest.raises(AnnotationError, match="question 1: 2 rows have this id; make it unique"):
        read(tmp_path, rows, {**COLUMNS, "question_id": "id"}).require()


def test_the_error_for_an_unknown_column_names_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(
        AnnotationError, match="the column `choices`, which no row has: did you mean"
    ):
        read(tmp_path, [{**ROW, "choice": 1}], {**COLUMNS, "options": "choices"})


def test_videos_in_several_folders_and_clips_have_ids_of_their_own(tmp_path: Path) -> None:
    rows = [
        {**ROW, "video": "x/a.mp4"},
        {**ROW, "video": "y/a.mp4"},
        {**ROW, "video": "x/a.mp4", "start": 1.5, "end": "4"},
        {**ROW, "video": "über 1.mp4"},
    ]
    columns = {**COLUMNS, "clip_start": "start", "clip_end": "end"}
    questions = read(tmp_path, rows, columns, videos="clips").require()
    ids = [question.video_id for question in questions]
    assert (ids[0], ids[2], ids[3]) == ("a", "a.1.5-4", "über_1")
    assert ids[1].startswith("a-")
    assert questions[2].footage == Footage(
        video_file="clips/x/a.mp4", clip_start_seconds=1.5, clip_end_seconds=4.0
    )
    assert questions[2].footage.clip == Clip(start_seconds=1.5, end_seconds=4.0)


def test_a_column_of_lists_becomes_a_facet_per_value(tmp_path: Path) -> None:
    facets = {"kind": {"each": True, "values": ["fine", "very good"]}}
    mine = declaration(facets=facets)
    assert [(facet.column, facet.title) for facet in mine.declared_facets] == [
        ("kind_fine", "Kind: fine"),
        ("kind_very_good", "Kind: very good"),
    ]
    rows = [{**ROW, "kind": ["fine", "very good"]}, {**ROW, "kind": ["fine"]}]
    first, second = read(tmp_path, rows, facets=facets).require()
    assert dict(first.facets) == {"kind_fine": "fine", "kind_very_good": "very good"}
    assert dict(second.facets) == {"kind_fine": "fine"}


def test_questions_inside_of_the_row_of_a_video_are_read(tmp_path: Path) -> None:
    rows = [{"video": "a.mp4", "qa": [{**ROW, "video": None} | {"video": "a.mp4"}, ROW]}]
    questions = read(tmp_path, rows, annotations=[{"file": "q.json", "rows": "qa"}]).require()
    assert [question.question_id for question in questions] == ["a-1", "a-2"]


# A folder of the user.


def own_folder(folder: Path, form: str = "jsonl") -> Path:
    """Two videos with two questions each, in a folder with annotations in the given format."""
    (folder / "clips").mkdir(parents=True)
    rows = [
        {
            "ID": f"{name}{number}",
            "Video": f"{name}.mp4",
            "Question": f"What is {number}?",
            "A": "Red",
            "B": "Blue",
            "C": "Green",
            "Answer": ("Red", "Blue")[number],
            "Question Type": ("color", "shape")[number],
            "level": ("easy", "hard")[number],
            "start": 0.5,
        }
        for name in "ab"
        for number in range(2)
    ]
    for name in "ab":
        (folder / "clips" / f"{name}.mp4").write_bytes(b"\0")
    path = folder / f"questions.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif form == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return folder


def project(tmp_path: Path, form: str = "jsonl") -> tuple[BenchmarkState, Path]:
    """The benchmark that `init` declares for an own folder, and the declaration."""
    configuration = tmp_path / "configuration"
    configuration.mkdir()
    (configuration / "benchmarks.yaml").write_text("")
    path = write_declaration(configuration, "my-set", own_folder(tmp_path / "videos", form))
    return opened(tmp_path), path


def opened(tmp_path: Path) -> BenchmarkState:
    store = Store.at(tmp_path / "data")
    configuration = read_configuration(tmp_path / "configuration")
    return BenchmarkState(
        "my-set", configuration, store, HashCache(store.hashes), ServerRecord(store)
    )


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_init_declares_a_folder(tmp_path: Path, form: str) -> None:
    state, path = project(tmp_path, form)
    declared = yaml.safe_load(path.read_text())
    assert declared["columns"] == {
        "video": "Video",
        "question": "Question",
        "options": ["A", "B", "C"],
        "answer": "Answer",
        "question_id": "ID",
        "clip_start": "start",
        "answer_is": "text",
    }
    assert (declared["videos"], declared["letters"]) == ("clips", 3)
    assert declared["facets"] == {
        "question_type": {"column": "Question Type"},
        "level": None,
    }
    source = state.open_source()
    questions = source.questions()
    assert [q.answer for q in questions] == [Letter.A, Letter.B] * 2
    assert source.video_file(questions[0].reference) == tmp_path / "videos/clips/a.mp4"
    findings = check_data(state.open_source)
    assert {finding.status for finding in findings} == {Status.OK}
    assert findings[0].summary.startswith("4 questions on 2 videos in ")


def test_doctor_says_what_to_fix(tmp_path: Path) -> None:
    _, path = project(tmp_path)
    (tmp_path / "videos/clips/b.mp4").unlink()
    questions = tmp_path / "videos/questions.jsonl"
    questions.write_text(questions.read_text().replace('"Answer": "Blue"', '"Answer": "Bleu"', 1))
    annotations, videos, _ = check_data(opened(tmp_path).open_source)
    assert annotations.status is videos.status is Status.ERROR
    assert annotations.summary.endswith(
        "unusable rows, 1: questions.jsonl, row 2, question a1: the answer 'Bleu' matches "
        "none of the options A. Red, B. Blue, C. Green"
    )
    assert "1 of 2 under" in videos.summary
    assert "missing: clips/b.mp4; copy them there" in videos.summary
    path.write_text(path.read_text().replace("Video", "Vidoe"))
    (annotations,) = check_data(opened(tmp_path).open_source)
    assert "did you mean `Video`?" in annotations.summary


def test_the_error_for_a_missing_video_has_the_path(tmp_path: Path) -> None:
    state, _ = project(tmp_path)
    (tmp_path / "videos/clips/b.mp4").unlink()
    source = state.open_source()
    with pytest.raises(VideoMissingError, match=r"no clips/b\.mp4 under"):
        source.video_file(source.questions()[-1].reference)


def test_a_folder_without_annotations_is_explained(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('[{"video": "a.mp4", "query": "x"}]')
    with pytest.raises(AnnotationError, match="the columns video, query, but none for the answer"):
        inspect_folder(tmp_path, "own")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean_of": "kind"}, "facet 'kind' is not declared"),
        ({"facets": {"model": None}}, "`model` is a column of the tables"),
        ({"lettres": 3}, "did you mean `letters`"),
        ({"videos": "../elsewhere"}, "leads out of the folder"),
    ],
    ids=["mean", "facet", "key", "path"],
)
def test_a_mistake_in_a_declaration_is_explained(
    tmp_path: Path, change: Mapping[str, Any], message: str
) -> None:
    _, path = project(tmp_path)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(ConfigurationError, match=message):
        opened(tmp_path)


def test_a_changed_declaration_replaces_the_benchmark(tmp_path: Path) -> None:
    state, path = project(tmp_path)
    before = state.open_source()
    path.write_text(path.read_text() + "mean_of: question_type\n")
    after = opened(tmp_path).open_source()
    assert find_benchmark("my-set").headline == "mean_over_question_type"
    assert after.version != before.version


def test_a_missing_column_of_an_option_is_named_if_no_other_column_has_the_options(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.mp4").touch()
    row = {"video": "a.mp4", "question": "Which?", "answer": "A", "a": "x", "c": "y"}
    (tmp_path / "q.json").write_text(json.dumps([row]))
    with pytest.raises(AnnotationError, match="columns of single options, but none for B"):
        inspect_folder(tmp_path, "own")
    (tmp_path / "q.json").write_text(json.dumps([row | {"options": ["x", "y"]}]))
    assert "options: options" in inspect_folder(tmp_path, "own")


def test_a_column_of_ids_is_kept_if_some_repeat_so_that_doctor_names_them(tmp_path: Path) -> None:
    rows = ["id,video,question,a,b,answer"]
    rows += [f"{number},a.mp4,Which?,x,y,A" for number in (1, 2, 2)]
    (tmp_path / "q.csv").write_text("\n".join(rows))
    (tmp_path / "a.mp4").touch()
    assert "question_id: id" in inspect_folder(tmp_path, "own")
