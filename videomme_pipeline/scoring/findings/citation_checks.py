"""The checks of an evaluation that need what its data folder stores.

An `error` means that the score must not be cited, and a `warning` that the fact must be stated
beside the score. Each check returns None if it does not apply.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.errors import Finding, Status, listed
from videomme_pipeline.models.video_llm import KNOWN_ENDS, MIN_TOKEN_SHARE, OTHER_FRAMES
from videomme_pipeline.scoring.findings.run import Run, Runs
from videomme_pipeline.scoring.scored_question import (
    Answer,
    EvaluatedVideo,
    Outcome,
    ScoredQuestion,
    is_with_subtitles,
)


def answers(run: Run, _runs: Runs) -> Finding:
    """Check that every question has one answer per repeat, read by the judge if there is one."""
    rows = Counter((row.question_id, row.repeat) for row in run.answers)
    repeats = 1 + max((row.repeat for row in run.answers), default=0)
    asked = set(product(run.questions, range(repeats)))
    numbers = {
        "failed": sum(row.outcome is Outcome.FAILED for row in run.answers),
        "missing": len(asked - rows.keys()),
        "repeated": sum(count > 1 for count in rows.values()),
        "not in the benchmark": len(rows.keys() - asked),
        "not read by the judge": sum(r.judge_error is not None for r in run.answers),
    }
    problems = [f"{count:,} {what}" for what, count in numbers.items() if count]
    if not problems:
        times = "once" if repeats == 1 else f"{repeats} times"
        return Finding(Status.OK, f"{len(run.questions):,} questions are answered {times}")
    return Finding(
        Status.ERROR,
        f"of {len(asked):,} answers, {', '.join(problems)}",
        f"remove the cause (videomme status --explain {run.name}), and {run.run_again}; only what "
        "is missing is asked",
    )


def release(run: Run, _runs: Runs) -> Finding:
    """Check that the questions are those that the benchmark declares, or name the chosen subset."""
    size = run.benchmark.size
    by_video = Counter(video for video, _ in {(r.video_id, r.question_id) for r in run.answers})
    counted = f"{by_video.total():,} questions on {len(by_video):,} videos"
    if "questions" in (run.specification or {}):
        summary = f"{counted}: a list of questions that were chosen by their ids"
        advice = "compare it with other evaluations of the same list, or remove `questions`"
        return Finding(Status.ERROR, summary, advice)
    if size.questions is None:
        summary = f"{counted}; the benchmark does not declare its size"
        advice = "declare its `size`: the numbers of videos and questions"
        return Finding(Status.UNKNOWN, summary, advice)
    if by_video.total() == size.questions and size.videos in (None, len(by_video)):
        return Finding(Status.OK, f"{counted}, as declared")
    selected = Counter(question.video_id for question in run.questions.values())
    is_subset = by_video == selected and by_video.total() < size.questions
    declared = f"the benchmark has {size.questions:,}"
    if size.videos is not None:
        declared += f" on {size.videos:,}"
        is_subset = is_subset and len(selected) < size.videos
    if is_subset and (
        size.questions_per_video is None or set(selected.values()) == {size.questions_per_video}
    ):
        selected_by = Selection.stored_in(run.specification or {}).selected_by
        keys = ", ".join(f"{key}: {value}" for key, value in selected_by.items())
        subset = f"a subset ({keys})" if keys else "a subset"
        return Finding(
            Status.WARNING,
            f"{counted}: {subset}, {declared}",
            "name the subset beside the score, or remove the keys that select videos "
            "(`videos`, `duration`, `subset`, `limit`) from benchmarks.yaml and from the file of "
            "the evaluation, and run again",
        )
    advice = f"build the questions again, then {run.run_again}"
    return Finding(Status.ERROR, f"{counted}, but {declared}", advice)


def frames(run: Run, _runs: Runs) -> Finding | None:
    """Check that every request had the planned number of frames."""
    videos = [(row, run.video_of(row)) for row in run.answered]
    plans = [(row, video.planned_frames if video else None) for row, video in videos]
    if not any(row.num_frames or plan for row, plan in plans):
        return None
    other = [
        f"{row.question_id} ({row.num_frames} of {plan})"
        for row, plan in plans
        if plan not in (None, row.num_frames)
    ]
    if other and run.model.get("kind") == "program":
        return Finding(
            Status.WARNING,
            f"the program reports that it used another number of frames than planned in "
            f"{len(other):,} of {len(plans):,} answers: {listed(other)}",
            "state beside the score that the program chose its frames",
        )
    if run.model.get("frames_as") == "video_file":
        return _took_planned_frames(run)
    if other:
        return Finding(
            Status.ERROR,
            f"{len(other):,} of {len(plans):,} requests did not have the planned number "
            f"of frames: {listed(other)}",
            "look for damaged videos (videomme doctor), replace them, and " + run.run_again,
        )
    if unknown := sum(plan is None for _, plan in plans):
        return Finding(
            Status.UNKNOWN,
            f"the planned number of frames of {unknown:,} of {len(plans):,} requests is not stored",
            run.run_again,
        )
    numbers = sorted({row.num_frames for row, _ in plans})
    span = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    return Finding(Status.OK, f"{len(plans):,} requests were sent with the planned {span} frames")


def _took_planned_frames(run: Run) -> Finding:
    """Check that prompt tokens count the frames. `prompt_tokens` compares their numbers."""
    itself = "the model took the frames from the videos itself, and"
    if unproven := _unproven(run, run.answered):
        reason, advice = unproven
        return Finding(Status.UNKNOWN, f"{itself} {reason}", advice)
    summary = f"{itself} the prompt tokens of {len(run.answered):,} requests count them"
    return Finding(Status.OK, summary)


def _unproven(run: Run, rows: Sequence[Answer | ScoredQuestion]) -> tuple[str, str] | None:
    """The reason why nothing shows how many frames some of `rows` had, with advice, or None."""
    unproven = [row for row in rows if run.seen_frames(row) is None]
    if not unproven:
        return None
    of_rows = f"{len(unproven):,} of {len(rows):,} requests"
    if any(row.usage.prompt_tokens is None for row in unproven):
        return f"the prompt tokens of {of_rows} are unknown", "let the endpoint report `usage`"
    if not all((video := run.video_of(row)) and video.frame_tokens for row in unproven):
        reason = f"the tokens of a frame are unknown for {of_rows}"
        advice = "set `family` or `tokens_per_frame`, and a new `revision`, of the model in "
        return reason, f"{advice}models.yaml, and {run.run_again}"
    return (
        f"the tokens of the text are unknown for {of_rows}, so nothing shows how many frames the "
        "model saw",
        "let the model count texts (`count_texts: true` in models.yaml, the default without a "
        "price; hosted models also need `tokens_per_frame`), set a new `revision`, and "
        + run.run_again,
    )


def prompt_tokens(run: Run, _runs: Runs) -> Finding | None:
    """Check that the endpoint counted the tokens of the frames.

    If the tokens of the text are known, the others show the number of frames. Otherwise the result
    is `unknown`, or an `error` if there are too few tokens: less than 60% of what the frames need
    by the published rule, or without a rule fewer than frames.
    """
    rows = [
        (row, video)
        for row in run.answered
        if (video := run.video_of(row)) is not None and video.frame_tokens != 0
    ]
    if not rows:
        return None
    other = [
        f"{row.question_id} ({seen} of {video.planned_frames})"
        for row, video in rows
        if (seen := run.seen_frames(row)) not in (None, video.planned_frames)
    ]
    if other:
        return Finding(
            Status.ERROR,
            f"{len(other):,} of {len(rows):,} requests have the prompt tokens of another number "
            f"of frames: {listed(other)}",
            "the endpoint dropped, added or resized frames, or tokens of them (as vLLM does with "
            "--video-pruning-rate); compare the sampling with the engine (videomme doctor MODEL "
            f"--probe, docs/engines.md), and {run.run_again}",
        )
    few = [
        f"{row.question_id} ({tokens:,} of {_min_tokens(video):,})"
        for row, video in rows
        if (tokens := row.usage.prompt_tokens) is not None and tokens < _min_tokens(video)
    ]
    if few:
        return Finding(
            Status.ERROR,
            f"{len(few):,} of {len(rows):,} requests have fewer prompt tokens than their "
            f"frames need at least: {listed(few)}",
            "the endpoint dropped or shrank frames; check its limit on images per prompt "
            f"(or `tokens_per_frame` in models.yaml), and {run.run_again}",
        )
    if unproven := _unproven(run, [row for row, _ in rows]):
        return Finding(Status.UNKNOWN, *unproven)
    summary = f"{len(rows):,} requests have the prompt tokens of their planned frames"
    return Finding(Status.OK, summary)


def pruned_videos(run: Run, _runs: Runs) -> Finding | None:
    """State that vLLM was started so that it drops tokens of videos, but no frames."""
    model: Any = (run.specification or {}).get("model") or {}
    args = (model.get("serve") or {}).get("args") or {}
    if not (rate := args.get("video-pruning-rate")) or model.get("frames_as") is None:
        return None
    return Finding(
        Status.WARNING,
        f"vLLM drops a share of {rate} of the tokens of each video (`video-pruning-rate`), so the "
        "others do not show how many frames it took",
        "state the option beside the score",
    )


def conversation(run: Run, _runs: Runs) -> Finding | None:
    """State that the model saw its earlier answers about the same video."""
    if "conversation" not in (run.specification or {}):
        return None
    summary = "each group was asked as one conversation, so the model saw its earlier answers"
    advice = "state this beside the score, and compare it only with other conversations"
    return Finding(Status.WARNING, summary, advice)


def warnings(run: Run, _runs: Runs) -> Finding:
    """Check that no response was stored with a warning. Warnings about frames are errors."""
    stored = [f"{r.question_id}: {r.warning}" for r in run.answered if r.warning]
    answered = f"{len(run.answered):,} responses"
    if not stored:
        return Finding(Status.OK, f"{answered} have no warning")
    of_frames = [warning for warning in stored if OTHER_FRAMES in warning]
    summary = f"{len(stored):,} of {answered} have a warning: {(of_frames or stored)[0]}"
    if not of_frames:
        return Finding(Status.WARNING, summary, "state the warning beside the score")
    advice = "compare the sampling with the engine (videomme doctor MODEL --probe, "
    advice += "docs/engines.md), and "
    return Finding(Status.ERROR, summary, advice + run.run_again)


def finish_reasons(run: Run, _runs: Runs) -> Finding | None:
    """Check that the reasons why the answers end are known, here or in the entry of the model."""
    stated = run.model.get("finish_reasons") or ()
    assert isinstance(stated, Sequence)
    complete = KNOWN_ENDS.union(str(reason).lower() for reason in stated)
    reasons = (row.finish_reason for row in run.answered)
    unknown = Counter(reason for reason in reasons if reason and reason.lower() not in complete)
    if not unknown:
        return None
    values = ", ".join(f"{reason!r} ({count:,})" for reason, count in unknown.most_common())
    return Finding(
        Status.ERROR,
        f"{unknown.total():,} of {len(run.answered):,} answers end for a reason that is not known: "
        f"{values}",
        "read some of them; if they are complete, add the value to `finish_reasons` of the model",
    )


def _min_tokens(video: EvaluatedVideo) -> int:
    if video.frame_tokens is None:
        return video.planned_frames or 0
    return round(MIN_TOKEN_SHARE * video.frame_tokens)


def subtitles(run: Run, _runs: Runs) -> Finding | None:
    """Check how many videos have subtitles."""
    size = run.benchmark.size
    if not is_with_subtitles(run.answers[0].track):
        return None
    if not run.videos:
        return _not_stored(run)
    videos, declared = len(run.videos), size.videos_with_subtitles
    count = sum(video.subtitle_hash is not None for video in run.videos.values())
    counted = f"{count:,} of {videos:,} videos have subtitles"
    is_complete = videos == size.videos and declared is not None
    if count == 0 or (is_complete and count != declared):
        summary = counted + (f", but the benchmark has {declared:,}" if is_complete else "")
        advice = "fetch the subtitles of all videos (docs/data.md has the layouts)"
        return Finding(Status.ERROR, summary, f"{advice}, and {run.run_again}")
    if is_complete:
        return Finding(Status.OK, f"{counted}, as declared")
    reason = "the benchmark does not declare how many"
    advice = "declare `videos_with_subtitles` in its `size`"
    if declared is not None:
        reason = f"the benchmark declares {declared:,} of {size.videos or 0:,}, but not which"
        advice = "name the number beside the score"
    return Finding(Status.UNKNOWN, f"{counted}; {reason}", advice)


def media(run: Run, _runs: Runs) -> Finding:
    """Check that videos, subtitles and questions are those that the score was computed from."""
    if not run.videos:
        return _not_stored(run)
    changed: dict[str, list[str]] = {"the file": [], "subtitles": [], "questions": []}
    with_subtitles = is_with_subtitles(run.answers[0].track)
    for video_id, video in run.videos.items():
        current = run.media.get(video_id)
        if current and video.video_hash and current.content_hash != video.video_hash:
            changed["the file"].append(video_id)
        if current and with_subtitles and current.subtitle_hash != video.subtitle_hash:
            changed["subtitles"].append(video_id)
        if run.question_fingerprints.get(video_id) != video.questions_fingerprint:
            changed["questions"].append(video_id)
    videos = f"{len(run.videos):,} videos"
    problems = [
        f"{what} of {len(ids):,} of {videos} ({listed(ids)})"
        for what, ids in changed.items()
        if ids
    ]
    if not problems:
        return Finding(Status.OK, f"the files and questions of {videos} are unchanged")
    summary = f"changed since the score was computed: {', '.join(problems)}"
    advice = f"{run.run_again}; only questions on what changed are asked"
    return Finding(Status.ERROR, summary, advice)


def _not_stored(run: Run) -> Finding:
    summary = "the data that the score was computed from is not stored"
    return Finding(Status.UNKNOWN, summary, f"{run.run_again}; no question is asked again")
