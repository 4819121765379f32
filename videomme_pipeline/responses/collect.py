"""Ask a model every question of an evaluation, once.

The unit of work is the video. Its frames are loaded shortly before its questions are asked, and
freed after the last question. Responses in the journal are not requested again. A failed question
or an unreadable video does not stop the others. A request is sent when

- this process has a claim of the question in the journal, so that no other process asks it;
- an endpoint is up: the one to which the video has an affinity, unless it is down;
- the limits of the requests in flight and per minute are not reached;
- the budget allows it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from logging import getLogger

from videomme_pipeline.errors import EndpointDownError, StorageError, UnstorableError, VideoMMEError
from videomme_pipeline.frames.cache import NO_FRAMES, FrameSet
from videomme_pipeline.models.spec import Schedule
from videomme_pipeline.models.video_llm import (
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
    VideoLLM,
    members_of,
)
from videomme_pipeline.responses.endpoints import Affinity, Endpoints, Outage
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.limits import Budget, Clock
from videomme_pipeline.responses.requests import (
    PendingRequest,
    RequestPlan,
    VideoRequests,
    completion_of,
    pending_requests,
    settle_stored,
)
from videomme_pipeline.responses.response import Response

CLAIM_SECONDS = 120.0
"""Longer than a lost database is awaited, so that no other process asks the same meanwhile."""
PREFETCHED_VIDEOS = 4
"""Videos whose frames are loaded before their first question may be sent."""

_POLL_SECONDS = 0.25

_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingProgress:
    """Counts of one collection. `cost_dollars` is the cost of this run's requests.

    `pause_seconds` is the length of the pause that the endpoint asked for, and `elsewhere` the
    number of questions that another process is asking now. Every request that ended in the last
    `outage_seconds` has failed. If none is answered in the next `outage_seconds_left`, the run
    stops. Both are 0 without an outage.
    """

    answered: int = 0
    failed: int = 0
    in_flight: int = 0
    cost_dollars: float = 0.0
    pause_seconds: float = 0.0
    elsewhere: int = 0
    outage_seconds: float = 0.0
    outage_seconds_left: float = 0.0


def collect(
    videos: Iterable[VideoRequests],
    model: VideoLLM,
    journal: Journal,
    plan: RequestPlan,
    *,
    on_progress: Callable[[AskingProgress], None] | None = None,
) -> Generator[Response, None, None]:
    """Yield one response per question and repeat of `videos`, in the order of arrival.

    A question without an answer has a response with an `error`, and the next run asks it again.
    The caller may stop early, since the journal contains every answer. Requests continue only
    while the caller waits for the next response. At the end the model is closed.

    Raises StorageError if the journal cannot be written. After the last response, raises ModelError
    if no further question can be answered (the endpoint rejects the key, does not know the model or
    is down), and CostLimitError if the budget is used up.
    """
    with asyncio.Runner() as runner:
        collection = _Collection(model, journal, plan, on_progress, runner.get_loop().time)
        runner.run(collection.start(videos))
        try:
            while group := runner.run(collection.delivery.next_group()):
                yield from group
            runner.run(collection.finish())
        finally:
            runner.run(collection.close())


@dataclass(slots=True, eq=False)
class Delivery:
    """The responses that the caller has not received yet, and the progress of the collection."""

    _endpoints: Endpoints
    _outage: Outage
    _on_progress: Callable[[AskingProgress], None] | None
    elsewhere: Counter[str] = field(default_factory=Counter)
    """Questions that another process is asking, by video."""
    _answered: int = 0
    _failed: int = 0
    _cost_dollars: float = 0.0
    _responses: list[Response] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _has_warned: bool = False
    _has_ended: bool = False

    def deliver(self, response: Response) -> None:
        """Deliver a response and count it. Log only the first warning."""
        if response.warning is not None and not self._has_warned:
            _log.warning("%s", response.warning)
            self._has_warned = True
        self._answered += response.failure is None
        self._failed += response.failure is not None
        self.show()
        self._responses.append(response)
        self._changed.set()

    def add_cost(self, dollars: float) -> None:
        self._cost_dollars += dollars
        self.show()

    def show(self) -> None:
        """Call `on_progress` with the current counts."""
        if self._on_progress is not None:
            self._on_progress(
                AskingProgress(
                    answered=self._answered,
                    failed=self._failed,
                    in_flight=self._endpoints.in_flight,
                    cost_dollars=self._cost_dollars,
                    pause_seconds=self._endpoints.pause_seconds,
                    elsewhere=self.elsewhere.total(),
                    outage_seconds=self._outage.seconds,
                    outage_seconds_left=self._outage.seconds_left if self._outage.seconds else 0.0,
                )
            )

    def end(self) -> None:
        self._has_ended = True
        self._changed.set()

    async def next_group(self) -> list[Response]:
        """The responses since the last call, at least one, or an empty list at the end."""
        while not self._responses and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        group, self._responses = self._responses, []
        return group


@dataclass(frozen=True, slots=True)
class _LoadedVideo:
    """A video whose questions are being asked. `prefetch` is closed when a question is sent."""

    frames: FrameSet
    requests: tuple[Request, ...]
    affinity: Affinity
    prefetch: ExitStack


class _Collection:
    _task: asyncio.Task[None]

    def __init__(
        self,
        model: VideoLLM,
        journal: Journal,
        plan: RequestPlan,
        on_progress: Callable[[AskingProgress], None] | None,
        clock: Clock,
    ) -> None:
        self._stopped_by: VideoMMEError | None = None
        self._model = model
        self._journal = journal
        self._plan = plan
        self._clock = clock
        spent, highest_cost = journal.costs(plan.cost_name)
        limits = [] if plan.limits.max_cost_dollars is None else [plan.limits.max_cost_dollars]
        if plan.max_cost_dollars is not None:  # the limit of this collection alone
            limits.append(spent + plan.max_cost_dollars)
        budget = Budget(min(limits, default=None), spent, highest_cost)
        members = members_of(model)
        self._endpoints = Endpoints(members, plan.limits, budget, clock)
        self._outage = Outage(clock, plan.limits.outage_seconds)
        self.delivery = Delivery(self._endpoints, self._outage, on_progress)
        prefetched = PREFETCHED_VIDEOS * len(members)
        self._prefetch = asyncio.Semaphore(prefetched)
        self._in_memory = asyncio.Semaphore(self._endpoints.max_in_flight + prefetched)
        self._conversations = asyncio.Semaphore(self._endpoints.max_in_flight)  # for caches

    async def start(self, videos: Iterable[VideoRequests]) -> None:
        self._task = asyncio.create_task(self._ask_all(videos))

    async def finish(self) -> None:
        """Wait for the end, and raise the error that stopped the collection, if one did."""
        await self._task
        if self._stopped_by is not None:
            raise self._stopped_by

    async def close(self) -> None:
        """Cancel the requests in flight, and close the model."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._model.close()

    async def _ask_all(self, videos: Iterable[VideoRequests]) -> None:
        try:
            loop = asyncio.get_running_loop()
            with self._journal.renewing_claims(
                CLAIM_SECONDS, lambda error: loop.call_soon_threadsafe(self._stop, error)
            ):
                async with asyncio.TaskGroup() as asking:
                    for video in videos:
                        if self._stopped_by is not None:
                            break
                        requests = pending_requests(video, self._model, self._plan)
                        pending = await self._deliver_stored(requests)
                        if pending:
                            await self._in_memory.acquire()
                            await self._prefetch.acquire()
                            asking.create_task(self._ask_video(video, pending))
        finally:
            self.delivery.end()

    async def _deliver_stored(self, pending: Sequence[PendingRequest]) -> list[PendingRequest]:
        """Deliver the responses that are in the journal, and return the other requests."""
        responses, unsettled = await asyncio.to_thread(settle_stored, pending, self._journal)
        for response in responses:
            self.delivery.deliver(response)
        return unsettled

    async def _ask_video(self, video: VideoRequests, pending: list[PendingRequest]) -> None:
        """Ask the questions that this process can claim, until all are settled or have failed."""
        prefetch = ExitStack()
        prefetch.callback(self._prefetch.release)
        elsewhere = self.delivery.elsewhere
        frames: FrameSet | None = None
        try:
            async with AsyncExitStack() as stack:
                if video.is_conversation:
                    await stack.enter_async_context(self._conversations)
                affinity = stack.enter_context(self._endpoints.affinity(len(pending)))
                while pending and self._stopped_by is None:
                    fingerprints = [request.fingerprint for request in pending]
                    claimed = await asyncio.to_thread(
                        self._journal.claim, fingerprints, datetime.now(UTC), CLAIM_SECONDS
                    )
                    mine = [request for request in pending if request.fingerprint in claimed]
                    others = [request for request in pending if request.fingerprint not in claimed]
                    elsewhere[video.video_id] = len(others)
                    if mine:
                        frames = frames or await self._frames_of(video, [*mine, *others])
                        if frames is None:
                            return
                        planned = tuple(request.planned for request in mine)
                        loaded = _LoadedVideo(frames, planned, affinity, prefetch)
                        await self._ask_in_order(mine, loaded)
                    turns = [turn for request in mine if (turn := request.next_turn)]
                    # Another process has answered the others or is asking them.
                    pending = await self._deliver_stored([*turns, *others])
                    if pending and not turns:
                        prefetch.close()
                        self.delivery.show()
                        await asyncio.sleep(_POLL_SECONDS)
        except StorageError as error:
            self._stop(error)
        finally:
            del elsewhere[video.video_id]
            prefetch.close()
            self._in_memory.release()

    async def _frames_of(
        self, video: VideoRequests, pending: Sequence[PendingRequest]
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
                self._deliver(request, request.response_to(failure, answered_at=None))
            return None

    async def _ask_in_order(self, pending: Sequence[PendingRequest], video: _LoadedVideo) -> None:
        """Ask all of `pending` concurrently. A leader is asked alone, before its followers."""
        is_cached = bool(pending[0].planned.history)  # the turn before it was the leader
        has_leader = not is_cached and self._plan.schedule is Schedule.LEADER_FOLLOWER
        if has_leader:
            await self._ask(pending[0], video, is_follower=False)
        async with asyncio.TaskGroup() as group:
            for request in pending[1:] if has_leader else pending:
                group.create_task(self._ask(request, video, is_follower=has_leader or is_cached))

    async def _ask(
        self, pending: PendingRequest, video: _LoadedVideo, *, is_follower: bool
    ) -> None:
        try:
            while result := await self._attempt(pending, video, is_follower=is_follower):
                if await self._settle(pending, result):
                    return
                assert isinstance(result, ResponseFailure)
                delay = pending.retry_delay(result, self._clock(), random.random())
                if delay is None:
                    self._give_up(pending, result)
                    break
                has_model = self._endpoints.have_answered
                if problem := self._outage.problem_of_retry(pending, delay, has_model=has_model):
                    self._stop(EndpointDownError(self._model.name, problem, str(result)))
                    break
                self.delivery.show()
                await asyncio.sleep(min(delay, self._outage.seconds_left))
            await asyncio.to_thread(self._journal.release, [pending.fingerprint])
        except StorageError as error:
            self._stop(error)
        finally:
            self._endpoints.end(pending)

    async def _attempt(
        self, pending: PendingRequest, video: _LoadedVideo, *, is_follower: bool
    ) -> Reply | ResponseFailure | None:
        """Send one request when it is admitted. None if it was not admitted in time."""
        result: Reply | ResponseFailure | None = None
        request = replace(pending.planned, frames=video.frames, same_frames=video.requests)
        try:
            while result is None and self._stopped_by is None:
                admitted = video.affinity.admit(pending, is_follower=is_follower)
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout_at(pending.deadline):
                        admission = await stack.enter_async_context(admitted)
                    video.prefetch.close()
                    endpoint = admission.endpoint
                    if self._stopped_by is None and endpoint.allows(pending):
                        result = await self._send(pending, request, endpoint.model)
                        admission.result = result
        except TimeoutError:
            self._give_up(pending, pending.too_late())
        except VideoMMEError as error:
            self._stop(error)
        return result

    async def _send(
        self, pending: PendingRequest, request: Request, model: VideoLLM
    ) -> Reply | ResponseFailure:
        started_at, sent = datetime.now(UTC), self._clock()
        if pending.first_sent is None:
            pending.first_sent = sent
        try:
            async with asyncio.timeout_at(pending.deadline):
                result = await _respond(model, request)
        except TimeoutError:
            result = pending.too_late()
        pending.add_attempt(result, started_at, self._clock() - sent)
        self._outage.record(result)
        completion = completion_of(result)
        self.delivery.add_cost((completion and completion.cost_dollars) or 0.0)
        return result

    async def _settle(self, pending: PendingRequest, result: Reply | ResponseFailure) -> bool:
        """Store the last attempt. If `result` is final, store and deliver it, and return True."""
        is_final = isinstance(result, Reply) or result.kind.is_final
        response = pending.response_to(result, datetime.now(UTC)) if is_final else None
        try:
            await asyncio.wrap_future(self._journal.record(pending.attempts[-1], response))
        except UnstorableError as error:
            self._give_up(pending, ResponseFailure(FailureKind.MALFORMED, str(error)))
            await asyncio.to_thread(self._journal.release, [pending.fingerprint])
            return True
        if response is not None:
            self._outage.record_answer()
            self._deliver(pending, response)
        return is_final

    def _deliver(self, pending: PendingRequest, response: Response) -> None:
        for settled in pending.settle(response):
            self.delivery.deliver(settled)

    def _stop(self, error: VideoMMEError) -> None:
        """Send no further request. Requests in flight end and are recorded."""
        if self._stopped_by is None:
            self._stopped_by = error
            self._endpoints.stop()
            if not isinstance(error, StorageError):  # that error ends the run
                _log.error("%s", error)

    def _give_up(self, pending: PendingRequest, failure: ResponseFailure) -> None:
        """Deliver a failure. Stop after many in a row, instead of retrying every other question."""
        self._deliver(pending, pending.response_to(failure, answered_at=None))
        if problem := self._outage.problem_of_failure(failure):
            self._stop(EndpointDownError(self._model.name, problem, str(failure)))


async def _respond(model: VideoLLM, request: Request) -> Reply | ResponseFailure:
    try:
        reply = await model.respond(request)
        if reply.has_text:
            return reply
    except ResponseFailure as failure:
        return failure
    except VideoMMEError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of a provider costs only this attempt
        _log.debug("model %s", model.name, exc_info=True)
        return ResponseFailure(FailureKind.MALFORMED, f"{type(error).__name__}: {error}")
    return ResponseFailure(FailureKind.EMPTY, "an answer without text", reply=reply)
