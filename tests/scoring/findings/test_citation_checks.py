"""Citation checks: each check blocks, warns or is unknown for the right facts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.evidence import QUESTIONS, VIDEOS, answer, evidence, question, video
from videomme_pipeline.benchmarks.benchmark import Size
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import OTHER_FRAMES, Usage
from videomme_pipeline.scoring.findings.checks import CITATION_CHECKS, findings
from videomme_pipeline.scoring.findings.run import Run, Runs
from videomme_pipeline.scoring.scored_question import Answer, Outcome

GOLDEN = Path(__file__).parents[2] / "golden" / "citation_findings.txt"


def checked(run: Run) -> list[Finding]:
    """The findings about a run that is compared with no other one."""
    return [*findings(run, Runs(runs=[run]))]


def found(check: str, run: Run) -> Finding:
    (finding,) = (row for row in checked(run) if row.check == check)
    return finding


def changed(number: int, **facts: Any) -> list[Answer]:
    """The perfect answers with other facts in one of them."""
    answers = [answer(asked) for asked in QUESTIONS]
    answers[number] = replace(answers[number], **facts)
    return answers


def test_a_complete_evaluation_passes_every_check() -> None:
    every = {check.__name__: Status.OK for check in CITATION_CHECKS}
    for check in ("sameness", "finish_reasons", "pruned_videos", "conversation"):
        del every[check]
    assert {row.check: row.status for row in checked(evidence())} == every


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (changed(0, outcome=Outcome.FAILED, extracted_answer=None), "of 12 answers, 1 failed"),
        (changed(0)[1:], "of 12 answers, 1 missing"),
        ([*changed(0), answer(QUESTIONS[0])], "of 12 answers, 1 repeated"),
        ([*changed(0), answer(question("009", 1))], "1 not in the benchmark"),
        (changed(0, judge_error="timeout"), "1 not read by the judge"),
        ([*changed(0), answer(QUESTIONS[0], repeat=1)], "of 24 answers, 11 missing"),
    ],
)
def test_a_question_without_exactly_one_answer_blocks(answers: list[Answer], sentence: str) -> None:
    finding = found("answers", evidence(answers))
    assert finding.status is Status.ERROR
    assert sentence in finding.summary
    assert "videomme run made-up" in finding.advice


def test_every_repeat_counts() -> None:
    answers = [answer(asked, repeat) for asked in QUESTIONS for repeat in (0, 1)]
    finding = found("answers", evidence(answers))
    assert (finding.status, finding.summary) == (Status.OK, "12 questions are answered 2 times")


def test_a_chosen_subset_is_a_warning_and_an_incomplete_one_blocks() -> None:
    finding = found("release", evidence(questions=QUESTIONS[:6]))
    assert finding.status is Status.WARNING
    assert finding.summary == "6 questions on 2 videos: a subset, the benchmark has 12 on 4"
    missing = evidence(changed(0)[:6])
    assert found("release", missing).status is Status.ERROR
    cut = evidence(questions=QUESTIONS[:7])
    assert found("release", cut).status is Status.ERROR


def test_a_benchmark_without_a_size_is_unknown() -> None:
    unsized = find_benchmark("videomme").model_copy(update={"size": Size()})
    finding = found("release", evidence(benchmark=unsized))
    assert finding.status is Status.UNKNOWN


def test_other_frames_than_planned_block_and_are_listed() -> None:
    finding = found("frames", evidence(changed(4, num_frames=7)))
    assert finding.status is Status.ERROR
    assert "1 of 12 requests" in finding.summary
    assert "002-2 (7 of 8)" in finding.summary


def test_frames_without_a_stored_plan_are_unknown() -> None:
    videos = [video(video_id, planned_frames=None) for video_id in VIDEOS]
    assert found("frames", evidence(videos=videos)).status is Status.UNKNOWN
    assert found("frames", evidence(videos=[])).status is Status.UNKNOWN


def test_an_evaluation_without_frames_has_no_check_of_frames() -> None:
    blind = [answer(asked, num_frames=0, usage=Usage(prompt_tokens=100)) for asked in QUESTIONS]
    videos = [video(video_id, planned_frames=0, frame_tokens=0) for video_id in VIDEOS]
    checks = {row.check for row in checked(evidence(blind, videos))}
    without = {"frames", "prompt_tokens", "letters"}
    assert not checks & without


@pytest.mark.parametrize(
    ("tokens", "per_video", "status"),
    [
        (4_900, 8_000, Status.UNKNOWN),  # rules are rounded, so 60% may be enough
        (8_100, 8_000, Status.UNKNOWN),  # nothing shows how many are of the text
        (4_700, 8_000, Status.ERROR),
        (None, 8_000, Status.UNKNOWN),
        (4_700, None, Status.UNKNOWN),  # no rule: at least one token per frame, which proves little
        (7, None, Status.ERROR),
    ],
)
def test_prompt_tokens_below_the_plan_block_and_unknown_ones_never_pass(
    tokens: int | None, per_video: int | None, status: Status
) -> None:
    stored = evidence(
        changed(0, usage=Usage(prompt_tokens=tokens)),
        [video(video_id, frame_tokens=per_video) for video_id in VIDEOS],
    )
    assert found("prompt_tokens", stored).status is status


@pytest.mark.parametrize(
    ("tokens", "seen"),
    [(8_100, None), (4_100, 4), (16_100, 16), (256_100, 256), (8_500, None), (9_000, 9)],
)
def test_tokens_of_another_number_of_frames_block_in_both_directions(
    tokens: int, seen: int | None
) -> None:
    stored = evidence(changed(4, usage=Usage(prompt_tokens=tokens, text_tokens=100)))
    finding = found("prompt_tokens", stored)
    assert finding.status is (Status.OK if seen is None else Status.ERROR)
    if seen is not None:
        assert f"002-2 ({seen} of 8)" in finding.summary


@pytest.mark.parametrize(
    ("warning", "status"),
    [
        (None, Status.OK),
        ("model a: video 002 has no sound, so the model got only its frames", Status.WARNING),
        (f"8 frames need 680 tokens, but the endpoint reports 9. {OTHER_FRAMES}.", Status.ERROR),
    ],
)
def test_a_stored_warning_is_a_finding_and_blocks_if_it_is_about_frames(
    warning: str | None, status: Status
) -> None:
    finding = found("warnings", evidence(changed(4, warning=warning)))
    assert finding.status is status
    assert (warning or "12 responses have no warning") in finding.summary


def test_an_unknown_finish_reason_blocks_until_the_entry_of_the_model_has_it() -> None:
    for reason in ("stop", "STOP", "length", None):
        complete = evidence(changed(4, finish_reason=reason))
        assert "finish_reasons" not in {row.check for row in checked(complete)}
    unknown = evidence(changed(4, finish_reason="Paused"))
    finding = found("finish_reasons", unknown)
    assert finding.status is Status.ERROR
    assert finding.summary == "1 of 12 answers end for a reason that is not known: 'Paused' (1)"
    assert "`finish_reasons`" in finding.advice
    stated = replace(unknown, specification={"model": {"finish_reasons": ["paused"]}})
    assert "finish_reasons" not in {row.check for row in checked(stated)}


def test_frames_that_the_endpoint_takes_itself_are_only_counted_by_tokens() -> None:
    native = {"model": {"frames_as": "video_file"}}
    proven = [
        answer(asked, usage=Usage(prompt_tokens=8_100, text_tokens=100)) for asked in QUESTIONS
    ]
    counted = replace(evidence(proven), specification=native)
    assert found("frames", counted).status is Status.OK
    unknown = answer(QUESTIONS[0], usage=Usage(prompt_tokens=8_100))
    for uncounted in (evidence([unknown]), evidence([*proven[1:], unknown])):
        finding = found("frames", replace(uncounted, specification=native))
        assert finding.status is Status.UNKNOWN
        assert "took the frames from the videos itself" in finding.summary


def test_dropped_tokens_of_videos_are_stated() -> None:
    serve = {"engine": "vllm", "weights": "w", "args": {"video-pruning-rate": 0.5}}
    model = {"name": "mine", "frames_as": "video_file", "serve": serve}
    finding = found("pruned_videos", replace(evidence(), specification={"model": model}))
    assert finding.status is Status.WARNING
    assert "drops a share of 0.5 of the tokens of each video" in finding.summary
    entry = EndpointSpec.model_validate({"family": "qwen3_vl", **model})
    assert entry.frame_tokens((448, 252), 8) is None
    as_pictures = entry.model_copy(update={"frames_as": None})
    assert as_pictures.frame_tokens((448, 252), 8) is not None
    stored = replace(evidence(), specification={"model": {**model, "frames_as": None}})
    assert "pruned_videos" not in {row.check for row in checked(stored)}


def test_conversations_are_stated() -> None:
    finding = found("conversation", replace(evidence(), specification={"conversation": "group"}))
    assert finding.status is Status.WARNING
    assert "one conversation, so the model saw its earlier answers" in finding.summary


def test_missing_subtitles_block_in_a_complete_benchmark() -> None:
    videos = [video(video_id, subtitle_hash=None) for video_id in VIDEOS[:1]]
    videos += [video(video_id) for video_id in VIDEOS[1:]]
    finding = found("subtitles", evidence(videos=videos))
    assert finding.status is Status.ERROR
    assert finding.summary == "2 of 4 videos have subtitles, but the benchmark has 3"


def test_subtitles_of_a_subset_are_unknown_and_none_at_all_block() -> None:
    some = evidence(videos=[video(video_id) for video_id in VIDEOS[:2]])
    assert found("subtitles", some).status is Status.UNKNOWN
    none = evidence(videos=[video(video_id, subtitle_hash=None) for video_id in VIDEOS[:2]])
    assert found("subtitles", none).status is Status.ERROR


def test_the_releases_declare_their_questions_and_subtitles() -> None:
    size = find_benchmark("videomme").size
    assert (size.questions, size.videos, size.videos_with_subtitles) == (2_700, 900, 744)


def test_a_strong_preference_for_a_letter_is_a_warning() -> None:
    questions = [question(f"{number:03d}", number % 4) for number in range(200)]

    def answers(always_a: float) -> list[Answer]:
        return [
            answer(asked, extracted_answer=Letter.A if index < always_a * 200 else asked.answer)
            for index, asked in enumerate(questions)
        ]

    biased = evidence(answers(0.4), questions=questions)
    finding = found("letters", biased)
    assert finding.status is Status.WARNING
    assert "A 55% (25%)" in finding.summary
    even = evidence(answers(0.1), questions=questions)
    assert found("letters", even).status is Status.OK


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"video_hash": "older"}, "the file of 1 of 4 videos (001)"),
        ({"subtitle_hash": "older"}, "subtitles of 1 of 4 videos (001)"),
        ({"questions_fingerprint": "older"}, "questions of 1 of 4 videos (001)"),
    ],
)
def test_what_changed_since_scoring_blocks(facts: dict[str, str], sentence: str) -> None:
    videos = [video(VIDEOS[0], **facts), *map(video, VIDEOS[1:])]
    finding = found("media", evidence(videos=videos))
    assert finding.status is Status.ERROR
    assert sentence in finding.summary


def test_scores_without_the_file_about_their_videos_are_unknown() -> None:
    finding = found("media", evidence(videos=[]))
    assert finding.status is Status.UNKNOWN
    assert "no question is asked again" in finding.advice


def cases() -> Mapping[str, Run]:
    """Evidence for which the checks find different things."""
    undeclared = evidence().benchmark.model_copy(update={"size": Size()})
    no_number = evidence().benchmark.model_copy(
        update={"size": Size(videos=4, questions_per_video=3)}
    )
    without_plan = [video(video_id, planned_frames=None, frame_tokens=None) for video_id in VIDEOS]
    two_failed = [replace(row, outcome=Outcome.FAILED) for row in changed(0)[:2]]
    frames = [replace(row, num_frames=7) for row in changed(0)[:8]]
    tokens = [
        replace(row, usage=Usage(prompt_tokens=10 * index)) for index, row in enumerate(changed(0))
    ]
    unlike = [
        video(video_id, video_hash="older", subtitle_hash="older", questions_fingerprint="older")
        for video_id in VIDEOS
    ]
    subset = evidence(questions=QUESTIONS[:6])
    return {
        "complete": evidence(),
        "two repeats": evidence([answer(q, repeat) for q in QUESTIONS for repeat in (0, 1)]),
        "nothing stored beside the scores": evidence(videos=[]),
        "size not declared": evidence(benchmark=undeclared),
        "number of videos with subtitles not declared": evidence(benchmark=no_number),
        "two failed, one missing, one unknown, one repeated, not judged": evidence(
            [
                *two_failed,
                *changed(2, judge_error="timeout")[2:11],
                answer(QUESTIONS[5]),
                answer(question("009", 1)),
            ]
        ),
        "subset": subset,
        "subset by a key": replace(subset, specification={"duration": "long"}),
        "cut subset": evidence(questions=QUESTIONS[:7]),
        "as many questions on fewer videos": evidence(
            questions=[*QUESTIONS[:9], *(question("001", number) for number in (0, 4, 5))]
        ),
        "part of a video with subtitles": evidence(
            questions=QUESTIONS[:6], videos=[video(video_id) for video_id in VIDEOS[:2]]
        ),
        "no subtitles": evidence(
            videos=[video(video_id, subtitle_hash=None) for video_id in VIDEOS]
        ),
        "no subtitles in a subset": evidence(
            questions=QUESTIONS[:3], videos=[video(VIDEOS[0], subtitle_hash=None)]
        ),
        "evaluation without subtitles": evidence(
            [answer(asked, track="without_subtitles") for asked in QUESTIONS]
        ),
        "frames unlike the plan": evidence([*frames, *changed(0)[8:]]),
        "no plan": evidence(videos=without_plan),
        "plan of one video": evidence(videos=[video(VIDEOS[0]), *without_plan[1:]]),
        "different numbers of frames": evidence(
            [
                replace(row, num_frames=2) if row.video_id == VIDEOS[0] else row
                for row in changed(0)
            ],
            [video(VIDEOS[0], planned_frames=2), *map(video, VIDEOS[1:])],
        ),
        "few tokens": evidence(tokens),
        "tokens not reported": evidence(changed(3, usage=Usage())),
        "a video without sound": evidence(changed(5, warning="video 002 has no sound")),
        "no rule and few tokens": evidence(changed(0, usage=Usage(prompt_tokens=7)), without_plan),
        "no frames": evidence(
            [answer(asked, num_frames=0, usage=Usage(prompt_tokens=100)) for asked in QUESTIONS],
            [video(video_id, planned_frames=0, frame_tokens=0) for video_id in VIDEOS],
        ),
        "always A": evidence([answer(asked, extracted_answer=Letter.A) for asked in QUESTIONS]),
        "everything changed": evidence(videos=unlike),
    }


def test_each_finding_says_what_is_wrong_and_what_to_do() -> None:
    """The file contains the sentences of these checks. Read it again after a change."""
    complete = checked(evidence())
    lines: list[str] = []
    for name, stored in cases().items():
        lines.append(f"# {name}")
        for row in checked(stored):
            if name == "complete" or row not in complete:
                lines.append(f"{row.check} {row.status}: {row.summary}")
                lines.extend([f"    {row.advice}"] if row.advice else [])
    assert "\n".join(lines) + "\n" == GOLDEN.read_text(encoding="utf-8")
