"""Ask a model every question of an evaluation, once.

The unit of work is the video: its frames are loaded when its turn comes, shared by its
questions and dropped after the last. What the journal holds already is served from it. One
failed question, or one unreadable video, never stops the others. How a single request is made
belongs to the model; how many go out at once belongs to `admission`.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from logging import getLogger

from videomme_pipeline.errors import EndpointDownError, StorageError, VideoMMEError
from videomme_pipeline.frames.cache import NO_FRAMES, FrameSet
from videomme_pipeline.models.spec import Schedule
from videomme_pipeline.models.video_llm import (
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
    VideoLLM,
)
from videomme_pipeline.responses.admission import Budget, Pace, Permits, Priority
from videomme_pipeline.responses.journal import (
    Attempt,
    Journal,
    Recorded,
    recorded_failure,
    recorded_reply,
)
from videomme_pipeline.responses.requests import (
    PlannedRequest,
    RequestPlan,
    VideoRequests,
    planned_requests,
)
from videomme_pipeline.responses.response import Response
from videomme_pipeline.responses.retry import retry_delay_seconds

LEASE_SECONDS = 60.0
VIDEOS_AHEAD = 4
"""Videos whose frames are loaded before there is a permit for their first question."""

_POLL_SECONDS = 0.25
_FAILED_IN_A_ROW = 20
_TOKENS_PER_FRAME = 256

_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingProgress:
    """How far a collection is. Tokens and dollars are those of this run's requests."""

    answered: int = 0
    failed: int = 0
    from_journal: int = 0
    requests: int = 0
    in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_dollars: float = 0.0
    warnings: tuple[str, ...] = ()


async def collect(
    videos: Iterable[VideoRequests],
    model: VideoLLM,
    journal: Journal,
    plan: RequestPlan,
    *,
    on_progress: Callable[[AskingProgress], None] | None = None,
) -> AsyncGenerator[Response, None]:
    """One response per question and sample of `videos`, in the order in which they come.

    A question that got no answer gives a response with an `error`, and is asked again by the
    next run. Leaving early is safe: what was answered is in the journal.

    Raises:
        ModelError: after the last response, when no further question can be answered: the
            endpoint rejects the key, knows no such model or is down.
        CostLimitError: after the last response, when the money is used up.
        StorageError: when the journal cannot be written.
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
    """`collect` for callers without an event loop, such as a step of a pipeline.

    Requests go on while the caller waits for the next response. The model's connections are
    closed at the end, since they belong to the event loop that ends here.
    """
    with asyncio.Runner() as runner:
        groups = _collect_groups(videos, model, journal, plan, on_progress)

        async def following() -> list[Response]:
            return await anext(groups, [])

        async def finish() -> None:
            await groups.aclose()
            await model.close()

        try:
            while group := runner.run(following()):
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
    """As `collect`, with all responses that have come since the last group; none is empty."""
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
        self._has_news = asyncio.Event()
        self._has_ended = False
        self._model = model
        self._journal = journal
        self._plan = plan
        self._on_progress = on_progress
        self._progress = AskingProgress()
        self._clock = asyncio.get_running_loop().time
        self._permits = Permits(plan.limits, self._clock)
        self._pace = Pace(plan.limits)
        spent = journal.spent_dollars(self._spent_under)
        self._budget = Budget(_most_dollars(plan, spent), spent)
        self._ahead = asyncio.Semaphore(VIDEOS_AHEAD)
        self._in_memory = asyncio.Semaphore(self._permits.most + VIDEOS_AHEAD)
        self._failed_in_a_row = 0

    @property
    def _spent_under(self) -> str:
        """The name that money is counted under: each observation has the whole budget."""
        name, observation = self._plan.evaluation, self._plan.observation
        return name if observation is None else f"{name}@{observation}"

    async def run(self, videos: Iterable[VideoRequests]) -> None:
        """Ask everything; `next_group` gives out what comes."""
        try:
            async with asyncio.TaskGroup() as group:
                heartbeat = group.create_task(self._hold_claims())
                async with asyncio.TaskGroup() as asking:
                    await self._start_videos(videos, asking)
                heartbeat.cancel()
        finally:
            self._has_ended = True
            self._has_news.set()

    async def next_group(self) -> list[Response]:
        """The responses that have come since the last call; none at the end only."""
        while not self._responses and not self._has_ended:
            self._has_news.clear()
            await self._has_news.wait()
        group, self._responses = self._responses, []
        return group

    async def _start_videos(
        self, videos: Iterable[VideoRequests], asking: asyncio.TaskGroup
    ) -> None:
        for video in videos:
            if self.stopped_by is not None:
                return
            open_items = self._serve_settled(self._items_of(video))
            if open_items:
                await self._in_memory.acquire()
                await self._ahead.acquire()
                asking.create_task(self._ask_video(video, open_items))

    async def _hold_claims(self) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            now = datetime.now(UTC)
            try:
                await asyncio.to_thread(self._journal.renew_claims, now, LEASE_SECONDS)
            except StorageError as error:
                self._stop(error)

    def _items_of(self, video: VideoRequests) -> list[PlannedRequest]:
        return planned_requests(
            video, self._model.identity, self._plan, needs_frames=self._model.needs_frames
        )

    def _serve_settled(self, items: Sequence[PlannedRequest]) -> list[PlannedRequest]:
        """Give out what the journal holds; the items that are still open."""
        settled = self._journal.answered(item.fingerprint for item in items)
        open_items = []
        for item in items:
            if item.fingerprint in settled:
                self._give(item, settled[item.fingerprint], from_journal=True)
            else:
                open_items.append(item)
        return open_items

    async def _ask_video(self, video: VideoRequests, items: list[PlannedRequest]) -> None:
        turn = _Turn(self._ahead)
        frames: FrameSet | None = None
        try:
            while items and self.stopped_by is None:
                claimed = await asyncio.to_thread(
                    self._journal.claim,
                    [item.fingerprint for item in items],
                    datetime.now(UTC),
                    LEASE_SECONDS,
                )
                mine = [item for item in items if item.fingerprint in claimed]
                items = [item for item in items if item.fingerprint not in claimed]
                if mine:
                    frames = frames or await self._frames_of(video, [*mine, *items])
                    if frames is None:
                        return
                    await self._ask_in_order(frames, mine, turn)
                # The rest was answered meanwhile, or another process is asking it.
                items = self._serve_settled(items)
                if items:
                    turn.began()
                    await asyncio.sleep(_POLL_SECONDS)
        except StorageError as error:
            self._stop(error)
        finally:
            turn.began()
            self._in_memory.release()

    async def _frames_of(
        self, video: VideoRequests, items: Sequence[PlannedRequest]
    ) -> FrameSet | None:
        """The frames of a video; None when they cannot be read, after saying so."""
        if not self._model.needs_frames:
            return NO_FRAMES
        try:
            return await asyncio.to_thread(video.load_frames)
        except (VideoMMEError, OSError) as error:
            await asyncio.to_thread(self._journal.release, [item.fingerprint for item in items])
            for item in items:
                failure = ResponseFailure(
                    FailureKind.FRAMES, f"video {video.video_id}: {error}", reply=None
                )
                self._give_failure(item, failure, attempts=[], latency_seconds=None)
            return None

    async def _ask_in_order(
        self, frames: FrameSet, items: Sequence[PlannedRequest], turn: "_Turn"
    ) -> None:
        rest = items
        if self._plan.schedule is Schedule.LEADER_FOLLOWER:
            await self._ask(items[0], frames, Priority.LEADER, turn)
            rest = items[1:]
        follows = rest is not items
        priority = Priority.FOLLOWER if follows else Priority.LEADER
        async with asyncio.TaskGroup() as group:
            for item in rest:
                group.create_task(self._ask(item, frames, priority, turn))

    async def _ask(
        self, item: PlannedRequest, frames: FrameSet, priority: Priority, turn: "_Turn"
    ) -> None:
        """Ask one question until it is settled or given up."""
        request = Request(
            question=item.question,
            prompt=item.prompt,
            frames=frames,
            decoding=self._plan.decoding,
            sample=item.sample,
            fingerprint=item.fingerprint,
        )
        attempts: list[Attempt] = []
        began: float | None = None
        while self.stopped_by is None:
            outcome = await self._attempt(item, request, began, priority, turn)
            if outcome is None:
                break
            attempts.append(outcome.attempt)
            began = outcome.began if began is None else began
            if outcome.failure is None or outcome.failure.kind.is_final:
                settled = replace(
                    outcome.settled(item.fingerprint),
                    attempts=len(attempts),
                    cost_dollars=_sum_known(attempt.cost_dollars for attempt in attempts),
                )
                if await self._record(outcome.attempt, settled):
                    self._failed_in_a_row = 0
                    self._give(item, settled, from_journal=False)
                return
            if not await self._record(outcome.attempt, None):
                return
            delay = retry_delay_seconds(
                outcome.failure,
                attempts=len(attempts),
                elapsed_seconds=self._clock() - began,
                limits=self._plan.limits,
                chance=random.random(),
            )
            if delay is None:
                self._give_failure(
                    item,
                    outcome.failure,
                    attempts=attempts,
                    latency_seconds=outcome.attempt.latency_seconds,
                )
                self._count_given_up(outcome.failure)
                break
            await asyncio.sleep(delay)
        await asyncio.to_thread(self._journal.release, [item.fingerprint])

    async def _attempt(
        self,
        item: PlannedRequest,
        request: Request,
        began: float | None,
        priority: Priority,
        turn: "_Turn",
    ) -> "_Outcome | None":
        """One request; None when the evaluation stopped before it was sent."""
        await self._permits.acquire(priority)
        turn.began()
        outcome: _Outcome | None = None
        try:
            await self._budget.reserve()
            try:
                await self._pace.wait(_expected_tokens(request))
                if self.stopped_by is None:
                    outcome = await self._send(item, request, began)
            finally:
                await self._settle(outcome)
        except VideoMMEError as error:
            self._stop(error)
        finally:
            self._permits.release()
        return outcome

    async def _settle(self, outcome: "_Outcome | None") -> None:
        """Account for a request that ended; one that gave no reply cost nothing we know of."""
        reply = None if outcome is None else outcome.reply
        if outcome is not None:
            self._count_request(reply)
        await self._budget.settle(
            None if reply is None else reply.cost_dollars, was_sent=reply is not None
        )

    async def _send(
        self, item: PlannedRequest, request: Request, began: float | None
    ) -> "_Outcome":
        started_at, sent = datetime.now(UTC), self._clock()
        deadline = (sent if began is None else began) + self._plan.limits.deadline_seconds
        reply, failure = await self._respond(request, deadline)
        came = reply or Reply(text="")
        return _Outcome(
            began=sent,
            reply=reply,
            failure=failure,
            attempt=Attempt(
                request_fingerprint=item.fingerprint,
                evaluation=self._spent_under,
                model=self._model.name,
                question_id=item.question.question_id,
                sample=item.sample,
                started_at=started_at,
                latency_seconds=self._clock() - sent,
                status=200 if failure is None else failure.status,
                failure=None if failure is None else failure.kind,
                error=None if failure is None else str(failure),
                prompt_tokens=came.prompt_tokens,
                completion_tokens=came.completion_tokens,
                cached_tokens=came.cached_tokens,
                cost_dollars=came.cost_dollars,
                usage_json=came.usage_json,
                # The body of an answer is kept with the response.
                body=None if failure is None else came.body,
            ),
        )

    async def _respond(
        self, request: Request, deadline: float
    ) -> tuple[Reply | None, ResponseFailure | None]:
        """What came back and why it is no answer (None when it is one)."""
        try:
            async with asyncio.timeout_at(deadline):
                reply = await self._model.respond(request)
        except TimeoutError:
            seconds = self._plan.limits.deadline_seconds
            return None, ResponseFailure(FailureKind.DEADLINE, f"no answer within {seconds:g} s")
        except ResponseFailure as failure:
            if failure.kind is FailureKind.RATE_LIMITED:
                self._permits.overloaded(failure.retry_after_seconds)
            elif failure.kind is FailureKind.SERVER_ERROR:
                self._permits.overloaded(None)
            return failure.reply, failure
        if not reply.text.strip():
            return reply, ResponseFailure(FailureKind.EMPTY, "an answer without text", reply=reply)
        self._permits.answered()
        return reply, None

    async def _record(self, attempt: Attempt, settled: Recorded | None) -> bool:
        """Whether the journal has it now; what it does not have is not acknowledged."""
        try:
            await asyncio.wrap_future(self._journal.record(attempt, settled))
        except StorageError as error:
            self._stop(error)
            return False
        return True

    def _stop(self, error: VideoMMEError) -> None:
        """No further request goes out; those in flight end and are kept."""
        if self.stopped_by is None:
            self.stopped_by = error
            _log.error("%s", error)

    def _count_given_up(self, failure: ResponseFailure) -> None:
        """Stop when nothing but failures comes, so that 2,700 questions do not all wait."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= _FAILED_IN_A_ROW:
            self._stop(EndpointDownError(self._model.name, self._failed_in_a_row, str(failure)))

    def _count_request(self, reply: Reply | None) -> None:
        came = reply or Reply(text="")
        self._pace.took((came.prompt_tokens or 0) + (came.completion_tokens or 0))
        before = self._progress
        self._progress = replace(
            before,
            requests=before.requests + 1,
            prompt_tokens=before.prompt_tokens + (came.prompt_tokens or 0),
            cached_tokens=before.cached_tokens + (came.cached_tokens or 0),
            completion_tokens=before.completion_tokens + (came.completion_tokens or 0),
            cost_dollars=before.cost_dollars + (came.cost_dollars or 0.0),
        )
        self._show_progress()

    def _show_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._progress)

    def _give(self, item: PlannedRequest, recorded: Recorded, *, from_journal: bool) -> None:
        self._report(
            answered=int(recorded.failure is None),
            failed=int(recorded.failure is not None),
            from_journal=int(from_journal),
            warning=recorded.warning,
        )
        self._hand_out(_response_of(item, recorded, self._plan, self._model.name))

    def _give_failure(
        self,
        item: PlannedRequest,
        failure: ResponseFailure,
        *,
        attempts: Sequence[Attempt],
        latency_seconds: float | None,
    ) -> None:
        recorded = replace(
            recorded_failure(
                item.fingerprint,
                failure,
                latency_seconds=latency_seconds or 0.0,
                now=datetime.now(UTC),
            ),
            attempts=len(attempts),
            cost_dollars=_sum_known(attempt.cost_dollars for attempt in attempts),
            latency_seconds=latency_seconds,
        )
        self._report(answered=0, failed=1, from_journal=0, warning=None)
        response = _response_of(item, recorded, self._plan, self._model.name)
        self._hand_out(replace(response, answered_at=None))

    def _hand_out(self, response: Response) -> None:
        self._responses.append(response)
        self._has_news.set()

    def _report(
        self, *, answered: int, failed: int, from_journal: int, warning: str | None
    ) -> None:
        before = self._progress
        warnings = before.warnings
        if warning is not None and not warnings:
            _log.warning("%s", warning)
            warnings = (warning,)
        self._progress = replace(
            before,
            answered=before.answered + answered,
            failed=before.failed + failed,
            from_journal=before.from_journal + from_journal,
            in_flight=self._permits.in_flight,
            warnings=warnings,
        )
        self._show_progress()


class _Turn:
    """A video's place among those that are loaded ahead, given up when its asking begins."""

    def __init__(self, ahead: asyncio.Semaphore) -> None:
        self._ahead: asyncio.Semaphore | None = ahead

    def began(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one request. `began` is the event loop's time when it was sent."""

    began: float
    reply: Reply | None
    failure: ResponseFailure | None
    attempt: Attempt

    def settled(self, fingerprint: str) -> Recorded:
        now = datetime.now(UTC)
        seconds = self.attempt.latency_seconds
        if self.failure is not None:
            return recorded_failure(fingerprint, self.failure, latency_seconds=seconds, now=now)
        reply = self.reply or Reply(text="")
        return recorded_reply(fingerprint, reply, latency_seconds=seconds, now=now)


def _response_of(
    item: PlannedRequest, recorded: Recorded, plan: RequestPlan, model: str
) -> Response:
    question = item.question
    return Response(
        benchmark=question.benchmark,
        evaluation=plan.evaluation,
        video_id=question.video_id,
        question_id=question.question_id,
        sample=item.sample,
        request_fingerprint=item.fingerprint,
        model=model,
        num_frames=item.num_frames,
        raw_output=recorded.raw_output,
        reasoning=recorded.reasoning,
        finish_reason=recorded.finish_reason,
        error=recorded.error,
        reported_model=recorded.reported_model,
        system_fingerprint=recorded.system_fingerprint,
        prompt_tokens=recorded.prompt_tokens,
        completion_tokens=recorded.completion_tokens,
        cached_tokens=recorded.cached_tokens,
        reasoning_tokens=recorded.reasoning_tokens,
        usage_json=recorded.usage_json,
        cost_dollars=recorded.cost_dollars,
        latency_seconds=recorded.latency_seconds,
        attempts=recorded.attempts,
        answered_at=datetime.fromisoformat(recorded.answered_at),
        failure=None if recorded.failure is None else FailureKind(recorded.failure),
        warning=recorded.warning,
        observation=plan.observation,
    )


def _most_dollars(plan: RequestPlan, spent_dollars: float) -> float | None:
    """Where the evaluation stops: its own limit, or that of this collection if it is nearer."""
    limits = [] if plan.limits.max_cost_dollars is None else [plan.limits.max_cost_dollars]
    if plan.max_cost_dollars is not None:
        limits.append(spent_dollars + plan.max_cost_dollars)
    return min(limits, default=None)


def _expected_tokens(request: Request) -> int:
    """A rough size of a request, until the endpoint has reported real ones."""
    return len(request.prompt.text) // 4 + _TOKENS_PER_FRAME * len(request.frames.frames)


def _sum_known(costs: Iterable[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
