"""Prompts equal the published ones byte for byte.

The files in `golden/prompts` are complete prompts: a line break at the end is part of the prompt.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.errors import ConfigurationError, PromptError
from videomme_pipeline.prompts.render import (
    Prompt,
    SubtitleUse,
    Template,
    TemplateName,
    load_template,
    parse_template,
    render,
    with_prompts,
)
from videomme_pipeline.prompts.sandbox import VARIABLES
from videomme_pipeline.rows import from_table, to_table
from videomme_pipeline.subtitles.align import AlignedLine, SampledFrames, align, parse_alignment
from videomme_pipeline.subtitles.cues import read_words

LETTERS = "ABCDEFGH"
V1_TEMPLATES = [TemplateName.OFFICIAL_V1, TemplateName.CONTRACT_V1]


@cache
def recorded(name: str) -> Any:
    return json.loads((GOLDEN / "subtitles" / f"{name}.json").read_text(encoding="utf-8"))


def golden(name: str) -> str:
    return (GOLDEN / "prompts" / f"{name}.txt").read_bytes().decode()


def question(text: str, options: Sequence[str], *, in_group: bool = False) -> Question:
    return Question(
        benchmark="videomme_v2" if in_group else "videomme",
        question_id="001-1",
        video_id="001",
        youtube_id=None,
        url=None,
        question=text,
        options=tuple(options),
        answer=Letter.A,
        facets=Facets({"group_type": "logic"} if in_group else {}),
    )


V1 = question(
    "Which kettle boils first?",
    ["A. The red one.", "B. The blue one.", "C. The green one.", "D. None of them."],
)
V2 = question(
    "Which kettle boils first?",
    [f"{letter}. Kettle {number}." for number, letter in enumerate(LETTERS, 1)],
    in_group=True,
)


def line(
    text: str, frame: int | None = 0, start: float = 0.0, end: float = 1.0, cue: int | None = 0
) -> AlignedLine:
    return AlignedLine(
        frame=frame, cue=cue, last_cue=cue, start_seconds=start, end_seconds=end, text=text
    )


SPOKEN = [
    line("The water is warm.", 0, 0.3, 1.96, 0),
    line("Now it sings!", 1, 2.0, 3.005, 1),
    line("Tea, anyone?", 1, 3.5, 4.25, 2),
]


def rendered(
    template: str | Template,
    target: Question,
    lines: Sequence[AlignedLine] | None,
    *,
    frames: int = 4,
    interleaved: bool = False,
) -> Prompt:
    chosen = parse_template(template) if isinstance(template, str) else template
    seconds = [float(second) for second in range(frames)]
    alignment = parse_alignment("interleaved") if interleaved else None
    return render(chosen, target, lines, frame_seconds=seconds, alignment=alignment)


# Complete prompts


TRACKS: dict[str, Sequence[AlignedLine] | None] = {
    "without": None,
    "with": SPOKEN,
    "video-without": [],
}
PUBLISHED = [
    ("official_v1", V1, "official_v1"),
    ("official_v1_zh", V1, "official_v1_zh"),
    ("contract_v1", V1, "contract_v1"),
    ("lmms_eval", V1, "lmms_eval"),
    ("lmms_eval", V2, "lmms_eval-v2"),
    ("lmms_eval_qwen3_vl", V1, "lmms_eval_qwen3_vl"),
    ("vlmevalkit", V1, "vlmevalkit"),
    ("vlmevalkit", V2, "vlmevalkit-v2"),
    ("official_v2", V2, "official_v2"),
    ("official_v2_think", V2, "official_v2_think"),
    ("qwen3_vl", V1, "qwen3_vl"),
    ("videollama3", V1, "videollama3"),
]


def test_every_template_has_golden_files() -> None:
    assert {template for template, _, _ in PUBLISHED} == set(TemplateName)


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize(("template", "target", "file"), PUBLISHED)
def test_prompts_equal_the_golden_files(
    template: str, target: Question, file: str, track: str
) -> None:
    assert rendered(template, target, TRACKS[track]).text == golden(f"{file}.{track}")


@pytest.mark.parametrize(("template", "target", "file"), PUBLISHED)
def test_prompts_without_frames_do_not_mention_frames(
    template: str, target: Question, file: str
) -> None:
    prompt = rendered(template, target, None, frames=0)
    assert prompt.text == golden(f"{file}.without-frames")
    assert "frames" not in prompt.text
    assert prompt.num_frames == 0


@pytest.mark.parametrize("track", ["without", "with", "video-without"])
def test_lmms_eval_has_its_own_texts_before_and_after_the_question(track: str) -> None:
    """A text is shown as written, also one that looks like Jinja."""
    template = parse_template("lmms_eval_qwen3_vl")
    texts = ("Frage {{ ä }}: ", "Answer: {% x %}")
    expected = golden(f"lmms_eval_qwen3_vl.{track}").replace("Question: ", texts[0])
    expected = expected.replace("Answer with the option letter only.", texts[1])
    assert rendered(with_prompts(template, *texts), V1, TRACKS[track]).text == expected


def test_only_given_texts_of_lmms_eval_are_replaced() -> None:
    template = parse_template("lmms_eval")
    assert with_prompts(template, None, None) == template
    prompt = rendered(with_prompts(template, None, "Answer:"), V1, None).text
    assert prompt.endswith("\nD. None of them.\nAnswer:")
    with pytest.raises(ConfigurationError, match="`pre_prompt` of lmms-eval changes nothing"):
        with_prompts(template, "Question: ", None)


def test_the_lines_of_longvideobench_have_no_times() -> None:
    template = Template(name="plain", text="{% if interleaved %}{{ question }}{% endif %}")
    prompt = render(
        template,
        V1,
        SPOKEN,
        frame_seconds=[0.0, 2.0],
        alignment=parse_alignment("longvideobench"),
    )
    assert prompt.after_frame == ("The water is warm.\n", "Now it sings!\nTea, anyone?\n")


@pytest.mark.parametrize("template", ["official_v2", "official_v2_think", "vlmevalkit"])
def test_interleaved_subtitles_follow_their_frames(template: str) -> None:
    prompt = rendered(template, V2, SPOKEN, interleaved=True)
    assert prompt.text == golden(f"{template}.interleaved")
    assert prompt.after_frame == (
        "[Subtitle 0.30s - 1.96s]: The water is warm.",
        "[Subtitle 2.00s - 3.00s]: Now it sings![Subtitle 3.50s - 4.25s]: Tea, anyone?",
        "",
        "",
    )


def test_times_are_before_each_frame_and_change_nothing_else() -> None:
    seconds, times = [0.0, 2.04, 3600.0], "<{seconds:.1f} seconds>"
    for name, options in (("official_v1", V1), ("official_v2", V2)):
        plain = parse_template(name)
        template = Template.model_validate({"name": name, "frame_times": times})
        prompt = render(template, options, None, frame_seconds=seconds)
        assert prompt.before_frames == "<0.0 seconds>"
        assert prompt.after_frame == ("<2.0 seconds>", "<3600.0 seconds>", "")
        assert prompt.text == render(plain, options, None, frame_seconds=seconds).text
        assert template.fingerprint != plain.fingerprint
    assert render(template, V2, None, frame_seconds=[]).before_frames == ""


def test_times_follow_the_subtitles_of_the_frame_before() -> None:
    template = Template.model_validate(
        {"name": "official_v2", "frame_times": "At {seconds:.0f} s: "}
    )
    prompt = render(
        template,
        V2,
        SPOKEN,
        frame_seconds=[0.0, 2.0],
        alignment=parse_alignment("interleaved"),
    )
    assert prompt.before_frames == "At 0 s: "
    assert prompt.after_frame == (
        "[Subtitle 0.30s - 1.96s]: The water is warm.At 2 s: ",
        "[Subtitle 2.00s - 3.00s]: Now it sings![Subtitle 3.50s - 4.25s]: Tea, anyone?",
    )


@pytest.mark.parametrize("times", ["{seconds}", "<seconds>", "{seconds:.12f}", "{0.__class__}"])
def test_times_without_the_place_of_the_seconds_are_refused(times: str) -> None:
    with pytest.raises(ValueError, match="should match pattern"):
        Template.model_validate({"name": "official_v1", "frame_times": times})


# Equal to recorded prompts


def shown(text: str) -> list[AlignedLine]:
    return [line(row) for row in text.split("\n")]


CAR = question(recorded("lmms_eval")["doc"]["question"], recorded("lmms_eval")["doc"]["options"])
BUS = question(
    CAR.question.replace("car", "bus"),
    [f"{letter}. opt{n}" for n, letter in enumerate(LETTERS)],
    in_group=True,
)
NO_FRAMES = SampledFrames(seconds=(), indices=(), fps=25.0, video_end_seconds=60.0)


@pytest.mark.parametrize(
    "case", [case for case, recording in recorded("lmms_eval")["cases"].items() if recording["srt"]]
)
def test_lmms_eval_with_subtitles_is_as_recorded(case: str) -> None:
    for output in recorded("lmms_eval")["cases"][case]["outputs"].values():
        if "prompt_tail" in output:
            lines = shown(output["subtitle_text"]) if output["subtitle_text"] else []
            text = rendered("lmms_eval", CAR, lines).text
            # The recording has the last 400 characters of a long prompt.
            assert text[-len(output["prompt_tail"]) :] == output["prompt_tail"]


def test_lmms_eval_states_that_a_video_has_no_subtitles() -> None:
    notice = align(parse_alignment("lmms_eval"), None, NO_FRAMES)
    prompt = rendered("lmms_eval", CAR, notice)
    output = recorded("lmms_eval")["cases"]["no_srt"]["outputs"]["8"]
    assert prompt.text == output["prompt_tail"]
    assert (prompt.subtitles, prompt.subtitle_lines) == (SubtitleUse.NONE, 0)
    # Only lmms-eval shows the notice. Other templates do not show it as a subtitle.
    assert rendered("contract_v1", CAR, notice).text == rendered("contract_v1", CAR, []).text


def test_the_contract_has_nothing_but_its_own_words() -> None:
    contract = (
        "Video frames are shown above.\n\n{subtitles}\n\nQuestion: {question}\n\n"
        "Options:\n{options}\n\nAnswer with the letter of the correct option."
    )
    expected = contract.format(
        subtitles="The water is warm.\nNow it sings!\nTea, anyone?",
        question=V1.question,
        options="\n".join(V1.options),
    )
    assert rendered("contract_v1", V1, SPOKEN).text == expected


def test_lmms_eval_without_subtitles_is_as_recorded() -> None:
    text = recorded("lmms_eval")["prompts_v1_no_subtitle"]["default"]
    assert rendered("lmms_eval", CAR, None).text == text


def test_lmms_eval_v2_is_as_recorded() -> None:
    prompts = recorded("lmms_eval")["prompts_v2"]
    words = read_words("\n".join(map(json.dumps, prompts["subtitle_jsonl"])).encode())
    policy = parse_alignment("lmms_eval")
    assert rendered("lmms_eval", BUS, None).text == prompts["default"]
    with_subtitles = rendered("lmms_eval", BUS, align(policy, words, NO_FRAMES))
    assert with_subtitles.text == prompts["w_subtitle"]
    # lmms-eval has no notice for v2: without subtitles, the prompt is that of the other track.
    assert rendered("lmms_eval", BUS, align(policy, None, NO_FRAMES)).text == prompts["default"]


def test_vlmevalkit_v1_is_as_recorded() -> None:
    data = recorded("vlmevalkit")
    target = question("What is shown?", ["A. Black.", "B. Gray.", "C. Green.", "D. Brown."])
    cases = [case for case in data["v1"] if case["text_messages"]]
    assert len(cases) == 3
    for case in cases:
        lines = [line(text) for text in case["subtitles_lines"]]
        assert rendered("vlmevalkit", target, lines).text == "".join(case["text_messages"])


def test_vlmevalkit_v1_for_a_video_without_subtitles_is_as_recorded() -> None:
    text = rendered("vlmevalkit", question("q", ["A. x"]), []).text
    assert text == "".join(recorded("vlmevalkit")["v1_missing_srt_text_messages"])


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize(
    ("template", "column", "listed", "interleaved"),
    [
        ("official_v2", "official", "concat", "interleaved"),
        ("vlmevalkit", "vlmevalkit", "vlmevalkit", "vlmevalkit_interleaved"),
    ],
)
def test_v2_requests_are_as_recorded(
    case: int, template: str, column: str, listed: str, interleaved: str
) -> None:
    data = recorded("vlmevalkit")
    recording = data["v2"][case]
    frames = SampledFrames(
        seconds=tuple(recording["timestamps"]),
        indices=tuple(recording["indices"]),
        fps=data["videos"]["vidA"]["fps"],
        video_end_seconds=60.0,
    )
    alignment = parse_alignment(interleaved if recording["interleave"] else listed)
    words = read_words("\n".join(map(json.dumps, data["v2_words"])).encode())
    target = question("Which?", [f"{letter}. opt{letter}" for letter in LETTERS], in_group=True)
    prompt = render(
        parse_template(template),
        target,
        align(alignment, words, frames),
        frame_seconds=frames.seconds,
        alignment=alignment,
    )
    after = prompt.after_frame or ("",) * prompt.num_frames
    # Consecutive texts are concatenated without a separator.
    assert "".join(f"IMG{text}" for text in after) + prompt.text == "".join(recording[column])


def test_official_v2_uses_the_recorded_sentences() -> None:
    sentences = recorded("v2_official")["prompts"]
    question_lines = "Question: Which kettle boils first?\n" + "\n".join(V2.options) + "\n"
    text = " ".join(spoken.text for spoken in SPOKEN)
    for template, key in (
        ("official_v2", "INSTRUCT_PROMPT"),
        ("official_v2_think", "THINK_PROMPT"),
    ):
        tail = question_lines + sentences[key]
        assert rendered(template, V2, None).text == sentences["WO_SUB_PROMPT"] + tail
        assert (
            rendered(template, V2, SPOKEN).text == sentences["WITH_SUB_PROMPT"].format(text) + tail
        )
        assert rendered(template, V2, []).text == sentences["WITH_SUB_PROMPT"].format("") + tail
        between = rendered(template, V2, [], interleaved=True)
        assert between.text == sentences["WITH_SUB_PROMPT_INTERLEAVE"] + tail
        assert between.subtitles is SubtitleUse.NONE


# Unusual questions


def test_line_breaks_and_duplicate_options_stay_as_published() -> None:
    odd = question("One\nTwo", ["A. same", "B. same", "C. two\nrows", "D. {{ options }} {% x"])
    text = rendered("official_v1", odd, None).text
    assert "\nOne\nTwo\nA. same\nB. same\nC. two\nrows\nD. {{ options }} {% x\nThe best" in text


@pytest.mark.parametrize(
    ("count", "phrase"),
    [(1, "(A)"), (2, "(A or B)"), (3, "(A, B, or C)"), (4, "(A, B, C, or D)"),
     (8, "(A, B, C, D, E, F, G, or H)")],
)  # fmt: skip
def test_official_v1_names_the_letters_of_the_question(count: int, phrase: str) -> None:
    target = question("q", [f"{letter}. x" for letter in LETTERS[:count]])
    assert f"with only the letter {phrase} of" in rendered("official_v1", target, None).text


@pytest.mark.parametrize("template", ["official_v2", "lmms_eval", "vlmevalkit"])
def test_published_v2_prompts_always_name_eight_letters(template: str) -> None:
    target = question("q", ["A. x", "B. y"], in_group=True)
    assert "(A, B, C, D, E, F, G, or H)" in rendered(template, target, None).text


@pytest.mark.parametrize(
    ("lines", "interleaved", "use", "count"),
    [
        (None, False, SubtitleUse.OFF, 0),
        ([], False, SubtitleUse.NONE, 0),
        (SPOKEN, False, SubtitleUse.LISTED, 3),
        (SPOKEN, True, SubtitleUse.INTERLEAVED, 3),
    ],
)
def test_a_prompt_records_its_use_of_subtitles(
    lines: Sequence[AlignedLine] | None, interleaved: bool, use: SubtitleUse, count: int
) -> None:
    prompt = rendered("official_v2", V2, lines, interleaved=interleaved)
    assert (prompt.subtitles, prompt.subtitle_lines) == (use, count)


@pytest.mark.parametrize("template", V1_TEMPLATES)
def test_our_templates_mention_subtitles_only_if_there_are_some(template: str) -> None:
    without_track, without_lines = (
        rendered(template, V1, None).text,
        rendered(template, V1, []).text,
    )
    assert without_lines == without_track
    assert "subtitles are listed" not in without_lines


@pytest.mark.parametrize("template", ["official_v1", "contract_v1", "lmms_eval"])
def test_a_template_without_an_interleaved_form_is_refused(template: str) -> None:
    assert not parse_template(template).can_interleave
    with pytest.raises(PromptError, match="no form for subtitles between frames"):
        rendered(template, V1, SPOKEN, interleaved=True)


def test_a_line_at_a_frame_that_is_not_sent_is_an_error() -> None:
    with pytest.raises(PromptError, match="at frame 1, but 1 frames are sent"):
        rendered("official_v2", V2, SPOKEN, frames=1, interleaved=True)


# Custom templates


def custom(text: str, **fields: Any) -> Template:
    return Template(name="custom", text=text, **fields)


def test_a_custom_template_may_use_every_variable() -> None:
    text = "\n".join(f"{name}={{{{ {name} }}}}" for name in VARIABLES)
    prompt = rendered(custom(text, system="You see {{ num_frames }} frames."), V1, SPOKEN)
    assert prompt.template == "custom"
    assert prompt.system == "You see 4 frames."
    assert "letter_list=A, B, C, or D\nin_group=False\nnum_frames=4\n" in prompt.text


def test_a_template_may_loop_over_lines_with_their_times() -> None:
    text = (
        "{% for line in lines %}{{ loop.index }} {{ line.start_seconds | round(1) }} "
        "{{ line.text }}\n{% endfor %}{{ question }}"
    )
    assert rendered(custom(text), V1, SPOKEN).text == (
        "1 0.3 The water is warm.\n2 2.0 Now it sings!\n3 3.5 Tea, anyone?\n"
        "Which kettle boils first?"
    )


def test_a_template_cannot_access_the_answer() -> None:
    with pytest.raises(PromptError, match="no variable answer"):
        custom("{{ answer }}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{{ question }}\n{{ foo }}",
            r"custom, line 2: no variable foo; the variables are question, options",
        ),
        ("{{ question", "custom, line 1: unexpected end"),
        ("{{ question | tojson }}", "No filter named 'tojson'"),
        ("{% include '/etc/passwd' %}", "line 1: a prompt template cannot include other files"),
        ("{% import 'x' as y %}", "cannot import other files"),
        ("{% extends 'x' %}", "cannot extend other files"),
        ("{% macro f() %}{{ f() }}{% endmacro %}", "cannot define macros"),
        ("{{ question.upper() }}", "cannot call functions"),
        ("{% for a in lines recursive %}{{ loop(lines) }}{% endfor %}", "cannot call functions"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply"),
    ],
)
def test_an_invalid_template_is_refused_when_it_is_read(text: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        custom(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ question.__class__ }}",
        "{{ lines[0].nothing }}",
        "{{ 'x' * 10000000 }}",
        "{{ 9 ** 99999 }}",
        "{{ '%10000000d' % 1 }}",
        "{{ 1 // 0 }}",
        "{{ question | round }}",
    ],
)
def test_a_forbidden_operation_is_an_error_with_the_question(text: str) -> None:
    with pytest.raises(PromptError, match=r"question 001-1, template custom: "):
        rendered(custom(text + "{% if lines %}{% endif %}"), V1, SPOKEN)


def test_a_prompt_has_a_maximum_size() -> None:
    text = "{% for a in lines %}{% for b in lines %}{{ question }}{% endfor %}{% endfor %}"
    long = question("x" * 10_000, ["A. x"])
    with pytest.raises(PromptError, match="longer than 4,000,000 characters"):
        rendered(custom(text), long, [line("a")] * 30)


def test_a_template_without_subtitles_is_refused_on_a_track_with_subtitles() -> None:
    template = custom("{{ question }}")
    assert rendered(template, V1, None).text == V1.question
    in_system = custom("{{ question }}", system='{{ subtitles | join(" ") }}')
    assert rendered(in_system, V1, SPOKEN[:1]).system == "The water is warm."
    with pytest.raises(PromptError, match="never shows the subtitles"):
        rendered(template, V1, SPOKEN)


def test_a_template_from_a_file_has_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "short-answer.txt"
    path.write_text("{{ question }} Gr\u00fc\u00dfe\n", encoding="utf-8")
    template = load_template(path)
    assert template.name == "short-answer"
    assert rendered(template, V1, None).text == "Which kettle boils first? Grüße"
    with pytest.raises(ConfigurationError, match=r"missing\.txt"):
        load_template(tmp_path / "missing.txt")
    path.rename(tmp_path / "official_v1.txt")
    with pytest.raises(ConfigurationError, match="published prompt; give your own another name"):
        load_template(tmp_path / "official_v1.txt")


def test_the_text_is_in_the_fingerprint() -> None:
    templates = [parse_template(name) for name in TemplateName]
    templates += [
        custom("{{ question }}"),
        custom("{{ question }}!"),
        custom("{{ question }}", system="x"),
    ]
    assert len({template.fingerprint for template in templates}) == len(templates)
    assert "The best answer is:" in parse_template("official_v1").text


def test_a_published_name_always_has_its_published_text() -> None:
    template = Template.model_validate("official_v2")
    assert Template.model_validate({"name": "official_v2"}) == template
    assert Template.model_validate(template.model_dump()) == template
    with pytest.raises(ValueError, match="published prompt"):
        Template(name="official_v2", text="{{ question }}")
    with pytest.raises(ConfigurationError, match="choose official_v1, official_v1_zh, contract_v1"):
        parse_template("official_v3")
    with pytest.raises(ValueError, match="no template 'mine'"):
        Template.model_validate({"name": "mine"})


def test_prompts_and_lines_can_be_stored_in_tables() -> None:
    prompts = [rendered("official_v2", V2, SPOKEN, interleaved=on) for on in (False, True)]
    assert from_table(to_table(prompts, Prompt), Prompt) == prompts
    assert from_table(to_table(SPOKEN, AlignedLine), AlignedLine) == SPOKEN


def test_every_template_variable_and_filter_is_documented() -> None:
    text = (GOLDEN.parents[1] / "docs" / "subtitles-and-prompts.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in (*TemplateName, *VARIABLES))
    example = text.split("in [Jinja]")[1].split("```")[1].strip()
    assert "Somebody says:\nThe water is warm.\n" in rendered(custom(example), V1, SPOKEN).text


TEXT = st.text(max_size=30)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=8), st.lists(TEXT, max_size=4), st.integers(0, 3))
def test_every_text_is_in_the_prompt_unchanged(
    question_text: str, options: list[str], spoken: list[str], frames: int
) -> None:
    for name in TemplateName:
        for in_group in (False, True):
            target = question(question_text, options, in_group=in_group)
            text = rendered(name, target, [line(text) for text in spoken], frames=frames).text
            assert question_text + "\n" in text
            assert "\n".join(options) in text
            assert ("\n".join(spoken) in text) or (" ".join(spoken) in text)
