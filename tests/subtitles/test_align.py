"""Alignment: the cues of each frame equal the recorded output of the published evaluators."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pysrt
import pysubs2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import GOLDEN, ROOT
from videomme_pipeline.errors import ConfigurationError, SubtitleError
from videomme_pipeline.frames.cache import Frame
from videomme_pipeline.subtitles.align import (
    AlignedLine,
    Alignment,
    Policy,
    SampledFrames,
    align,
    parse_alignment,
)
from videomme_pipeline.subtitles.cues import CueFile, read_srt, read_words

RECORDED = GOLDEN / "subtitles"


@cache
def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))


def words_file(words: list[dict[str, Any]]) -> CueFile:
    return read_words("\n".join(json.dumps(word) for word in words).encode())


def frames_at(indices: Sequence[int], fps: float, frame_count: int) -> SampledFrames:
    """Frames of a video with a constant frame rate."""
    return SampledFrames(
        seconds=tuple(index / fps for index in indices),
        indices=tuple(indices),
        fps=fps,
        video_end_seconds=frame_count / fps if fps else 0.0,
    )


def at(*seconds: float, end: float = 100.0) -> SampledFrames:
    return SampledFrames(
        seconds=seconds,
        indices=tuple(round(25 * second) for second in seconds),
        fps=25.0,
        video_end_seconds=end,
    )


def srt(*cues: tuple[float, float, str]) -> CueFile:
    items = (
        pysrt.SubRipItem(number, round(start * 1000), round(end * 1000), text)
        for number, (start, end, text) in enumerate(cues, 1)
    )
    return read_srt("\n".join(map(str, items)).encode())


def test_the_parser_is_in_the_fingerprint_and_the_settings() -> None:
    default, named = parse_alignment("window-500"), parse_alignment("window-500.pysrt")
    assert default.model_dump(mode="json") == {
        "policy": "window",
        "before_ms": 500,
        "after_ms": 0,
        "parser": "pysubs2",
    }
    assert named.fingerprint != default.fingerprint
    assert named.model_dump(mode="json")["parser"] == "pysrt"
    assert parse_alignment(named.name) == named
    assert Alignment.model_validate(named.model_dump(mode="json")) == named


def texts(lines: list[AlignedLine]) -> list[str]:
    return [line.text for line in lines]


# official: video-slicer, the script of the authors of v1.


@pytest.mark.parametrize("case", range(6))
def test_official_has_the_line_of_video_slicer_at_each_frame(case: int) -> None:
    data = recorded("video_slicer")
    recording = data["subtitle_cases"][case]
    lines = align(
        parse_alignment("official"),
        read_srt(data["srt"].encode()),
        frames_at(recording["indices"], recording["fps"], recording["total"]),
    )
    per_frame = dict.fromkeys(range(recording["n"]), "")
    per_frame.update({line.frame: line.text for line in lines if line.frame is not None})
    assert list(per_frame.values()) == recording["per_frame"]
    assert "\n".join(texts(lines)) == recording["subtitles_txt"]


def test_every_recorded_cue_is_read_with_its_times() -> None:
    data = recorded("video_slicer")
    cues = read_srt(data["srt"].encode()).in_file_order
    assert [(round(c.start_seconds * 1000), round(c.end_seconds * 1000)) for c in cues] == [
        (cue["start"], cue["end"]) for cue in data["srt_parsed"]
    ]


PIECES = st.sampled_from(
    ["00:00:00,100 --> 00:00:03,000", "00:00:01.5 --> 00:00:09.25", "00:00:05,000 --> 00:00:02,000",
     "A --> B", "1", "2 ", " 3", "\n", "\n", "\n", "\n\n", "\n \n", "text", "汉 ", "< i >", "</b>",
     "<font color='x'>", "<x", ">", "{\\an8}", "\\N", "&amp;", " ", "00:00:04,000"]
)  # fmt: skip


@given(
    st.lists(PIECES, max_size=40).map("".join),
    st.lists(st.integers(0, 300), max_size=12),
    st.sampled_from([10.0, 23.976, 29.97, 30.0]),
)
def test_official_equals_the_rule_of_video_slicer_for_any_file(
    text: str, indices: list[int], fps: float
) -> None:
    text = "1\n00:00:00,000 --> 00:00:00,500\nfirst\n\n" + text
    events = pysubs2.SSAFile.from_string(text, format_="srt")
    expected = []
    for index in indices:
        time = pysubs2.make_time(fps=fps, frames=index)
        on_screen = [event for event in events if event.start < time < event.end]
        shown = on_screen[0].text.replace("\\N", " ") if on_screen else ""
        expected += [shown] if shown.strip() else []
    lines = align(
        parse_alignment("official"), read_srt(text.encode()), frames_at(indices, fps, 500)
    )
    assert texts(lines) == expected


def test_official_needs_a_frame_rate() -> None:
    frames = SampledFrames(seconds=(1.0,), indices=(25,), fps=0.0, video_end_seconds=2.0)
    with pytest.raises(SubtitleError, match="frame rate 0"):
        align(parse_alignment("official"), srt((0, 2, "a")), frames)


# vlmevalkit


@pytest.mark.parametrize("case", range(18))
def test_vlmevalkit_lists_the_recorded_lines(case: int) -> None:
    data = recorded("vlmevalkit")
    recording = data["v1"][case]
    frames = frames_at(
        recording["indices"], recording["info"]["fps"], recording["info"]["n_frames"]
    )
    cues = read_srt(data["srt"][recording["video"]].encode())
    assert texts(align(parse_alignment("vlmevalkit"), cues, frames)) == recording["subtitles_lines"]


# lmms_eval


LMMS_EVAL_CASES = [
    (case, mode)
    for case, recording in recorded("lmms_eval")["cases"].items()
    for mode in recording["outputs"]
    if not mode.startswith("qwen")
]


def lmms_eval_frames(recording: dict[str, Any], mode: str) -> SampledFrames:
    count = recording["frame_count"]
    n = count if mode == "-1" else int(mode)
    sampled = np.linspace(0, count - 1, n, dtype=int).tolist() if count else []
    indices = recording["outputs"][mode].get("frame_indices") or sampled
    assert indices == sampled
    return frames_at(indices, recording["fps"], count)


@pytest.mark.parametrize(("case", "mode"), LMMS_EVAL_CASES)
def test_lmms_eval_has_the_recorded_text_or_the_recorded_error(case: str, mode: str) -> None:
    recording = recorded("lmms_eval")["cases"][case]
    output = recording["outputs"][mode]
    cues = None if recording["srt"] is None else read_srt(recording["srt"].encode())
    if mode.startswith("full_subtitle"):
        lines = align(parse_alignment("lmms_eval_full"), cues, at())
        text = "This video's subtitles are listed below: \n" + "\n".join(texts(lines))
        # The recording contains the first 3,000 characters.
        assert text[:3000] == output["subtitle_text"]
    elif "error" in output:
        with pytest.raises(SubtitleError) as caught:
            align(parse_alignment("lmms_eval"), cues, lmms_eval_frames(recording, mode))
        assert output["error"] in str(caught.value)
    else:
        lines = align(parse_alignment("lmms_eval"), cues, lmms_eval_frames(recording, mode))
        assert "\n".join(texts(lines)) == output["subtitle_text"]
        # `frame_num` of lmms-eval, with other frames sent.
        policy = parse_alignment(f"lmms_eval-{'all' if mode == '-1' else mode}")
        sent = frames_at([], recording["fps"], recording["frame_count"])
        lines = align(policy, cues, sent)
        assert "\n".join(texts(lines)) == output["subtitle_text"]
        assert {line.frame for line in lines} <= {None}


@pytest.mark.parametrize("policy", ["official", "vlmevalkit", "lmms_eval", "lmms_eval_full"])
def test_published_policies_read_only_utf_8(policy: str) -> None:
    cues = read_srt("1\n00:00:01,000 --> 00:00:02,000\nélève à Noël\n".encode("latin-1"))
    with pytest.raises(SubtitleError, match="UTF-8 only, but this file is cp1252"):
        align(parse_alignment(policy), cues, at(1.0))


def test_a_cue_without_any_row_stops_lmms_eval() -> None:
    cues = read_srt(b"1\n00:00:01,000 --> 00:00:02,000\n\n\n2\n00:00:03,000 --> 00:00:04,000\nb\n")
    assert [cue.text for cue in cues.cues] == ["", "b"]
    with pytest.raises(SubtitleError, match="lmms-eval stops at line 5, '2'"):
        align(parse_alignment("lmms_eval"), cues, at(1.0))


def test_lmms_eval_lines_have_their_cue_and_first_frame() -> None:
    tag = '<font color="white" size=".72c">{}</font>'
    cues = srt((0, 2, tag.format("a")), (5, 9, tag.format("b")))
    lines = align(parse_alignment("lmms_eval"), cues, at(1.0, 6.0, 7.0))
    assert [(line.frame, line.cue, line.text) for line in lines] == [(0, 0, "a"), (1, 1, "b")]
    assert [(line.start_seconds, line.end_seconds) for line in lines] == [(0.0, 2.0), (5.0, 9.0)]


# full


@pytest.mark.parametrize(
    "case",
    ["dense_60s", "long_40min", "overlapping_youtube", "repeated_text", "last_frame_boundary",
     "extra_blank_line", "bom", "dot_milliseconds"],
)  # fmt: skip
def test_full_equals_the_full_text_of_lmms_eval(case: str) -> None:
    cues = read_srt(recorded("lmms_eval")["cases"][case]["srt"].encode())
    full, theirs = (
        texts(align(parse_alignment(name), cues, at())) for name in ("full", "lmms_eval_full")
    )
    assert full == theirs


@pytest.mark.parametrize(
    ("case", "ours", "theirs"),
    [
        ("no_font_tag", 20, 0),
        ("other_font_tag", 20, 0),
    ],
)
def test_full_keeps_the_cues_that_lmms_eval_drops(case: str, ours: int, theirs: int) -> None:
    cues = read_srt(recorded("lmms_eval")["cases"][case]["srt"].encode())
    assert len(align(parse_alignment("full"), cues, at())) == ours
    assert len(align(parse_alignment("lmms_eval_full"), cues, at())) == theirs


def test_full_joins_the_rows_of_a_cue_into_one_line() -> None:
    cues = read_srt(recorded("lmms_eval")["cases"]["two_line_cue"]["srt"].encode())
    assert texts(align(parse_alignment("full"), cues, at())) == [
        "first line second line",
        "wrapped over two lines",
    ]


# window: the contract


def test_window_contains_cues_from_half_a_second_before_the_frame() -> None:
    cues = srt((1.0, 2.0, "a"))
    window = parse_alignment("window")
    assert (window.before_ms, window.after_ms) == (500, 0)
    assert texts(align(window, cues, at(0.999))) == []
    assert texts(align(window, cues, at(1.0))) == ["a"]
    assert texts(align(window, cues, at(2.0))) == ["a"]
    assert texts(align(window, cues, at(2.499))) == ["a"]
    # The end of a cue is excluded, so it was last shown more than 500 ms before 2.5 s.
    assert texts(align(window, cues, at(2.5))) == []


def test_window_can_extend_past_the_frame() -> None:
    cues = srt((1.0, 2.0, "a"))
    assert texts(align(parse_alignment("window-0-250"), cues, at(0.75))) == ["a"]
    assert texts(align(parse_alignment("window-0-250"), cues, at(0.749))) == []
    assert texts(align(parse_alignment("window-0"), cues, at(2.0))) == []


def test_window_edges_are_exact_in_milliseconds() -> None:
    # In floating point, 5.2 - 0.5 is slightly more than 4.7.
    assert texts(align(parse_alignment("window"), srt((4.0, 4.7, "a")), at(5.2))) == []
    assert texts(align(parse_alignment("window"), srt((4.0, 4.701, "a")), at(5.2))) == ["a"]


def test_window_lists_each_cue_once_and_keeps_repeated_words() -> None:
    cues = srt((0.0, 5.0, "[Music]"), (5.0, 6.0, "[Music]"), (2.0, 3.0, " "))
    lines = align(parse_alignment("window"), cues, at(1.0, 2.0, 5.2))
    assert [(line.frame, line.cue, line.text) for line in lines] == [
        (0, 0, "[Music]"),
        (2, 1, "[Music]"),
    ]


# The v2 policies: concat and interleaved


def test_concat_is_the_official_text_in_the_official_segments() -> None:
    data = recorded("v2_official")
    lines = align(parse_alignment("concat"), words_file(data["words"]), at())
    assert " ".join(texts(lines)) == data["concat"]
    assert [
        {"text": line.text, "start_time": line.start_seconds, "end_time": line.end_seconds}
        for line in lines
    ] == data["segments"]


def test_a_segment_contains_the_first_and_the_last_word() -> None:
    data = recorded("v2_official")
    lines = align(parse_alignment("concat"), words_file(data["words"]), at())
    for line in lines:
        assert line.cue is not None
        assert line.last_cue is not None
        words = data["words"][line.cue : line.last_cue + 1]
        assert " ".join(word["text"] for word in words) == line.text


def test_interleaved_shows_after_each_frame_the_lines_until_the_next_frame() -> None:
    data = recorded("v2_official")
    seconds = tuple(data["frame_timestamps"])
    lines = align(
        parse_alignment("interleaved"),
        words_file(data["words"]),
        at(*seconds, end=data["video_end"]),
    )
    shown = [
        [
            f"[Subtitle {line.start_seconds:.2f}s - {line.end_seconds:.2f}s]: {line.text}"
            for line in lines
            if line.frame == frame
        ]
        for frame in range(len(seconds))
    ]
    assert shown == data["interleave"]


def test_vlmevalkit_interleaved_shows_the_words_between_frames() -> None:
    data = recorded("v2_official")
    frames = at(*data["frame_timestamps"], end=data["video_end"])
    lines = align(parse_alignment("vlmevalkit_interleaved"), words_file(data["words"]), frames)
    assert texts(lines) == data["between_words"]


@pytest.mark.parametrize("policy", ["official", "lmms_eval", "lmms_eval_full", "vlmevalkit"])
def test_published_v1_policies_list_all_words_of_a_word_file(policy: str) -> None:
    cues = words_file(recorded("v2_official")["words"])
    assert align(parse_alignment(policy), cues, at(1.0)) == align(
        parse_alignment("concat"), cues, at(1.0)
    )


def test_window_uses_the_segments_of_a_word_file_as_lines() -> None:
    cues = words_file(recorded("v2_official")["words"])
    assert texts(align(parse_alignment("window"), cues, at(2.0, 13.2))) == [
        "a test! of",
        "end Hello world.",
    ]


def test_interleaved_shows_the_cues_of_an_srt_file_between_frames() -> None:
    cues = srt((0.5, 1.5, "a"), (1.5, 4.0, "<i>b</i>"), (2.0, 3.0, " "))
    lines = align(parse_alignment("interleaved"), cues, at(1.0, 3.0, end=3.5))
    assert [(line.frame, line.text) for line in lines] == [(0, "a"), (0, "b"), (1, "b")]


# Numbers and names in the documentation

DOCUMENTATION = ROOT / "docs" / "subtitles-and-prompts.md"


@pytest.mark.parametrize(
    ("row", "case"),
    [
        ("40 minutes, a cue every 2.7 s", "long_40min"),
        ("rolling captions that overlap", "overlapping_youtube"),
        ("cues without a font tag", "no_font_tag"),
        ("`.` before the milliseconds", "dot_milliseconds"),
    ],
)
def test_the_documented_counts_are_correct(row: str, case: str) -> None:
    recording = recorded("lmms_eval")["cases"][case]
    cues = read_srt(recording["srt"].encode())
    count = recording["frame_count"]
    frames = frames_at([(2 * n + 1) * count // 64 for n in range(32)], recording["fps"], count)

    def lines(name: str) -> str:
        try:
            aligned = align(parse_alignment(name), cues, frames)
        except SubtitleError:
            return "cannot be read"
        starts = [line.start_seconds for line in aligned]
        return f"{len(aligned)}" + ("" if starts == sorted(starts) else ", not in time order")

    names = ("window-500", "official", "lmms_eval", "full")
    counts = " | ".join([str(len(cues.cues)), *map(lines, names)])
    assert f"| {row} | {counts} |" in DOCUMENTATION.read_text(encoding="utf-8")


def test_longvideobench_places_cues_by_their_midpoint_and_widens_short_ones() -> None:
    cues = srt(
        (0.0, 1.0, "covers no frame"),
        (1.5, 1.7, "widened, but covers no frame"),
        (2.0, 9.0, "midpoint 5.5"),
        (3.8, 3.9, "widened, before the frame"),
        (4.0, 4.2, "widened, after the frame"),
        (7.5, 8.5, "midpoint at a frame"),
    )
    lines = align(parse_alignment("longvideobench"), cues, at(0.0, 4.0, 8.0))
    assert [(line.frame, line.text) for line in lines] == [
        (1, "midpoint 5.5"),
        (1, "widened, before the frame"),
        (1, "widened, after the frame"),
        (2, "midpoint at a frame"),
    ]


def test_longvideobench_keeps_the_order_of_the_file() -> None:
    cues = srt((3.8, 3.9, "first"), (7.5, 8.5, "second"), (3.0, 5.0, "earlier"))
    lines = align(parse_alignment("longvideobench"), cues, at(0.0, 4.0, 8.0))
    assert [(line.frame, line.text) for line in lines] == [
        (0, "first"),
        (2, "second"),
        (2, "earlier"),
    ]
    assert align(parse_alignment("longvideobench"), cues, at()) == []


def test_longvideobench_has_lines_without_times() -> None:
    assert not parse_alignment("longvideobench").is_stamped
    assert parse_alignment("interleaved").is_stamped


@pytest.mark.parametrize("policy", [policy for policy in Policy if policy != Policy.WINDOW])
def test_every_policy_is_documented(policy: Policy) -> None:
    assert f"| `{policy}` |" in DOCUMENTATION.read_text(encoding="utf-8")


@pytest.mark.parametrize("policy", Policy)
def test_every_policy_lists_the_line_on_screen_at_a_frame(policy: Policy) -> None:
    cues = srt((0.0, 2.0, '<font color="white" size=".72c">Hello.</font>'))
    (line,) = align(Alignment(policy=policy), cues, at(1.0))
    assert "Hello." in line.text


# Names


@pytest.mark.parametrize(
    ("text", "name"),
    [("window", "window-500"), ("window-500", "window-500"), ("window-0", "window-0"),
     ("window-500-250", "window-500-250"), ("window-250-0", "window-250")]
    + [(policy, policy) for policy in Policy if policy != Policy.WINDOW],
)  # fmt: skip
def test_names_are_read_and_written(text: str, name: str) -> None:
    alignment = parse_alignment(text)
    assert alignment.name == name
    assert parse_alignment(alignment.name) == alignment
    assert Alignment.model_validate(text) == alignment


@pytest.mark.parametrize("text", ["", "windows", "window--5", "window-5-5-5", "official-500"])
def test_an_unknown_name_is_an_error_that_lists_the_known_names(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"official, lmms_eval, .*window-BEFORE"):
        parse_alignment(text)


def test_only_window_has_window_parameters() -> None:
    with pytest.raises(ValueError, match="belong to window, not to official"):
        Alignment(policy=Policy.OFFICIAL, before_ms=100)


def test_parameters_are_in_the_fingerprint() -> None:
    names = ["window-500", "window-250", "window-500-250", *Policy]
    fingerprints = {parse_alignment(name).fingerprint for name in names}
    assert len(fingerprints) == len(names) - 1  # `window` is `window-500`


# Properties of every policy.


def test_only_lmms_eval_has_a_line_for_a_video_without_a_subtitle_file() -> None:
    for policy in Policy:
        lines = align(parse_alignment(policy), None, at(1.0))
        notice = policy in {Policy.LMMS_EVAL, Policy.LMMS_EVAL_FULL}
        assert texts(lines) == (["No subtitles available"] if notice else [])
        assert all(line.cue is None and line.frame is None for line in lines)


def test_sampled_frames_have_the_actual_times_of_the_frames() -> None:
    frame = Frame(
        requested_seconds=1.0, pts_seconds=1.08, index=27, is_keyframe=False,
        width=1, height=1, picture=b"",
    )  # fmt: skip
    assert SampledFrames.of([frame], fps=25.0, video_end_seconds=9.0) == SampledFrames(
        seconds=(1.08,), indices=(27,), fps=25.0, video_end_seconds=9.0
    )
    with pytest.raises(ValueError, match="1 times but 2 frame numbers"):
        SampledFrames(seconds=(1.0,), indices=(1, 2), fps=25.0, video_end_seconds=9.0)


CUES = st.lists(
    st.tuples(
        st.floats(0, 100).map(lambda seconds: round(seconds, 3)),
        st.floats(0, 20).map(lambda seconds: round(seconds, 3)),
        st.sampled_from([" ", "a.", "b", "<i>c</i>", '<font color="white" size=".72c">d</font>']),
    ),
    min_size=1,
    max_size=12,
)


@given(
    CUES,
    st.lists(st.floats(0, 120), max_size=8).map(sorted),
    st.sampled_from(Policy),
    st.booleans(),
)
def test_lines_refer_to_existing_frames_and_cues_in_order(
    drawn: list[tuple[float, float, str]], seconds: list[float], policy: Policy, as_words: bool
) -> None:
    if as_words:
        cues = words_file(
            [{"text": t, "start_time": s, "end_time": s + length} for s, length, t in drawn]
        )
    else:
        cues = srt(*((start, start + length, text) for start, length, text in drawn))
    lines = align(parse_alignment(policy), cues, at(*seconds, end=130.0))
    numbers = {cue.number for cue in cues.cues}
    assert all({line.cue, line.last_cue} <= numbers for line in lines)
    frames = [line.frame for line in lines if line.frame is not None]
    assert all(0 <= frame < len(seconds) for frame in frames)
    assert not frames or len(frames) == len(lines)
    if policy != Policy.LMMS_EVAL:
        assert frames == sorted(frames)
    if policy in {Policy.WINDOW, Policy.FULL}:
        starts = [line.start_seconds for line in lines]
        assert starts == sorted(starts)
        assert len({line.cue for line in lines}) == len(lines)


@given(
    CUES,
    st.lists(st.floats(0, 120), max_size=6).map(sorted),
    st.integers(0, 3000),
    st.integers(0, 3000),
)
def test_window_contains_exactly_the_cues_on_screen_within_it(
    drawn: list[tuple[float, float, str]], seconds: list[float], before_ms: int, after_ms: int
) -> None:
    cues = srt(*((start, start + length, text) for start, length, text in drawn))
    lines = align(
        Alignment(policy=Policy.WINDOW, before_ms=before_ms, after_ms=after_ms), cues, at(*seconds)
    )
    expected = {
        cue.number
        for cue in cues.cues
        for frame_us in (round(second * 1e6) for second in seconds)
        if cue.text
        and round(cue.start_seconds * 1e6) <= frame_us + after_ms * 1000
        and round(cue.end_seconds * 1e6) > frame_us - before_ms * 1000
    }
    assert {line.cue for line in lines} == expected


# Lines with all their values, and values at the edges of the rules.

TWO = "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n2\n01:00:03,000 --> 01:00:04,000\n{}\n"
TAG = '<font color="white" size=".72c">{}</font>'


def made(frame: int | None, cue: int | None, start: float, end: float, text: str) -> AlignedLine:
    return AlignedLine(
        frame=frame, cue=cue, last_cue=cue, start_seconds=start, end_seconds=end, text=text
    )


def lines_of(policy: str, cues: CueFile | None, frames: SampledFrames) -> list[AlignedLine]:
    return align(parse_alignment(policy), cues, frames)


@pytest.mark.parametrize("policy", ["official", "vlmevalkit", "lmms_eval", "lmms_eval_full"])
def test_the_lines_of_published_policies_have_the_numbers_of_their_cues(policy: str) -> None:
    is_tagged = policy.startswith("lmms")
    cues = read_srt(TWO.format(*(TAG.format(x) if is_tagged else x for x in "ab")).encode())
    at_frame = (None, None) if policy == "lmms_eval_full" else (0, 1)
    assert lines_of(policy, cues, at(1.5, 3603.5)) == [
        made(at_frame[0], 0, 1.0, 2.0, "a"),
        made(at_frame[1], 1, 3603.0, 3604.0, "b"),
    ]


@pytest.mark.parametrize("policy", Policy)
def test_an_empty_file_has_no_lines(policy: Policy) -> None:
    assert lines_of(policy, read_srt(b""), at(1.0, 2.0)) == []


def test_the_notice_of_lmms_eval_lasts_as_long_as_the_video() -> None:
    notice = made(None, None, 0.0, 7.5, "No subtitles available")
    assert lines_of("lmms_eval", None, at(1.0, end=7.5)) == [notice]


@pytest.mark.parametrize(
    ("policy", "evaluator"),
    [
        ("official", "pysubs2 in the official script and in VLMEvalKit"),
        ("lmms_eval", "lmms-eval"),
        ("lmms_eval_full", "lmms-eval"),
    ],
)
def test_the_error_for_another_encoding_names_the_evaluator(policy: str, evaluator: str) -> None:
    cues = read_srt(TWO.format("élève", "b").encode("latin-1"))
    with pytest.raises(SubtitleError) as caught:
        lines_of(policy, cues, at(1.5))
    assert str(caught.value) == (
        f"{evaluator} reads UTF-8 only, but this file is cp1252; choose another alignment for it"
    )


def test_the_error_where_lmms_eval_stops_says_what_to_do() -> None:
    cues = read_srt(TWO.format("a", "b").replace("02,000", "02.000").encode())
    with pytest.raises(SubtitleError, match=r"line 2, .*; choose another alignment for this file$"):
        lines_of("lmms_eval", cues, at(1.5))


def test_lmms_eval_ignores_a_cue_without_text_and_blank_lines() -> None:
    text = "1\n00:00:00,500 --> 00:00:00,900\n\n \n \n \n\n" + TWO.format(TAG.format("a"), "b")
    assert texts(lines_of("lmms_eval", read_srt(text.encode()), at(1.5))) == ["a"]


def test_lmms_eval_full_uses_the_row_before_the_next_timing_line() -> None:
    rows = [f"00:00:0{n},000 --> 00:00:0{n},500\n{TAG.format(n)}" for n in (1, 2)]
    cues = read_srt("\n".join(rows).encode())
    assert texts(lines_of("lmms_eval_full", cues, at(1.5))) == ["1", "2"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("</font> " + TAG.format("a") + TAG.format("b"), ["a"]),
        (TAG.format(""), [""]),
        ("a</font>", []),
        (TAG.format("a").removesuffix("</font>"), []),
    ],
)
def test_lmms_eval_uses_the_text_of_the_first_tag(row: str, expected: list[str]) -> None:
    assert texts(lines_of("lmms_eval_full", srt((1, 2, row)), at(1.5))) == expected


def test_official_reads_a_file_as_srt_whatever_it_contains() -> None:
    cues = read_srt(TWO.format("[Script Info]", "WEBVTT").encode())
    assert texts(lines_of("official", cues, at(1.5))) == ["[Script Info]"]


def test_official_needs_a_positive_frame_rate_only() -> None:
    frames = SampledFrames(seconds=(2.0,), indices=(1,), fps=0.5, video_end_seconds=9.0)
    assert texts(lines_of("official", srt((1, 3, "a")), frames)) == ["a"]


def test_the_edges_of_a_window_are_exact() -> None:
    hour = "window-3600000-250"
    assert texts(lines_of(hour, srt((0, 400.001, "a")), at(4000.0))) == ["a"]
    assert texts(lines_of(hour, srt((0, 400.0, "a")), at(4000.0))) == []
    quarter = "window-0-250"
    assert texts(lines_of(quarter, srt((4.25, 5.0, "a")), at(4.0))) == ["a"]
    assert texts(lines_of("window-0-2000", srt((6.001, 7.0, "a")), at(4.0))) == []


def test_a_line_between_frames_may_end_at_the_frame_but_not_start_at_the_next() -> None:
    cues = srt((0.5, 1.0, "a"), (2.0, 3.0, "b"))
    lines = lines_of("interleaved", cues, at(1.0, 2.0, end=4.0))
    assert [(line.frame, line.text) for line in lines] == [(0, "a"), (1, "b")]


def test_vlmevalkit_interleaved_has_the_times_of_the_frames() -> None:
    words = words_file(
        [
            {"text": "b", "start_time": 1.5, "end_time": 1.6},
            {"text": "a", "start_time": 1.1, "end_time": 1.2},
        ]
    )
    (line,) = lines_of("vlmevalkit_interleaved", words, at(1.0, 2.0, end=4.0))
    assert (line.frame, line.start_seconds, line.end_seconds) == (0, 1.0, 2.0)
    assert (line.text, line.cue, line.last_cue) == ("b a", 0, 1)
    cues = srt((1.1, 1.2, "a"), (1.3, 1.4, " "))
    (line,) = lines_of("vlmevalkit_interleaved", cues, at(1.0, 2.0, end=4.0))
    assert (line.text, line.cue, line.last_cue) == ("a", 0, 0)


@pytest.mark.parametrize(
    ("text", "pause", "segments"), [("Hi. ", 0.2, 2), ("Hi", 0.2, 1), ("Hi.", 0.1, 1)]
)
def test_a_sentence_ends_a_segment_after_a_short_pause(
    text: str, pause: float, segments: int
) -> None:
    words = [
        {"text": text, "start_time": 0.0, "end_time": 0.0},
        {"text": "you", "start_time": pause, "end_time": 2.0},
    ]
    assert len(lines_of("concat", words_file(words), at(1.0))) == segments
