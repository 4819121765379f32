"""Subtitle files, well-formed and damaged."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pysrt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import GOLDEN
from videomme_pipeline.errors import SubtitleError
from videomme_pipeline.subtitles import cues
from videomme_pipeline.subtitles.cues import (
    MAX_CUE_CHARACTERS,
    MAX_FILE_BYTES,
    CueFile,
    SrtParser,
    read_json,
    read_subtitles,
    read_webvtt,
    read_words,
    within,
)

TWO_CUES = """1
00:00:01,000 --> 00:00:02,500
first

2
00:00:03,000 --> 00:00:04,000
second
"""


def read_srt(data: bytes) -> CueFile:
    """The file, after a check that all parsers read it equally."""
    results: list[CueFile | str] = []
    for parser in SrtParser:
        try:
            results.append(cues.read_srt(data, parser))
        except SubtitleError as error:
            results.append(str(error))
    assert results == [results[0]] * len(SrtParser)
    if isinstance(results[0], str):
        raise SubtitleError(results[0])
    return results[0]


def contents(file: CueFile) -> list[tuple[float, float, str]]:
    return [(cue.start_seconds, cue.end_seconds, cue.text) for cue in file.cues]


FIRST_AND_SECOND = [(1.0, 2.5, "first"), (3.0, 4.0, "second")]


def test_a_cue_has_its_number_and_its_line() -> None:
    assert [(cue.number, cue.line) for cue in read_srt(TWO_CUES.encode()).cues] == [(0, 2), (1, 6)]


def test_a_well_formed_srt_file_is_read() -> None:
    file = read_srt(TWO_CUES.encode())
    assert contents(file) == FIRST_AND_SECOND
    assert (file.skipped, file.problems, file.encoding, file.is_words) == (0, (), "utf-8", False)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("latin-1", "cp1252"),
    ],
)
def test_accented_text_is_read_in_any_encoding(written: str, read_as: str) -> None:
    text = TWO_CUES.replace("first", "élève à Noël").replace("second", "naïve señor")
    file = read_srt(text.encode(written))
    assert [cue.text for cue in file.cues] == ["élève à Noël", "naïve señor"]
    assert file.encoding == read_as


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("utf-8", "utf-8"),
        ("utf-16", "utf-16"),
        ("gbk", "gb18030"),
        ("gb18030", "gb18030"),
    ],
)
def test_chinese_text_is_read_in_any_encoding(written: str, read_as: str) -> None:
    text = TWO_CUES.replace("first", "今天天气很好").replace("second", "谢谢观看 hello")
    file = read_srt(text.encode(written))
    assert [cue.text for cue in file.cues] == ["今天天气很好", "谢谢观看 hello"]
    assert file.encoding == read_as


def test_a_few_broken_bytes_do_not_change_the_encoding_of_the_rest() -> None:
    text = TWO_CUES.replace("first", "今天天气很好").replace("second", "谢谢观看")
    data = text.encode().replace("谢谢观看".encode(), "谢谢观".encode() + b"\xe7")
    assert [cue.text for cue in read_srt(data).cues] == ["今天天气很好", "谢谢观\ufffd"]
    assert read_srt(data).encoding == "damaged utf-8"


@pytest.mark.parametrize(("accents", "encoding"), [(4, "cp1252"), (5, "damaged utf-8")])
def test_text_is_damaged_utf8_if_most_other_characters_are_whole(
    accents: int, encoding: str
) -> None:
    data = TWO_CUES.replace("first", "é" * accents).encode().replace(b"second", b"\xe9")
    assert read_srt(data).encoding == encoding


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_read(line_end: str) -> None:
    assert contents(read_srt(TWO_CUES.replace("\n", line_end).encode())) == FIRST_AND_SECOND


@pytest.mark.parametrize(
    ("timing", "start", "end"),
    [
        ("00:00:01.500 --> 00:00:02.250", 1.5, 2.25),
        ("00:00:01,5 --> 00:00:02,25", 1.5, 2.25),
        ("0:0:1,500 --> 0:0:2,250", 1.5, 2.25),
        ("00:01,500 --> 00:02,250", 1.5, 2.25),
        ("00:00:01 --> 00:00:02", 1.0, 2.0),
        ("00:00:01,500-->00:00:02,250", 1.5, 2.25),
        ("  00:00:01,500  -->  00:00:02,250  X1:40 X2:600", 1.5, 2.25),
        ("7 00:00:01,500 --> 00:00:02,250", 1.5, 2.25),
        ("100:00:01,000 --> 100:00:02,000", 360001.0, 360002.0),
        ("-00:00:01,000 --> 00:00:02,250", 0.0, 2.25),
    ],
)
def test_common_variants_of_timing_lines_are_read(timing: str, start: float, end: float) -> None:
    assert contents(read_srt(f"1\n{timing}\ntext\n".encode())) == [(start, end, "text")]


@pytest.mark.parametrize(
    "timing",
    [
        "00:00:02,000 --> 00:00:01,000",
        "-00:00:02,000 --> -00:00:01,000",
        "00:00:02,000 --> ",
        "00:00:0a,000 --> 00:00:05,000",
        "--> 00:00:05,000",
    ],
)
def test_only_a_broken_cue_is_skipped_and_it_is_reported(timing: str) -> None:
    text = TWO_CUES.replace("00:00:03,000 --> 00:00:04,000", timing) + "\n" + TWO_CUES
    file = read_srt(text.encode())
    assert [cue.text for cue in file.cues] == ["first", "first", "second"]
    assert file.skipped == 1
    assert file.problems[0].startswith("cue 2 (line 6): ")


def test_an_arrow_in_spoken_text_is_not_a_timing() -> None:
    assert contents(read_srt(TWO_CUES.replace("first", "A --> B").encode()))[0][2] == "A --> B"


def test_extra_blank_lines_neither_split_nor_lose_text() -> None:
    text = """

1

00:00:01,000 --> 00:00:02,500

first


2
00:00:03,000 --> 00:00:04,000
second

still second



"""
    assert [cue.text for cue in read_srt(text.encode()).cues] == ["first", "second still second"]


def test_missing_indexes_and_spoken_numbers_are_distinguished() -> None:
    text = """00:00:01,000 --> 00:00:02,500
the year was
1984

00:00:03,000 --> 00:00:04,000
2001
"""
    assert [cue.text for cue in read_srt(text.encode()).cues] == ["the year was 1984", "2001"]


@pytest.mark.parametrize("end", ["1984", "it was\n\n1984\n"])
def test_a_number_at_the_end_of_the_file_is_spoken_text(end: str) -> None:
    text = TWO_CUES.replace("second\n", end)
    assert read_srt(text.encode()).cues[-1].text == " ".join(end.split())


def test_a_cue_may_have_blank_rows_only() -> None:
    text = TWO_CUES.replace("first\n\n2", "\n")
    assert [cue.text for cue in read_srt(text.encode()).cues] == ["", "second"]


def test_an_index_without_a_blank_line_before_it_is_not_text() -> None:
    text = TWO_CUES.replace("first\n\n2", "first\n2")
    assert contents(read_srt(text.encode())) == FIRST_AND_SECOND


def test_unsorted_and_overlapping_cues_are_sorted_by_time_and_keep_their_numbers() -> None:
    text = """1
00:00:10,000 --> 00:00:20,000
late

2
00:00:01,000 --> 00:00:12,000
early

3
00:00:01,000 --> 00:00:02,000
early too
"""
    file = read_srt(text.encode())
    assert [(cue.number, cue.text) for cue in file.cues] == [
        (1, "early"),
        (2, "early too"),
        (0, "late"),
    ]
    assert [cue.number for cue in file.in_file_order] == [0, 1, 2]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ('<font color="white" size=".72c">white</font>', "white"),
        ("<i>slanted</i> <B>fat</B>", "slanted fat"),
        ("{\\an8}above {\\i1}slanted{\\i0}", "above slanted"),
        ("one\\Ntwo\\hthree", "one two three"),
        ("one\ntwo", "one two"),
        ("one<br/>two", "one two"),
        ("AT&amp;T &#39;quoted&#39; &lt;i&gt;", "AT&T 'quoted' <i>"),
        ("a < b and c > d", "a < b and c > d"),
        ("x<y>z", "x<y>z"),
        ("{curly} braces", "{curly} braces"),
        ("\ufeffmark\u200b", "mark"),
        ("non\u00a0breaking", "non breaking"),
        ("   ", ""),
        ("<i></i>", ""),
    ],
)
def test_text_is_the_visible_text(markup: str, text: str) -> None:
    cue = read_srt(f"1\n00:00:01,000 --> 00:00:02,000\n{markup}\n".encode()).cues[0]
    assert cue.text == text


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_cues(data: bytes) -> None:
    assert read_srt(data).cues == ()
    assert read_words(data).cues == ()


def test_the_error_for_an_unreadable_file_has_its_path(tmp_path: Path) -> None:
    path = tmp_path / "abc.srt"
    path.write_text("<html>404</html>")
    with pytest.raises(
        SubtitleError, match=r"abc\.srt: no cue can be read .*no line like 00:00:01,000"
    ):
        read_subtitles(path)
    path.write_text("1\n00:00:02,000 --> 00:00:01,000\nx\n")
    with pytest.raises(SubtitleError, match=r"cue 1 \(line 2\): it ends before it starts"):
        read_subtitles(path)
    with pytest.raises(SubtitleError, match="cannot be opened"):
        read_subtitles(tmp_path / "missing.srt")


def test_the_suffix_distinguishes_word_files_from_srt(tmp_path: Path) -> None:
    srt, words = tmp_path / "a.SRT", tmp_path / "001.jsonl"
    srt.write_text(TWO_CUES)
    words.write_text('{"text": "Hello", "start_time": 0.3, "end_time": 0.5}\n')
    assert contents(read_subtitles(srt)) == FIRST_AND_SECOND
    assert contents(read_subtitles(words)) == [(0.3, 0.5, "Hello")]
    assert read_subtitles(words).is_words


def test_words_are_not_changed_and_broken_lines_are_reported() -> None:
    good = {"text": " Hello <i>", "start_time": 0.3, "end_time": 0.3}
    bad = [
        "{",
        "[]",
        '{"text": "x"}',
        '{"text": 5, "start_time": 0, "end_time": 1}',
        '{"text": "x", "start_time": NaN, "end_time": 1}',
        '{"text": "x", "start_time": 2, "end_time": 1}',
        '{"text": "\\ud800", "start_time": 0, "end_time": 1}',
        "[" * 100_000,
        '{"text": "x", "start_time": 1, "end_time": 1' + "0" * 400 + "}",
        '{"text": "x", "start_time": 1, "end_time": 1e300}',
    ]
    file = read_words("\n".join([json.dumps(good), "", *bad]).encode())
    assert contents(file) == [(0.3, 0.3, " Hello <i>")]
    assert file.skipped == len(bad)
    assert file.problems[0].startswith("word 2 (line 3): ")


def test_a_word_file_without_words_is_an_error() -> None:
    with pytest.raises(SubtitleError, match="no cue can be read"):
        read_words(TWO_CUES.encode())


@pytest.mark.parametrize("read", [read_srt, read_words])
def test_a_file_has_a_maximum_size(read: Callable[[bytes], CueFile], tmp_path: Path) -> None:
    with pytest.raises(SubtitleError, match="larger than 8 MiB"):
        read(b" " * (MAX_FILE_BYTES + 1))
    (tmp_path / "large.srt").write_bytes(TWO_CUES.encode() * 120_000)
    with pytest.raises(SubtitleError, match=r"large\.srt: larger than 8 MiB"):
        read_subtitles(tmp_path / "large.srt")


def test_a_cue_has_a_maximum_size() -> None:
    allowed = TWO_CUES + "x" * (MAX_CUE_CHARACTERS - len("second"))
    assert len(read_srt(allowed.encode()).cues) == 2
    with pytest.raises(SubtitleError, match=r"cue 2 \(line 6\) has 20,001 characters"):
        read_srt(f"{allowed}x".encode())


@pytest.mark.parametrize(
    "row",
    [
        "--> " + "1:2 " * 200_000,
        "1:2 " * 200_000 + "--> ",
        "00:00:01,000 " + " " * 500_000 + "--> x",
        "<font " * 3_000,
        "{\\" * 5_000,
        "&amp" * 4_000,
    ],
    ids=["arrow first", "arrow last", "spaces", "tags", "braces", "entities"],
)
def test_a_long_row_is_read_in_a_time_that_grows_with_its_length(row: str) -> None:
    """The first two rows took minutes with a pattern that starts again at each time."""
    try:
        read_srt(f"{TWO_CUES}\n{row}\n".encode())
    except SubtitleError as error:
        assert "characters" in str(error)  # noqa: PT017 - most of the rows are allowed


@pytest.mark.parametrize("name", ["lmms_eval", "video_slicer", "vlmevalkit"])
def test_all_parsers_read_the_recorded_files_equally(name: str) -> None:
    recorded = json.loads((GOLDEN / "subtitles" / f"{name}.json").read_text(encoding="utf-8"))
    files = list(_srt_texts(recorded))
    assert files
    assert any(read_srt(file.encode()).cues for file in files)


def _srt_texts(recorded: object) -> Iterator[str]:
    """The texts of SRT files anywhere in a recording."""
    if isinstance(recorded, str) and " --> " in recorded:
        yield recorded
    elif isinstance(recorded, dict | list):
        for value in recorded.values() if isinstance(recorded, dict) else recorded:
            yield from _srt_texts(value)


# Properties of every file.

SRT_PIECES = st.sampled_from(
    [
        "00:00:01,000 --> 00:00:02,000", "00:00:01.5 --> 00:01:02", "-00:00:05,000 --> 00:00:01,0",
        "00:00:09,000 --> 00:00:02,000", "00:00:0", " --> ", "1", "2", "\n", "\n", "\n\n", "\r\n",
        "text", "<i>", "</font>", "{\\an8}", "\ufeff", "&amp;", "汉字", "é", "\x00", "-", ",", ":",
        '{"text": "a", "start_time": 1, "end_time": 2}', "\x85", "\u2028",
    ]
)  # fmt: skip
ANY_FILE = st.one_of(
    st.binary(max_size=400),
    st.tuples(
        st.lists(SRT_PIECES, max_size=60).map("".join),
        st.sampled_from(["utf-8", "utf-16", "gb18030", "utf-16-le"]),
    ).map(lambda drawn: drawn[0].encode(drawn[1])),
)


@given(ANY_FILE)
def test_any_bytes_are_read_as_valid_cues_or_raise_a_subtitle_error(data: bytes) -> None:
    for read in (read_srt, read_words, read_json, read_webvtt):
        try:
            file = read(data)
        except SubtitleError:
            continue
        assert [cue.start_seconds for cue in file.cues] == sorted(
            cue.start_seconds for cue in file.cues
        )
        assert len({cue.number for cue in file.cues}) == len(file.cues)
        assert all(0 <= cue.number < len(file.cues) + file.skipped for cue in file.cues)
        assert all(cue.start_seconds <= cue.end_seconds for cue in file.cues)
        assert file.skipped == len(file.problems)
        for cue in file.cues:
            cue.text.encode()


SPOKEN = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1
).filter(lambda text: text.strip() and "-->" not in text)
WELL_FORMED = st.lists(
    st.tuples(st.integers(0, 7_200_000), st.integers(0, 10_000), st.lists(SPOKEN, max_size=3)),
    min_size=1,
    max_size=8,
)


@given(WELL_FORMED)
def test_files_written_by_pysrt_are_read_back(cues: list[tuple[int, int, list[str]]]) -> None:
    items = [
        pysrt.SubRipItem(number, start, start + length, "\n".join(rows))
        for number, (start, length, rows) in enumerate(cues, 1)
    ]
    file = read_srt("\n".join(map(str, items)).encode())
    assert [
        (round(cue.start_seconds * 1000), round(cue.end_seconds * 1000))
        for cue in file.in_file_order
    ] == [(start, start + length) for start, length, _ in cues]
    assert file.skipped == 0


LISTED = [
    {"start": "00:00:01.000", "end": "00:00:02.500", "line": "one"},
    {"timestamp": [4.0, None], "text": "two"},
    {"timestamp": [6.0, 7.0], "text": "three"},
    {"timestamp": "soon", "text": "broken"},
]


def test_both_forms_of_json_lists_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(LISTED))
    file = read_subtitles(tmp_path / "a.json")
    assert [(cue.start_seconds, cue.end_seconds, cue.text) for cue in file.cues] == [
        (1.0, 2.5, "one"),
        (4.0, 6.0, "two"),
        (6.0, 7.0, "three"),
    ]
    (problem,) = file.problems
    assert problem.startswith("cue 4:")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{}", '[{"start": 1}]', '[{"timestamp": [NaN, 2], "text": "a"}]'],
    ids=["nested", "object", "start", "nan"],
)
def test_json_without_a_readable_cue_is_an_error(text: str) -> None:
    with pytest.raises(SubtitleError, match="no cue can be read as JSON"):
        read_json(text.encode())


JSON_LAYOUTS = {
    "numbers": [{"start": 0.5, "end": 2, "text": "one"}, {"start": 3, "end": 4.5, "text": "two"}],
    "durations": [
        {"text": "one", "start": 0.5, "duration": 1.5},
        {"text": "two", "start": 3.0, "duration": 1.5},
    ],
    "whisper": {
        "text": "one two",
        "segments": [
            {"id": 0, "start": 0.5, "end": 2.0, "text": " one"},
            {"id": 1, "start": 3.0, "end": 4.5, "text": " two"},
        ],
    },
    "chunks": {
        "chunks": [
            {"timestamp": [0.5, 2.0], "text": "one"},
            {"timestamp": [3.0, 4.5], "text": "two"},
        ]
    },
    "body": {
        "body": [
            {"from": 0.5, "to": 2.0, "content": "one"},
            {"from": 3.0, "to": 4.5, "content": "two"},
        ]
    },
    "clocks": [
        {"start": "0.5", "end": "00:00:02,000", "text": "one"},
        {"start": "00:03", "end": "0:0:4.5", "text": "two"},
    ],
}


@pytest.mark.parametrize("layout", JSON_LAYOUTS)
def test_common_json_layouts_are_read(layout: str) -> None:
    file = read_json(json.dumps(JSON_LAYOUTS[layout]).encode())
    assert contents(file) == [(0.5, 2.0, "one"), (3.0, 4.5, "two")]
    assert [cue.number for cue in file.cues] == [0, 1]
    assert not file.problems


WEBVTT = """WEBVTT - made up
Kind: captions

STYLE
::cue { color: white }

intro
00:01.000 --> 00:02.500 align:start position:0%
<v Anna>first</v> <00:00:01.500><c>line</c>

NOTE a comment
of two lines

00:00:03.000 --> 00:00:04.000
second &amp; last

NOTE the end
"""


def test_webvtt_is_read_without_notes_identifiers_and_settings(tmp_path: Path) -> None:
    (tmp_path / "a.vtt").write_bytes(b"\xef\xbb\xbf" + WEBVTT.replace("\n", "\r\n").encode())
    file = read_subtitles(tmp_path / "a.vtt")
    assert contents(file) == [(1.0, 2.5, "first line"), (3.0, 4.0, "second & last")]
    assert not file.problems
    # Policies that parse the text as a published evaluator does find the same cues.
    assert contents(read_srt(file.raw.encode())) == contents(file)


def test_a_problem_of_webvtt_has_the_line_of_the_file() -> None:
    broken = WEBVTT.replace("00:00:04.000", "00:00:02.000")
    (problem,) = read_webvtt(broken.encode()).problems
    assert problem.startswith("cue 2 (line 14): it ends before it starts")


def test_the_cues_of_a_part_have_times_from_its_start() -> None:
    file = read_json(json.dumps(LISTED).encode())
    part = within(file, 5.0, length_seconds=1.5)
    assert [(cue.start_seconds, cue.end_seconds, cue.text) for cue in part.cues] == [
        (0.0, 1.0, "two"),
        (1.0, 1.5, "three"),
    ]
    assert part.raw.startswith("1\n00:00:00,000 --> 00:00:01,000\ntwo\n")
    # Policies that parse the text as a published evaluator does find the same cues.
    again = read_srt(part.raw.encode())
    assert [replace(cue, number=0) for cue in again.cues] == [
        replace(cue, number=0) for cue in part.cues
    ]


def test_the_words_of_a_part_have_times_from_its_start() -> None:
    words = [{"text": t, "start_time": n, "end_time": n + 1.0} for n, t in enumerate("abc")]
    file = read_words("\n".join(map(json.dumps, words)).encode())
    part = within(file, 1.5, length_seconds=1.0)
    assert contents(part) == [(0.0, 0.5, "b"), (0.5, 1.0, "c")]
    assert part.is_words


def test_json_times_have_hours() -> None:
    cue = {"start": "01:00:01.500", "end": "02:00:02", "text": "late"}
    assert contents(read_json(json.dumps([cue]).encode())) == [(3601.5, 7202.0, "late")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[{]", "Expecting property name"), ('[{"text": "a"}]', "cue 1: ")],
)
def test_the_error_of_json_without_a_cue_has_the_first_problem(text: str, problem: str) -> None:
    with pytest.raises(SubtitleError, match=problem):
        read_json(text.encode())


def test_text_directly_before_a_timing_line_is_not_an_index() -> None:
    text = "00:00:01,000 --> 00:00:02,000\nfirst\n00:00:03,000 --> 00:00:04,000\nsecond\n"
    assert [cue.text for cue in read_srt(text.encode()).cues] == ["first", "second"]


def test_only_the_parser_that_is_named_pysrt_needs_the_package_pysrt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pysrt", None)
    assert contents(cues.read_srt(TWO_CUES.encode(), SrtParser.PYSUBS2)) == FIRST_AND_SECOND
    with pytest.raises(SubtitleError, match="pysrt is not installed"):
        cues.read_srt(TWO_CUES.encode(), SrtParser.PYSRT)


ROLLING = [
    ("00:00:00,160", "00:00:02,550", " ", "hello and welcome"),
    ("00:00:02,550", "00:00:02,560", "hello and welcome", " "),
    ("00:00:02,560", "00:00:05,110", "hello and welcome", "to the show"),
    ("00:00:05,110", "00:00:05,120", "to the show", " "),
    ("00:00:05,120", "00:00:07,000", "to the show", "show me more more"),
    ("00:00:07,000", "00:00:07,010", "show me more more", " "),
    ("00:00:07,010", "00:00:09,000", "show me more more", "more"),
]
"""The cues of YouTube, in which each line is shown three times."""


def test_rolling_captions_have_every_word_once() -> None:
    """As WebVTT with times of words, and as the SRT file that other tools make of it."""
    srt = "".join(
        f"{number}\n{start} --> {end}\n{first}\n{second}\n\n"
        for number, (start, end, first, second) in enumerate(ROLLING, 1)
    )
    vtt = "WEBVTT\nKind: captions\n\n" + "".join(
        f"{start} --> {end} align:start position:0%\n{first}\n"
        f"{second.replace(' and', '<00:00:00.480><c> and</c>')}\n\n"
        for start, end, first, second in ROLLING
    )
    for file in (read_srt(srt.encode()), read_webvtt(vtt.encode())):
        assert [(cue.start_seconds, cue.text) for cue in file.cues if cue.text] == [
            (0.16, "hello and welcome"),
            (2.56, "to the show"),
            (5.12, "show me more more"),
            (7.01, "more"),
        ]


@pytest.mark.parametrize("lines", [2, 3])
@pytest.mark.parametrize("pause_seconds", [0, 5])
@pytest.mark.parametrize("read", [read_srt, read_webvtt])
def test_short_rolling_captions_have_every_word_once(
    read: Callable[[bytes], CueFile], lines: int, pause_seconds: int
) -> None:
    """After a pause, the line before is not shown again, and its words may be said again."""
    spoken = ["no we wait", "wait for me", "me too"][:lines]
    text = "WEBVTT\n\n"
    for number, line in enumerate(spoken):
        start = 10 + number * (2 + pause_seconds)
        before = spoken[number - 1] if number and not pause_seconds else " "
        tagged = line.replace(" ", f"<00:00:{start}.500><c> ", 1) + "</c>"
        text += f"00:00:{start}.000 --> 00:00:{start + 1}.990\n{before}\n{tagged}\n\n"
        text += f"00:00:{start + 1}.990 --> 00:00:{start + 2}.000\n{line}\n \n\n"
    text = text if read is read_webvtt else text.partition("\n\n")[2].replace(".", ",")
    assert [cue.text for cue in read(text.encode()).cues if cue.text] == spoken


def test_words_that_are_said_again_are_kept() -> None:
    texts = ["No.", "No.", "No. Yes.", "Go on.", "on. And then", "la la", "la la", "la la la"]
    srt = "".join(
        f"00:00:{number:02},000 --> 00:00:{number + 1:02},000\n{text}\n\n"
        for number, text in enumerate(texts)
    )
    assert [cue.text for cue in read_srt(srt.encode()).cues] == texts


@pytest.mark.parametrize("read", [read_srt, read_webvtt])
@pytest.mark.parametrize(
    "arrow", ["->", "=>", ">", "-- >", "\u2013", "\u2014", " - ", "\u2192", "  "]
)
def test_a_loose_arrow_is_read(read: Callable[[bytes], CueFile], arrow: str) -> None:
    text = TWO_CUES.replace(":03,000 -->", f":03,000 {arrow}")
    assert contents(read(text.encode())) == FIRST_AND_SECOND


@pytest.mark.parametrize("read", [read_srt, read_webvtt])
@pytest.mark.parametrize(
    "line",
    ["00:03 -> 00:04", "[00:00:03.000 - 00:00:04.000]", "2 00:00:03,000 -> 00:00:04,000"],
)
def test_a_timing_line_without_an_arrow_is_read(
    read: Callable[[bytes], CueFile], line: str
) -> None:
    text = TWO_CUES.replace("00:00:03,000 --> 00:00:04,000", line)
    assert contents(read(text.encode())) == FIRST_AND_SECOND


def test_a_loose_arrow_before_a_damaged_time_is_reported() -> None:
    file = read_srt(TWO_CUES.replace("--> 00:00:04", "-> 00:0x:04").encode())
    assert contents(file) == FIRST_AND_SECOND[:1]
    assert [problem.partition(":")[0] for problem in file.problems] == ["cue 2 (line 6)"]


@pytest.mark.parametrize(
    "line",
    [
        "00:00:03,000 --&gt; 00:00:04,000",
        "00:00:03,000 to 00:00:04,000",
        "00:00:03,000 bis 00:00:04,000",
        "00 : 00 : 03,000 -> 00 : 00 : 04,000",
        "00:00:03,0000 -> 00:00:04,0000",
        "00;00;03,000 -> 00;00;04,000",
        "00\uff1a00\uff1a03\uff0c000 -> 00\uff1a00\uff1a04\uff0c000",
        "00:00:03,000",
    ],
)
@pytest.mark.parametrize("read", [read_srt, read_webvtt])
def test_a_line_of_times_alone_is_reported(read: Callable[[bytes], CueFile], line: str) -> None:
    file = read(TWO_CUES.replace("00:00:03,000 --> 00:00:04,000", line).encode())
    assert contents(file) == FIRST_AND_SECOND[:1]
    assert [problem.partition(":")[0] for problem in file.problems] == ["cue 2 (line 6)"]


@pytest.mark.parametrize("spoken", ["10:00 - 11:30", "from 10:00:00 - 11:00:00", "1:2:3"])
def test_times_that_are_said_are_text(spoken: str) -> None:
    file = read_srt(TWO_CUES.replace("first", spoken).encode())
    assert contents(file)[0][2] == spoken
