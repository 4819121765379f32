"""Ask a model every question of an evaluation, once.

The unit of work is the video. Its frames are loaded shortly before its questions are asked, and
freed after the last question. Responses in the journal are not requested again. A failed question
or an unreadable video does not stop the others. The model sends a single request; `admission`
limits how many are in flight.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from logging import getLogger

from videomme_pipeline.errors import (
    EndpointDownError,
    StorageError,
    UnstorableError,
    VideoMMEError,
)
from videomme_pipeline.frames.cache import NO_FRAMES, FrameSet
from videomme_pipeline.models.pool import members_of
from videomme_pipeline.models.spec import Schedule
from videomme_pipeline.models.video_llm import (
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
    Usage,
    VideoLLM,
)
from videomme_pipeline.responses.admission import Admission, Priority
from videomme_pipeline.responses.first_answer import FirstAnswer
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.lanes import Lanes, Route
from videomme_pipeline.responses.requests import (
    PlannedRequest,
    RequestPlan,
    VideoRequests,
    planned_requests,
)
from videomme_pipeline.responses.response import Attempt, Response, Served
from videomme_pipeline.responses.retry import retry_delay_seconds

LEASE_SECONDS = 60.0
PREFETCHED_VIDEOS = 4
"""Videos whose frames are loaded before their first question may be sent."""

_POLL_SECONDS = 0.25
_MAX_FAILURES_IN_A_ROW = 20
_TOKENS_PER_FRAME = 256

_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingProgress:
    """Counts of one collection. `usage` and `cost_dollars` are those of this run's requests.

    `pause_seconds` is the length of the pause that the endpoint asked for, or 0 if there is none
    now. `elsewhere` is the number of questions that another process is asking now.
    """

    answered: int = 0
    failed: int = 0
    from_journal: int = 0
    requests: int = 0
    in_flight: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_dollars: float = 0.0
    pause_seconds: float = 0.0
    elsewhere: int = 0
    warning: str | None = None


async def collect(
    videos: Iterable[VideoRequests],
    model: VideoLLM,
    journal: Journal,
    plan: RequestPlan,
    *,
    on_progress: Callable[[AskingProgress], None] | None = None,
) -> AsyncGenerator[Response, None]:
    """Yield one response per question and repeat of `videos`, in the order of arrival.

    A question without an answer has a response with an `error`, and the next run asks it again.
    The caller may stop early, since the journal contains every answer.

    Raises:
        ModelError: after the last response, if no further question can be answered: the
            endpoint rejects the key, does not know the model or is down.
        CostLimitError: after the last response, if the budget is used up.
        StorageError: if the journal cannot be written.
    """
    async for group in _collect_groups(videos, model, journal, plan, on_progress):
        for response in group:
            yield response


def collect_now(
    videos: Iterable[VideoRequests],
    model: VideoLLM,
    journal: Journal,
    plan: RequestPlan,
    *,
    on_progress: Callable[[AskingProgress], None] | None = None,
) -> Generator[Response, None, None]:
    """Yield the responses of `collect` in code without an event loop, such as a Dagster step.

    Requests continue only while the caller waits for the next response. At the end the model is
    closed, since its connections belong to the event loop of this function.
    """
    with asyncio.Runner() as runner:
        groups = _collect_groups(videos, model, journal, plan, on_progress)

        async def next_group() -> list[Response]:
            return await anext(groups, [])

        async def finish() -> None:
            await groups.aclose()
            await model.close()

        try:
            while group := runner.run(next_group()):
                yield from group
        finally:
            runner.run(finish())


async def _collect_groups(
    videos: Iterable[VideoRequests],
    model: VideoLLM,
    journal: Journal,
    plan: RequestPlan,
    on_progress: Callable[[AskingProgress], None] | None,
) -> AsyncGenerator[list[Response], None]:
    """Yield the responses of `collect` in groups: all since the last group, at least one."""
    collection = _Collection(model, journal, plan, on_progress)
    worker = asyncio.create_task(collection.run(videos))
    try:
        while group := await collection.next_group():
            yield group
        await worker
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    if collection.stopped_by is not None:
        raise collection.stopped_by


@dataclass(slots=True, kw_only=True)
class _Pending:
    """A request that is not settled, with the attempts of this run.

    `response` is the response until the request is sent. `first_sent` is the time of the first
    attempt by the clock of the event loop, or None before it.
    """

    planned: PlannedRequest
    response: Response
    attempts: list[Attempt] = field(default_factory=list)
    first_sent: float | None = None

    @property
    def fingerprint(self) -> str:
        return self.planned.fingerprint

    def response_to(
        self, result: Reply | ResponseFailure, answered_at: datetime | None
    ) -> Response:
        """The final response if the last result of the request is `result`."""
        costs = [a.cost_dollars for a in self.attempts if a.cost_dollars is not None]
        served = Served(
            cost_dollars=sum(costs) if costs else None,
            latency_seconds=self.attempts[-1].latency_seconds if self.attempts else None,
            attempts=len(self.attempts),
            answered_at=answered_at,
        )
        if isinstance(result, Reply):
            return self.response.with_reply(result, served)
        return self.response.with_failure(result, served)


@dataclass(frozen=True, slots=True)
class _LoadedVideo:
    """A video whose questions are being asked. `prefetch_slot` is closed when one is sent."""

    frames: FrameSet
    route: Route
    prefetch_slot: ExitStack


class _Collection:
    """One run of `collect`: the state that its tasks share."""

    def __init__(
        self,
        model: VideoLLM,
        journal: Journal,
        plan: RequestPlan,
        on_progress: Callable[[AskingProgress], None] | None,
    ) -> None:
        self.stopped_by: VideoMMEError | None = None
        self._responses: list[Response] = []
        self._has_responses = asyncio.Event()
        self._has_ended = False
        self._model = model
        self._journal = journal
        self._plan = plan
        self._on_progress = on_progress
        self._progress = AskingProgress()
        self._clock = asyncio.get_running_loop().time
        spent = journal.spent_dollars(self._cost_name)
        self._admission = Admission(
            plan.limits,
            max_dollars=_max_dollars(plan, spent),
            spent_dollars=spent,
        )
        self._lanes = Lanes(members_of(model), plan.limits, self._clock)
        prefetched = PREFETCHED_VIDEOS * len(self._lanes)
        self._prefetch = asyncio.Semaphore(prefetched)
        self._in_memory = asyncio.Semaphore(self._lanes.max_in_flight + prefetched)
        self._failed_in_a_row = 0
        self._elsewhere: Counter[str] = Counter()
        self._first_answer = FirstAnswer(self._clock)

    @property
    def _cost_name(self) -> str:
        """The name under which costs are counted. Each observation has the full budget."""
        name, observation = self._plan.evaluation, self._plan.observation
        return name if observation is None else f"{name}@{observation}"

    async def run(self, videos: Iterable[VideoRequests]) -> None:
        """Ask all questions. `next_group` returns the responses."""
        try:
            async with asyncio.TaskGroup() as background:
                renewal = background.create_task(self._renew_claims())
                async with asyncio.TaskGroup() as asking:
                    for video in videos:
                        if self.stopped_by is not None:
                            break
                        pending = self._serve_stored(self._pending(video))
                        if pending:
                            await self._in_memory.acquire()
                            await self._prefetch.acquire()
                            asking.create_task(self._ask_video(video, pending))
                renewal.cancel()
        finally:
            self._has_ended = True
            self._has_responses.set()

    async def next_group(self) -> list[Response]:
        """The responses since the last call, or an empty list at the end."""
        while not self._responses and not self._has_ended:
            self._has_responses.clear()
            await self._has_responses.wait()
        group, self._responses = self._responses, []
        return group

    async def _renew_claims(self) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            now = datetime.now(UTC)
            try:
                await asyncio.to_thread(self._journal.renew_claims, now, LEASE_SECONDS)
            except StorageError as error:
                self._stop(error)

    def _pending(self, video: VideoRequests) -> list[_Pending]:
        requests = planned_requests(
            video, self._model.identity, self._plan, needs_frames=self._model.needs_frames
        )
        return [
            _Pending(planned=planned, response=_not_asked(planned, self._plan, self._model.name))
            for planned in requests
        ]

    def _serve_stored(self, pending: Sequence[_Pending]) -> list[_Pending]:
        """Deliver the responses that are in the journal, and return the other requests."""
        stored = self._journal.stored_responses(request.response for request in pending)
        unsettled = []
        for request in pending:
            if request.fingerprint in stored:
                self._deliver(stored[request.fingerprint], from_journal=True)
            else:
                unsettled.append(request)
        return unsettled

    async def _ask_video(self, video: VideoRequests, pending: list[_Pending]) -> None:
        """Ask the questions that this process can claim, until all are settled or have failed."""
        prefetch_slot = ExitStack()
        prefetch_slot.callback(self._prefetch.release)
        frames: FrameSet | None = None
        try:
            while pending and self.stopped_by is None:
                claimed = await asyncio.to_thread(
                    self._journal.claim,
                    [request.fingerprint for request in pending],
                    datetime.now(UTC),
                    LEASE_SECONDS,
                )
                mine = [request for request in pending if request.fingerprint in claimed]
                others = [request for request in pending if request.fingerprint not in claimed]
                self._elsewhere[video.video_id] = len(others)
                if mine:
                    frames = frames or await self._frames_of(video, [*mine, *others])
                    if frames is None:
                        return
                    await self._ask_in_order(frames, mine, prefetch_slot)
                # Another process has answered the others or is asking them.
                pending = self._serve_stored(others)
                if pending:
                    prefetch_slot.close()
                    self._show(self._progress)
                    await asyncio.sleep(_POLL_SECONDS)
        except StorageError as error:
            self._stop(error)
        finally:
            del self._elsewhere[video.video_id]
            prefetch_slot.close()
            self._in_memory.release()

    async def _frames_of(
        self, video: VideoRequests, pending: Sequence[_Pending]
    ) -> FrameSet | None:
        """The frames of a video. If they cannot be read, fail `pending` and return None."""
        if not self._model.needs_frames:
            return NO_FRAMES
        try:
            return await asyncio.to_thread(video.load_frames)
        except (VideoMMEError, OSError) as error:
            fingerprints = [request.fingerprint for request in pending]
            await asyncio.to_thread(self._journal.release, fingerprints)
            failure = ResponseFailure(FailureKind.FRAMES, f"video {video.video_id}: {error}")
            for request in pending:
                self._deliver(request.response_to(failure, answered_at=None))
            return None

    async def _ask_in_order(
        self, frames: FrameSet, pending: Sequence[_Pending], prefetch_slot: ExitStack
    ) -> None:
        """Ask all of `pending` concurrently. A leader is asked alone, before its followers."""
        has_leader = self._plan.schedule is Schedule.LEADER_FOLLOWER
        with self._lanes.route(len(pending)) as route:
            video = _LoadedVideo(frames, route, prefetch_slot)
            if has_leader:
                await self._ask(pending[0], video, Priority.LEADER)
            priority = Priority.FOLLOWER if has_leader else Priority.LEADER
            async with asyncio.TaskGroup() as group:
                for request in pending[1:] if has_leader else pending:
                    group.create_task(self._ask(request, video, priority))

    async def _ask(self, pending: _Pending, video: _LoadedVideo, priority: Priority) -> None:
        """Ask one question until it is settled or no retry is left."""
        planned = pending.planned
        request = Request(
            question=planned.question,
            prompt=planned.prompt,
            frames=video.frames,
            decoding=self._plan.decoding,
            repeat=planned.repeat,
            fingerprint=planned.fingerprint,
        )
        while True:
            result = await self._attempt(pending, request, video, priority)
            if result is None:
                break
            is_settled = isinstance(result, Reply) or result.kind.is_final
            response = pending.response_to(result, datetime.now(UTC)) if is_settled else None
            try:
                await asyncio.wrap_future(self._journal.record(pending.attempts[-1], response))
            except UnstorableError as error:
                self._give_up(pending, ResponseFailure(FailureKind.MALFORMED, str(error)))
                break
            except StorageError as error:
                self._stop(error)
                return
            if response is not None:
                self._failed_in_a_row = 0
                self._deliver(response)
                return
            assert isinstance(result, ResponseFailure)
            delay = retry_delay_seconds(
                result,
                failed=[each.failure for each in pending.attempts if each.failure is not None],
                elapsed_seconds=self._clock() - (pending.first_sent or 0.0),
                limits=self._plan.limits,
                chance=random.random(),
            )
            if delay is None:
                self._give_up(pending, result)
                break
            if self._first_answer.is_hopeless(pending, delay):
                found = f"no request was answered in {self._first_answer.tried_seconds:.0f} s"
                self._stop(EndpointDownError(self._model.name, found, str(result)))
                break
            self._show(self._progress)
            await asyncio.sleep(delay)
        self._first_answer.leave(pending)
        await asyncio.to_thread(self._journal.release, [pending.fingerprint])

    async def _attempt(
        self, pending: _Pending, request: Request, video: _LoadedVideo, priority: Priority
    ) -> Reply | ResponseFailure | None:
        """Send one request when it is admitted.

        None if the collection stopped before, or if a retry was not admitted before the deadline.
        """
        result: Reply | ResponseFailure | None = None
        try:
            while result is None and self.stopped_by is None:
                await self._first_answer.wait(pending)
                async with AsyncExitStack() as admitted:
                    async with asyncio.timeout_at(self._deadline_of(pending)):
                        lane = await admitted.enter_async_context(video.route.permit(priority))
                        slot = await admitted.enter_async_context(
                            self._admission.slot(_expected_tokens(request))
                        )
                    video.prefetch_slot.close()
                    # Another question may have failed during the wait.
                    if self.stopped_by is None and self._first_answer.allows(pending):
                        result = slot.result = await self._send(pending, request, lane.model)
                        self._lanes.record(lane, result)
        except TimeoutError:
            self._give_up(pending, self._too_late(pending))
        except VideoMMEError as error:
            self._stop(error)
        return result

    def _deadline_of(self, pending: _Pending) -> float | None:
        """The time at which `pending` fails, or None before its first attempt."""
        if pending.first_sent is None:
            return None
        return pending.first_sent + self._plan.limits.deadline_seconds

    def _too_late(self, pending: _Pending) -> ResponseFailure:
        found = f"no answer within {self._plan.limits.deadline_seconds:g} s"
        if pending.attempts:
            found += f"; attempt {len(pending.attempts)} failed with {pending.attempts[-1].error}"
        return ResponseFailure(FailureKind.DEADLINE, found)

    async def _send(
        self, pending: _Pending, request: Request, model: VideoLLM
    ) -> Reply | ResponseFailure:
        """Send one request to `model` and add it to the attempts of `pending`."""
        started_at, sent = datetime.now(UTC), self._clock()
        if pending.first_sent is None:
            pending.first_sent = sent
        try:
            async with asyncio.timeout_at(self._deadline_of(pending)):
                result = await _respond(model, request)
        except TimeoutError:
            result = self._too_late(pending)
        if isinstance(result, ResponseFailure):
            failure, reply = result, result.reply or Reply(text="")
        else:
            failure, reply = None, result
        self._first_answer.record(pending, sent, result)
        pending.attempts.append(
            Attempt(
                request_fingerprint=pending.fingerprint,
                evaluation=self._cost_name,
                model=self._model.name,
                question_id=pending.planned.question.question_id,
                repeat=pending.planned.repeat,
                started_at=started_at,
                latency_seconds=self._clock() - sent,
                status=200 if failure is None else failure.status,
                failure=None if failure is None else failure.kind,
                error=None if failure is None else str(failure),
                usage=reply.usage,
                cost_dollars=reply.cost_dollars,
                usage_json=reply.usage_json,
                body=reply.body,
            )
        )
        self._show(
            replace(
                self._progress,
                requests=self._progress.requests + 1,
                usage=self._progress.usage + reply.usage,
                cost_dollars=self._progress.cost_dollars + (reply.cost_dollars or 0.0),
            )
        )
        return result

    def _stop(self, error: VideoMMEError) -> None:
        """Send no further request. Requests in flight end and are recorded."""
        if self.stopped_by is None:
            self.stopped_by = error
            self._first_answer.end()
            _log.error("%s", error)

    def _give_up(self, pending: _Pending, failure: ResponseFailure) -> None:
        """Deliver a failure. Stop after many in a row, instead of retrying every other question."""
        self._deliver(pending.response_to(failure, answered_at=None))
        if failure.kind is FailureKind.TOO_LARGE:
            return  # the fault of this question, not of the endpoint
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= _MAX_FAILURES_IN_A_ROW:
            found = f"{self._failed_in_a_row} questions in a row got no answer"
            self._stop(EndpointDownError(self._model.name, found, str(failure)))

    def _deliver(self, response: Response, *, from_journal: bool = False) -> None:
        """Deliver a response to the caller and count it. Log only the first warning."""
        progress = self._progress
        if response.warning is not None and progress.warning is None:
            _log.warning("%s", response.warning)
        self._show(
            replace(
                progress,
                answered=progress.answered + int(response.failure is None),
                failed=progress.failed + int(response.failure is not None),
                from_journal=progress.from_journal + int(from_journal),
                warning=progress.warning or response.warning,
            )
        )
        self._responses.append(response)
        self._has_responses.set()

    def _show(self, progress: AskingProgress) -> None:
        self._progress = replace(
            progress,
            in_flight=self._lanes.in_flight,
            pause_seconds=self._lanes.pause_seconds,
            elsewhere=self._elsewhere.total(),
        )
        if self._on_progress is not None:
            self._on_progress(self._progress)


async def _respond(model: VideoLLM, request: Request) -> Reply | ResponseFailure:
    """The model's reply, or the failure if it is not an answer.

    Raises:
        VideoMMEError: if no further question can be answered.
    """
    try:
        reply = await model.respond(request)
        is_answer = reply.has_text
    except ResponseFailure as failure:
        return failure
    except VideoMMEError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of a provider costs only this attempt
        _log.debug("model %s", model.name, exc_info=True)
        return ResponseFailure(FailureKind.MALFORMED, f"{type(error).__name__}: {error}")
    if is_answer:
        return reply
    return ResponseFailure(FailureKind.EMPTY, "an answer without text", reply=reply)


def _not_asked(planned: PlannedRequest, plan: RequestPlan, model: str) -> Response:
    """The response to a request before it is sent."""
    response = Response.not_asked(
        planned.question,
        evaluation=plan.evaluation,
        model=model,
        repeat=planned.repeat,
        error="not asked",
    )
    return replace(
        response,
        request_fingerprint=planned.fingerprint,
        num_frames=planned.num_frames,
        observation=plan.observation,
    )


def _max_dollars(plan: RequestPlan, spent_dollars: float) -> float | None:
    """Total cost at which to stop: the lower of the limits of evaluation and collection."""
    limits = [] if plan.limits.max_cost_dollars is None else [plan.limits.max_cost_dollars]
    if plan.max_cost_dollars is not None:
        limits.append(spent_dollars + plan.max_cost_dollars)
    return min(limits, default=None)


def _expected_tokens(request: Request) -> int:
    """Rough estimate of a request's tokens, until the endpoint has reported some."""
    return len(request.prompt.text) // 4 + _TOKENS_PER_FRAME * len(request.frames.frames)
