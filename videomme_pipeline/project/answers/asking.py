"""Asking the model of an evaluation: requests, the journal, and the cost limit of the run."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.errors import CostLimitError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import FrameSet, ShownFrame, VideoLength, WholeVideo
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.video_file import VIDEO_FILE_VERSION
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.journal import journal_of
from videomme_pipeline.project.runs.locks import cost_limit, endpoint
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.collect import AskingProgress, collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import (
    RequestPlan,
    VideoRequests,
    pending_requests,
    settle_stored,
)
from videomme_pipeline.responses.response import Response
from videomme_pipeline.videos.sound import SOUND_VERSION, sound_of

SHOWN_PAUSE_SECONDS = 5.0
"""Shorter pauses are not shown."""
LOCK_CHECK_SECONDS = 10.0
"""Time between two checks that the locks of a run are not lost while it asks a model."""


def requests_of(inputs: Inputs, prompts: Sequence[Prompt] | None = None) -> list[VideoRequests]:
    """All requests of an evaluation about a video, with `prompts` or the stored ones.

    Questions with the same frames are asked together. Raises NotReadyError if prompts or frames are
    missing, DamagedFileError, and VideoError if the model needs the video, but there is no file.
    """
    prompt_of = {prompt.question_id: prompt for prompt in prompts or inputs.prompts()}
    shown = {part: inputs.shown_or_error(part) for part, _ in inputs.parts}
    model, source = inputs.evaluation.model, None
    lines = (inputs.lines() or []) if model.reads_parts else None
    if (model.reads_video or model.hears_audio) and any(frames for frames, _ in shown.values()):
        source = inputs.whole_video()
    return [
        VideoRequests(
            video_id=inputs.video_id,
            questions=[(question, prompt_of[question.question_id]) for question in questions],
            lines=lines and [line for line in lines if line.question_id == part],
            frame_digests=[_digest(inputs, frame) for frame in shown[part][0]],
            load_frames=partial(_load, inputs, source, part),
            error=shown[part][1],
            is_conversation=inputs.evaluation.conversation is not None,
        )
        for part, questions in inputs.parts
    ]


def _load(inputs: Inputs, source: Path | None, part: str | None) -> FrameSet:
    """The frames of a part, with the video's file `source` and sound if the model gets them."""
    frames, benchmark = inputs.load_frames(part), inputs.benchmark
    if not frames.frames:
        return frames
    video = benchmark.snapshot.video(inputs.video_id)
    model, sampling = inputs.evaluation.model, inputs.evaluation.sampling
    if model.sees_frame_times:
        timing = video.timing
        length = VideoLength(frames=timing.frame_count, seconds=timing.duration_seconds)
        frames = replace(frames, length=length)
    if source is not None and model.reads_video and sampling is not None:
        chosen = sampling.for_duration(inputs.questions[0].duration)
        whole = WholeVideo(path=source, size=video.stream.size, sampling=chosen)
        frames = replace(frames, video=whole)
    if source is not None and model.hears_audio and video.has_audio:
        sound = sound_of(benchmark.store, frames.video_hash, source, inputs.video_id)
        frames = replace(frames, sound=sound)
    return frames


def _digest(inputs: Inputs, frame: ShownFrame) -> str:
    content = inputs.benchmark.snapshot.content_hash(inputs.video_id)
    return frame_digest(frame, inputs.evaluation, content, inputs.questions[0].duration)


def frame_digest(
    frame: ShownFrame, evaluation: Evaluation, content: str, duration: Duration | None
) -> str:
    """The digest of a frame as the model sees the frame, with the sound if the model hears it.

    `content` is the hash of the video file, `duration` the video's duration class. A model that
    reads the video file chooses the frames itself, so the digest depends on the content of the file
    and on the sampling, not on the size and encoding of our frames.
    """
    model, sampling = evaluation.model, evaluation.sampling
    digest = fingerprint(frame) if model.sees_frame_times else frame.digest
    if model.reads_video and sampling is not None:
        chosen = sampling.for_duration(duration)
        rule = (chosen.strategy_name, chosen.picture.patches)
        digest = fingerprint(
            "video", VIDEO_FILE_VERSION, content, rule, frame.index, frame.pts_seconds
        )
    if model.hears_audio:
        digest = fingerprint(digest, "sound", content, SOUND_VERSION)
    return digest


def with_failed_ones(
    evaluation: Evaluation,
    questions: Iterable[Question],
    responses: Mapping[tuple[str, int], Response],
    reason: str,
) -> Iterator[tuple[Question, Response]]:
    """Yield each question and repeat with its response in `responses`, or with a failed one.

    The key of a response is its question id and repeat. `reason` is the error of failed responses.
    """
    for question, repeat in product(questions, range(evaluation.repeats)):
        response = responses.get((question.question_id, repeat)) or Response.not_asked(
            question,
            evaluation=evaluation.name,
            model=evaluation.model.name,
            repeat=repeat,
            error=reason,
        )
        yield question, response


def plan_of(evaluation: Evaluation, observation: str | None = None) -> RequestPlan:
    """The request plan. With an `observation` (a nightly date), every question is asked again."""
    return RequestPlan(
        evaluation=evaluation.name,
        generation=evaluation.generation,
        repeats=evaluation.repeats,
        schedule=evaluation.model.request_schedule,
        observation=observation,
        limits=evaluation.model.limits,
    )


def open_journal(project: Project, evaluation: Evaluation) -> Journal:
    """The journal of the project. If answers cost money, every commit is flushed to disk."""
    database = journal_of(project.store)
    return Journal(database, flushes_every_commit=evaluation.model.costs_money)


def ask_model(
    project: Project,
    spec: ModelSpec,
    requests: Sequence[VideoRequests],
    journal: Journal,
    plan: RequestPlan,
) -> Iterator[Response]:
    """Yield every response to `requests` as it arrives, within the cost limit of the run.

    Before the first request, waits until other runs no longer use the endpoint. Raises
    VideoMMEError after the last response, if no other can follow or the cost limit is reached.
    """
    spending = project.spending
    what = f"{plan.evaluation}: responses"
    total = sum(len(request.questions) for request in requests) * plan.repeats

    def report(answered: int, failed: int, wait: str = "") -> None:
        stored = f"{plan.evaluation}: {answered} of {total} new answers are stored."
        done = answered + failed
        project.on_progress(
            StageProgress(
                what=what, done=done, total=total, failed=failed, stored=stored, wait=wait
            )
        )

    def show(progress: AskingProgress) -> None:
        spending.spent_dollars = spent_before + progress.cost_dollars
        if wait := _wait_of(progress):
            report(progress.answered, progress.failed, wait)

    are_ours = isinstance(spec, EndpointSpec) and spec.serve is not None
    if are_ours:
        plan = replace(plan, limits=plan.limits.model_copy(update={"outage_seconds": math.inf}))
    with ExitStack() as stack:
        stack.enter_context(_locked(project, spec, plan))
        stack.enter_context(spending.recorded())
        spent_before = spending.spent_dollars
        if spec.costs_money:
            plan = replace(plan, max_cost_dollars=spending.left_dollars)
        spec = project.server_record.with_server(spec)
        needs_servers = are_ours and any(
            settle_stored(pending_requests(video, spec, plan), journal)[1] for video in requests
        )
        model = project.servers.model(
            spec, on_progress=project.on_progress if needs_servers else None
        )
        responses = collect(requests, model, journal, plan, on_progress=show)
        stack.enter_context(closing(responses))
        project.locks.check()  # the start of servers may have taken long
        checked_at = time.monotonic()
        try:
            answered = failed = 0
            for response in responses:
                if time.monotonic() - checked_at >= LOCK_CHECK_SECONDS:
                    project.locks.check()
                    checked_at = time.monotonic()
                if response.error is None:
                    answered += 1
                else:
                    failed += 1
                    if failed == 1:
                        project.on_message(f"{what}: the first failure: {response.error}")
                report(answered, failed)
                yield project.server_record.label(spec, response)
        except CostLimitError as error:
            raise spending.stop(plan.evaluation, error, spec.limits.max_cost_dollars) from error


def _wait_of(progress: AskingProgress) -> str:
    """The reason why no answers come now, or an empty text."""
    if progress.pause_seconds >= SHOWN_PAUSE_SECONDS:
        return f"the endpoint asks for a pause of {progress.pause_seconds:,.0f} s"
    if progress.outage_seconds >= SHOWN_PAUSE_SECONDS:
        now = datetime.now().astimezone()
        since = now - timedelta(seconds=progress.outage_seconds)
        text = f"no answer since {since:%H:%M:%S}"
        if math.isinf(progress.outage_seconds_left):
            return text
        end = now + timedelta(seconds=progress.outage_seconds_left)
        return f"{text}; without one, the run ends at {end:%H:%M:%S}"
    if progress.elsewhere and not progress.in_flight:
        return f"another run is asking {progress.elsewhere:,} of the questions"
    return ""


@contextmanager
def _locked(project: Project, spec: ModelSpec, plan: RequestPlan) -> Iterator[None]:
    """Hold the locks of the cost limits and of all endpoints of `spec` within the block.

    All runs take the locks in the same order, so that no two runs block each other.
    """
    locks, limits = project.locks, spec.limits
    resources = [endpoint(name, limits.concurrent_runs) for name in spec.shared_resources]
    if spec.costs_money:
        spending = project.spending
        of_run = [] if spending.max_dollars is None else [cost_limit(f"run {spending.run_id}")]
        of_model = [] if limits.max_cost_dollars is None else [cost_limit(plan.evaluation)]
        if of_model and not locks.spans_machines:
            project.on_message(
                f"The limit of ${limits.max_cost_dollars:,.2f} for {plan.evaluation} counts the "
                "requests of this machine only. Machines that use one PostgreSQL share a limit."
            )
        resources = [*of_run, *of_model, *resources]
    with ExitStack() as stack:
        for resource in resources:
            stack.enter_context(locks.using(resource))
        yield
