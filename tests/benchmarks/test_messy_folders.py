"""Folders of people: capital suffixes, other scripts, tables from Excel, subtitles of all kinds.

Each folder is declared as by `videomme init`, and checked as by `videomme doctor`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

import pytest
import yaml

from tests.support.registered import registered
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.source import Source
from videomme_pipeline.errors import AnnotationError, Status
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.evaluation.writing import write_declaration
from videomme_pipeline.subtitles.cues import read_subtitles
from videomme_pipeline.videos.integrity import check_data

Files = Mapping[str, str | bytes]
SRT = "1\n00:00:00,500 --> 00:00:02,000\nHello\n"
VTT = "WEBVTT\n\n00:00.500 --> 00:02.000\nHello\n"


def row(video: str, **others: object) -> dict[str, object]:
    options = ["Left", "Right", "Neither of both"]
    return {"video": video, "question": "Where?", "options": options, "answer": "A"} | others


def table(*videos: str, **others: object) -> str:
    return json.dumps([row(video, **others) for video in videos], ensure_ascii=False)


def csv(delimiter: str = ",", *, blank: int = 0) -> str:
    """A table of two questions with umlauts."""
    rows = [
        ["video", "question", "a", "b", "answer"],
        ["a.mp4", "Wohin läuft er?", "Nach links", "Zurück", "A"],
        ["a.mp4", "Und sie?", "Nach links", "Zurück", "B"],
        *[[""] * 5] * blank,
    ]
    return "\r\n".join(delimiter.join(cells) for cells in rows) + "\r\n"


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder: its files, and the ids, answers, warnings and subtitles that are read from it."""

    files: Files
    ids: Sequence[str] = ("a",)
    answers: str = "A"
    says: Sequence[str] = ()
    """Parts of the messages of `doctor`."""
    warns: bool = False
    subtitles: Sequence[str] = field(default=())
    annotations: str | None = None


READABLE = {
    "capital suffix": Folder(
        files={"q.json": table("IMG_0001"), "IMG_0001.MOV": b"\0"}, ids=["IMG_0001"]
    ),
    "suffix in another case": Folder(
        files={"q.json": table("clips/a.mp4"), "clips/a.MP4": b"\0"}, says=["1 of 1 under"]
    ),
    "Chinese": Folder(
        files={"q.json": table("你好.mp4", "世界.mp4"), "你好.mp4": b"\0", "世界.mp4": b"\0"},
        ids=["你好", "世界"],
        answers="AA",
    ),
    "Hindi, Thai and spaces": Folder(
        files={
            "q.json": table("हिन्दी.mp4", "ที่นี่.mp4", "my clip (1).mp4"),
            "हिन्दी.mp4": b"\0",
            "ที่นี่.mp4": b"\0",
            "my clip (1).mp4": b"\0",
        },
        ids=["हिन्दी", "ที่นี่", "my_clip_1_"],
        answers="AAA",
    ),
    "decomposed accents": Folder(
        files={
            "q.json": table("Straße über.mp4"),
            normalize("NFD", "Straße über.mp4"): b"\0",
            normalize("NFD", "Straße über.srt"): SRT,
        },
        ids=["Straße_über"],
        subtitles=["Hello"],
    ),
    "Excel with semicolons and a mark": Folder(
        files={"q.csv": b"\xef\xbb\xbf" + csv(";", blank=2).encode(), "a.mp4": b"\0"}, answers="AB"
    ),
    "Excel as Unicode text": Folder(
        files={"q.txt": csv("\t").encode("utf-16"), "readme.txt": b"Hello", "a.mp4": b"\0"},
        answers="AB",
    ),
    "answer in another case": Folder(
        files={"q.json": table("a.mp4", answer="  neither  OF both "), "a.mp4": b"\0"},
        answers="C",
        says=["answers that equal an option except for case and spaces: 1"],
    ),
    "WebVTT": Folder(
        files={"q.json": table("a.mp4"), "a.mp4": b"\0", "a.vtt": VTT}, subtitles=["Hello"]
    ),
    "names without suffixes": Folder(
        files={"q.json": table("a"), "a.MP4": b"\0", "a.srt": SRT}, subtitles=["Hello"]
    ),
    "JSON subtitles": Folder(
        files={
            "q.json": table("v/a.mp4"),
            "v/a.mp4": b"\0",
            "subs/a.json": '[{"start": 0.5, "end": 2, "text": "Hello"}]',
        },
        subtitles=["Hello"],
    ),
    "subtitles with a language": Folder(
        files={"q.json": table("a.mp4"), "a.mp4": b"\0", "a.en.vtt": VTT},
        says=["not read: a.en.vtt; rename them to <name of the video>.srt"],
        warns=True,
    ),
    "subtitles in another form": Folder(
        files={"q.json": table("a.mp4"), "a.mp4": b"\0", "a.ass": "[Script Info]"},
        says=["not read: a.ass;", "set `subtitles` in the declaration"],
        warns=True,
    ),
    "facts of a downloader": Folder(
        files={"q.json": table("a.mp4"), "a.mp4": b"\0", "a.info.json": '{"title": "a"}'},
        says=["0 of 1 videos have subtitles"],
    ),
    "files of macOS": Folder(
        files={
            "q.json": table("a.mp4"),
            "._q.json": b"\0\x05\x16\x07\xb0",
            ".DS_Store": b"\0\0\0\1Bud1",
            "a.mp4": b"\0",
            "._a.mp4": b"\0\x05\x16\x07\xb0",
        },
    ),
    "two tables, one named": Folder(
        files={
            "train.json": table("a.mp4"),
            "test.json": table("a.mp4", answer="B"),
            "a.mp4": b"\0",
        },
        annotations="test.json",
        answers="B",
    ),
}

REFUSED: Mapping[str, tuple[Files, str]] = {
    "Excel in Windows": (
        {"q.csv": csv(";").encode("cp1252"), "a.mp4": b"\0"},
        r"q\.csv: line 2 is not UTF-8 \(byte 0xe4\); save the file as UTF-8",
    ),
    "commas without quotes": (
        {"q.csv": csv().replace("Und sie?", "Und sie, wohin?"), "a.mp4": b"\0"},
        r"line 3 has more cells than the header; put quotes around texts with ','",
    ),
    "questions without options": (
        {"q.json": json.dumps([{"video": "a.mp4", "question": "Yes?", "answer": "yes"}])},
        r"q\.json has questions without options, .*; add a column `options`",
    ),
    "two tables": (
        {"train.json": table("a.mp4"), "test.json": table("a.mp4"), "a.mp4": b"\0"},
        r"2 files have questions: test\.json, train\.json; .* `--annotations test\.json`",
    ),
    "no table": ({"a.mp4": b"\0"}, r"no file that ends in \.json"),
}


def declared(tmp_path: Path, files: Files, annotations: str | None) -> Path:
    """The configuration folder of a project that declares a folder with `files`."""
    for name, content in files.items():
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    configuration = tmp_path / "configuration"
    configuration.mkdir()
    (configuration / "benchmarks.yaml").write_text("")
    file = None if annotations is None else Path(annotations)
    write_declaration(configuration, "my-set", tmp_path / "own", file)
    return configuration


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    with registered():
        yield


def opened(configuration: Path) -> Source:
    settings = read_configuration(configuration).benchmarks["my-set"]
    return find_benchmark("my-set").open_source(settings, configuration / "media")


@pytest.mark.parametrize("name", READABLE)
def test_a_messy_folder_is_read(name: str, tmp_path: Path) -> None:
    folder = READABLE[name]
    source = opened(declared(tmp_path, folder.files, folder.annotations))
    questions: Sequence[Question] = source.questions()
    assert list(dict.fromkeys(question.video_id for question in questions)) == list(folder.ids)
    assert "".join(question.answer for question in questions) == folder.answers
    findings = check_data(lambda: source)
    verdicts = {finding.status for finding in findings}
    assert verdicts == ({Status.OK, Status.WARNING} if folder.warns else {Status.OK})
    text = "\n".join(finding.summary for finding in findings)
    assert [part for part in folder.says if part not in text] == [], text
    subtitles = [source.subtitle(question.reference) for question in questions]
    texts = [cue.text for file in subtitles if file for cue in read_subtitles(file).cues]
    assert texts == list(folder.subtitles)


@pytest.mark.parametrize("name", REFUSED)
def test_the_reason_why_a_messy_folder_is_refused(name: str, tmp_path: Path) -> None:
    files, reason = REFUSED[name]
    with pytest.raises(AnnotationError, match=reason) as raised:
        declared(tmp_path, files, None)
    assert "Wohin" not in str(raised.value), "no content of the table"
    assert "\n" not in str(raised.value)


def test_the_same_problem_of_several_rows_is_one_sentence(tmp_path: Path) -> None:
    rows = [row("a.mp4", options=None), row("a.mp4"), *[row("a.mp4", options="Yes")] * 3]
    files: Files = {"q.json": json.dumps(rows), "a.mp4": b"\0"}
    source = opened(declared(tmp_path, files, None))
    (finding, *_) = check_data(lambda: source)
    expected = "q.json, row 1 and 3 more: `options` must have at least two options, found none"
    assert expected in finding.summary


def test_columns_in_another_language_are_named(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    (videos / "a.mp4").write_bytes(b"")
    cells = {"Datei": "a.mp4", "Frage": "Wo?", "Optionen": ["Links", "Rechts"], "Antwort": "B"}
    (videos / "fragen.json").write_text(json.dumps([cells]))
    with pytest.raises(AnnotationError, match="for the question; name it with `--columns quest"):
        write_declaration(tmp_path, "named", videos)
    columns = {"question": "Frage", "options": "Optionen", "answer": "Antwort", "video": "Datei"}
    path = write_declaration(tmp_path, "named", videos, columns=columns)
    declared = yaml.safe_load(path.read_text())
    assert declared["columns"] == columns | {"answer_is": "letter"}
    assert declared["size"] == {"videos": 1, "questions": 1, "questions_per_video": 1}
    with pytest.raises(AnnotationError, match="--columns answer=Lösung: choose one of Datei, Frag"):
        write_declaration(tmp_path, "other", videos, columns={"answer": "Lösung"})
