"""Reading v1: the published table is read as it is, and errors name what differs."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.published_data import TASK_TYPES, V1, parquet_bytes, read, table, v1_rows
from videomme_pipeline.benchmarks.facets import with_derived
from videomme_pipeline.benchmarks.question import Duration, Letter, Question, videos_of
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.rows import from_table, to_table

SKILLS = {
    "Temporal Perception": "temporal",
    "Spatial Perception": "perception",
    "Attribute Perception": "perception",
    "Action Recognition": "perception",
    "Object Recognition": "perception",
    "OCR Problems": "perception",
    "Counting Problem": "perception",
    "Temporal Reasoning": "temporal",
    "Spatial Reasoning": "reasoning",
    "Action Reasoning": "reasoning",
    "Object Reasoning": "reasoning",
    "Information Synopsis": "reasoning",
}


def one_video(**changes: Any) -> pa.Table:
    """The three rows of one video, with changes to the first one."""
    rows = v1_rows(1)
    rows[0] |= changes
    return table(rows)


def test_the_published_table_has_2700_questions_on_900_videos() -> None:
    questions = read("videomme", table(v1_rows()))
    assert len(questions) == 2700
    assert len(videos_of(questions)) == 900
    assert {question.benchmark for question in questions} == {"videomme"}


def test_a_file_and_a_table_have_the_same_questions(tmp_path: Path) -> None:
    path = tmp_path / "test.parquet"
    path.write_bytes(parquet_bytes(v1_rows()))
    assert read("videomme", path) == read("videomme", table(v1_rows()))


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    text = "\n".join(lines) if path.suffix == ".jsonl" else f"[{', '.join(lines)}]"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["questions.json", "questions.jsonl", "QUESTIONS.JSON"])
def test_json_annotations_have_the_same_questions(name: str, tmp_path: Path) -> None:
    rows = v1_rows(2)
    expected = read("videomme", table(rows), videos=2)
    assert read("videomme", written(tmp_path / name, rows), videos=2) == expected
    renamed = [{**row, "subcategory": row["sub_category"]} for row in rows]
    for row in renamed:
        del row["sub_category"]
    assert read("videomme", written(tmp_path / name, renamed), videos=2) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a table of questions"),
        ("\x80", r"line 1 is not UTF-8 \(byte 0x80\); save the file as UTF-8"),
        ('{"video_id": "001"}', "not a list of objects"),
        ("[1]", "not a list of objects"),
        (
            '[{"video_id": "001"}]',
            "the columns `videoID`, `question`, .*, which no row has: .*`video_id`",
        ),
        ("[]", "it has no rows"),
    ],
)
def test_the_error_for_unusable_json_annotations_says_what_they_are(
    text: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "questions.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(AnnotationError, match=problem):
        read("videomme", path)


def test_every_column_is_read_into_its_field() -> None:
    row = v1_rows(1)[2]
    question = read("videomme", table(v1_rows(1)), videos=1)[2]
    assert question.question_id == "001-3"
    assert question.video_id == "001"
    assert question.youtube_id == row["videoID"]
    assert question.url == row["url"]
    assert question.options == tuple(row["options"])
    assert question.answer is Letter(row["answer"])
    assert question.duration is Duration.SHORT
    columns = ("duration", "domain", "sub_category", "task_type")
    assert question.facets == {column: row[column] for column in columns} | {
        "skill": SKILLS[row["task_type"]]
    }


def test_every_task_type_has_a_skill_of_the_contract() -> None:
    questions = read("videomme", table(v1_rows()))
    skills = {question.facets["task_type"]: question.facets["skill"] for question in questions}
    assert skills == SKILLS
    assert set(skills) == set(TASK_TYPES)
    assert set(skills.values()) == {"perception", "reasoning", "temporal"}


def test_a_skill_is_a_facet_of_the_question_but_no_column_of_the_dataset() -> None:
    (question,) = read("videomme", table(v1_rows(1)), videos=1)[:1]
    (stored,) = from_table(to_table([question], Question), Question)
    assert stored.facets["skill"] == question.facets["skill"]
    assert "skill" not in dataset_row(question)
    declared = find_benchmark("videomme").facets
    assert "skill" not in with_derived({"task_type": "unknown"}, declared)


def test_newlines_in_questions_and_duplicate_options_are_kept() -> None:
    questions = read("videomme", table(v1_rows()))
    assert questions[2].question == "What happens in 001-3?\n1. This\n2. That"
    assert questions[18].option_text(Letter.A) == questions[18].option_text(Letter.D)


@pytest.mark.parametrize("youtube_id", ["-abcdefghij", "_abcdefghij", "thirteen_char"])
def test_youtube_ids_may_look_like_options_and_be_long(youtube_id: str) -> None:
    rows = [row | {"videoID": youtube_id} for row in v1_rows(1)]
    assert read("videomme", table(rows), videos=1)[0].youtube_id == youtube_id


@pytest.mark.parametrize("youtube_id", ["../../etc/x", "a/b", ".hidden", "a\nb", ""])
def test_an_id_that_cannot_name_a_file_is_rejected(youtube_id: str) -> None:
    with pytest.raises(AnnotationError, match=r"question 001-1.*videoID"):
        read("videomme", one_video(videoID=youtube_id), videos=1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answer": "E"}, "the answer 'E' matches none of the options A, B, C, D"),
        ({"answer": ""}, "`answer` is empty"),
        ({"options": ["A. one", "B. two", "C. three"]}, "`options` must have 4 texts, found"),
        (
            {"options": ["A. one", "B. two", "C. three", ""]},
            "`options` must be a list of texts, found",
        ),
        ({"duration": "tiny"}, "`duration` is 'tiny', not one of short, medium, long"),
        ({"domain": "Cooking"}, "`domain` is 'Cooking'"),
        ({"sub_category": "Cooking"}, "`sub_category` is 'Cooking'"),
        ({"task_type": "Guessing"}, "`task_type` is 'Guessing'"),
        ({"domain": None}, "`domain` is empty"),
        ({"question": None}, "`question` must be a text, found None"),
    ],
)
def test_a_wrong_cell_is_reported_with_its_question(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read("videomme", one_video(**changes), videos=1)
    assert "question 001-1" in str(caught.value)
    assert problem in str(caught.value)
    assert str(V1.hub.revision) in str(caught.value)


def test_an_answer_with_spaces_around_it_is_read() -> None:
    assert read("videomme", one_video(answer=" b "), videos=1)[0].answer is Letter.B


def test_the_error_names_missing_columns_and_present_ones() -> None:
    older = (
        table(v1_rows(1))
        .drop_columns(["task_type", "videoID"])
        .append_column("subtitles", [["a", "b", "c"]])
    )
    with pytest.raises(
        AnnotationError, match=r"the columns `videoID`, `task_type`, which no row has: .*`video_id`"
    ):
        read("videomme", older, videos=1)


def test_another_number_of_rows_is_rejected_with_the_pinned_revision() -> None:
    with pytest.raises(AnnotationError, match=r"2,697 questions on 899 videos.*ead1408f75b618502"):
        read("videomme", table(v1_rows()[:-3]))


def test_a_repeated_question_id_is_reported() -> None:
    with pytest.raises(AnnotationError, match="question 001-2: 2 rows have this id"):
        read("videomme", one_video(question_id="001-2"), videos=1)


def test_the_error_names_a_video_without_three_questions() -> None:
    rows = v1_rows(2)
    rows[3] |= {"video_id": "001", "videoID": rows[0]["videoID"]}
    with pytest.raises(AnnotationError, match="videos without 3 questions: 001, 002"):
        read("videomme", table(rows), videos=2)


def test_the_error_names_a_video_id_that_two_videos_have() -> None:
    with pytest.raises(AnnotationError, match="more than one video: 001"):
        read("videomme", one_video(videoID="another_one"), videos=1)


def test_the_error_names_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    path = tmp_path / "test.parquet"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(AnnotationError, match="cannot be read"):
        read("videomme", path)
    with pytest.raises(AnnotationError, match="no such file"):
        read("videomme", tmp_path / "none.parquet")


def test_columns_that_other_tools_added_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "test.parquet"
    pq.write_table(table(v1_rows(1)).append_column("index", [[0, 1, 2]]), path)
    assert len(read("videomme", path, videos=1)) == 3


@given(
    st.sampled_from(sorted(v1_rows(1)[0])),
    st.none()
    | st.booleans()
    | st.integers(0, 9)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.text(max_size=5), max_size=9)
    | st.binary(max_size=5),
)
def test_any_value_of_a_column_is_read_or_reported(column: str, value: object) -> None:
    changed = table([row | {column: value} for row in v1_rows(1)])
    try:
        questions = read("videomme", changed, videos=1)
    except AnnotationError:
        return
    assert from_table(to_table(questions, Question), Question) == list(questions)
