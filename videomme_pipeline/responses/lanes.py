"""Lanes: one per endpoint of a model, each with its own number of requests in flight.

All questions of a video use one lane, so that the prefix cache of its endpoint is used. A video
gets the lane with the least load. If the endpoint of a lane is down, its questions move to others.
It gets single questions again after a while, and more once it answers. A model with one endpoint
has one lane, which is never down.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from logging import getLogger

from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, VideoLLM
from videomme_pipeline.responses.admission import Permits, Priority

OUTAGE_SECONDS = 1.0
"""Time without questions for an endpoint that is down. Then one question is a trial."""

_FAILURES_OF_AN_OUTAGE = 2
"""One failure can be a connection that the server closed because it was idle."""

_log = getLogger(__name__)


class Lane:
    """One endpoint: its model, its permits, and whether it is up. `clock` returns seconds."""

    def __init__(
        self, title: str, model: VideoLLM, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self.title = title
        self.model = model
        self.permits = Permits(limits, clock)
        self.questions = 0
        """Questions of the videos that use this lane."""
        self._clock = clock
        self._failures = 0
        self._is_on_trial = False
        self._down_until = float("-inf")

    @property
    def load(self) -> float:
        """Questions per request that may be in flight."""
        return self.questions / self.permits.allowed

    @property
    def is_up(self) -> bool:
        return self._clock() >= self._down_until

    def record(self, result: Reply | ResponseFailure, *, may_be_down: bool) -> None:
        """Record the result of a request: it changes the permits, and may end the lane's use."""
        if isinstance(result, Reply):
            self.permits.answered()
            if self._is_on_trial:
                _log.warning("%s answers again", self.title)
            self._failures, self._is_on_trial = 0, False
        elif result.kind is FailureKind.RATE_LIMITED:
            self.permits.overloaded(result.retry_after_seconds)
        elif result.kind is FailureKind.SERVER_ERROR:
            self.permits.overloaded(None)
        elif result.kind is FailureKind.CONNECTION and may_be_down and self.is_up:
            self._failures += 1
            if self._failures >= (1 if self._is_on_trial else _FAILURES_OF_AN_OUTAGE):
                self._go_down(str(result))

    def _go_down(self, reason: str) -> None:
        if not self._is_on_trial:
            _log.warning(
                "%s is down, its questions move to other endpoints: %s", self.title, reason
            )
        self._down_until = self._clock() + OUTAGE_SECONDS
        self._is_on_trial = True
        self._failures = 0
        self.permits.restart()


class Lanes:
    """The lanes of a model with one or more endpoints."""

    def __init__(
        self, members: Mapping[str, VideoLLM], limits: Limits, clock: Callable[[], float]
    ) -> None:
        self._lanes = [Lane(title, model, limits, clock) for title, model in members.items()]

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""
        return sum(lane.permits.in_flight for lane in self._lanes)

    @property
    def max_in_flight(self) -> int:
        """Upper bound of the number of requests in flight."""
        return sum(lane.permits.max_in_flight for lane in self._lanes)

    @property
    def pause_seconds(self) -> float:
        """Length of the pause that all endpoints asked for, or 0 if one accepts requests."""
        return min(lane.permits.pause_seconds for lane in self._lanes)

    @contextmanager
    def route(self, questions: int) -> Iterator["Route"]:
        """The route of a video with so many questions."""
        route = Route(self, questions)
        try:
            yield route
        finally:
            route.end()

    def record(self, lane: Lane, result: Reply | ResponseFailure) -> None:
        """Record the result of a request to `lane`."""
        lane.record(result, may_be_down=len(self._lanes) > 1)

    def least_loaded(self) -> Lane:
        """The lane for another video: one that is up and not paused, if there is one."""
        return min(
            self._lanes,
            key=lambda lane: (not lane.is_up, lane.permits.pause_seconds > 0, lane.load),
        )


class Route:
    """The lane that the questions of one video use."""

    def __init__(self, lanes: Lanes, questions: int) -> None:
        self._lanes = lanes
        self._questions = questions
        self._lane: Lane | None = None

    @asynccontextmanager
    async def permit(self, priority: Priority) -> AsyncIterator[Lane]:
        """Wait for a permit, and return its lane. The video may move during the wait."""
        while True:
            lane = self._current()
            await lane.permits.acquire(priority)
            if lane is self._current():
                break
            lane.permits.release()
        try:
            yield lane
        finally:
            lane.permits.release()

    def end(self) -> None:
        """Remove the video from its lane."""
        if self._lane is not None:
            self._lane.questions -= self._questions
            self._lane = None

    def _current(self) -> Lane:
        """The lane of the video. It changes only if the lane is down and another one is up."""
        if self._lane is None or not self._lane.is_up:
            best = self._lanes.least_loaded()
            if self._lane is None or best.is_up:
                self.end()
                self._lane = best
                best.questions += self._questions
        return self._lane
