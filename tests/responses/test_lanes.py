"""A model at several endpoints: videos stay at one, and move if it is down."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.made_up_requests import letters, videos
from tests.support.model_server import ModelServer
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure
from videomme_pipeline.responses.admission import FIRST_CONCURRENCY, Priority
from videomme_pipeline.responses.collect import AskingProgress, collect_now
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.lanes import OUTAGE_SECONDS, Lanes
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response

CLOSED = ResponseFailure(FailureKind.CONNECTION, "the port is closed")


@dataclass
class Clock:
    """A clock that the test sets."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def lanes_of(count: int, clock: Clock) -> Lanes:
    spec = EndpointSpec.model_validate({"name": "m", "base_url": "http://127.0.0.1:9/v1"})
    members = {f"endpoint {number}": build_model(spec, {}) for number in range(count)}
    return Lanes(members, Limits(), clock)


async def lane_titles(lanes: Lanes, count: int) -> list[str]:
    """The lanes of so many videos that are asked at the same time."""
    titles = []
    with ExitStack() as routes:
        for _ in range(count):
            route = routes.enter_context(lanes.route(3))
            async with route.permit(Priority.LEADER) as lane:
                titles.append(lane.title)
    return titles


async def test_videos_are_spread_evenly() -> None:
    titles = await lane_titles(lanes_of(3, Clock()), 12)
    assert set(Counter(titles).values()) == {4}


async def test_all_questions_of_a_video_use_one_lane() -> None:
    lanes = lanes_of(3, Clock())
    with lanes.route(3) as route:
        async with route.permit(Priority.LEADER) as first:
            pass
        with lanes.route(3):
            async with route.permit(Priority.FOLLOWER) as second:
                assert second is first


async def test_a_video_moves_when_its_endpoint_is_down_and_the_endpoint_gets_work_again() -> None:
    clock = Clock()
    lanes = lanes_of(2, clock)
    with lanes.route(3) as route:
        async with route.permit(Priority.LEADER) as first:
            lanes.record(first, CLOSED)
        async with route.permit(Priority.LEADER) as still:
            assert still is first, "one failure can be an idle connection"
            lanes.record(first, CLOSED)
        async with route.permit(Priority.LEADER) as other:
            assert other is not first
        assert first.title not in await lane_titles(lanes, 5)
        clock.seconds = OUTAGE_SECONDS
        assert first.permits.allowed == 1
        assert first.title in await lane_titles(lanes, 5)
        lanes.record(first, CLOSED)
        assert not first.is_up, "one failure is enough for an endpoint that was down"
        clock.seconds += OUTAGE_SECONDS
        assert first.is_up
        assert first.title in await lane_titles(lanes, 5)


async def test_the_only_endpoint_is_never_down() -> None:
    lanes = lanes_of(1, Clock())
    with lanes.route(3) as route:
        for _ in range(5):
            async with route.permit(Priority.LEADER) as lane:
                lanes.record(lane, CLOSED)
        assert lane.is_up
        assert lane.permits.allowed == FIRST_CONCURRENCY


@dataclass
class Pool:
    """Three servers of one model. The second one can be stopped and started again."""

    servers: list[ModelServer] = field(default_factory=list)
    stopped: ModelServer | None = None

    def __post_init__(self) -> None:
        self.servers = [ModelServer(delay_seconds=0.02).__enter__() for _ in range(3)]

    @property
    def spec(self) -> EndpointSpec:
        urls = [server.base_url for server in self.servers[:3]]
        limits = {"concurrency": 2}
        entry = {"name": "served", "base_url": urls, "profile": "vllm", "limits": limits}
        return EndpointSpec.model_validate(entry)

    def stop(self) -> None:
        self.stopped = self.servers[1]
        self.stopped.__exit__(None, None, None)

    def start_again(self) -> None:
        assert self.stopped is not None
        again = ModelServer(port=self.stopped.port, delay_seconds=0.02).__enter__()
        self.servers.append(again)

    def end(self) -> None:
        for server in self.servers:
            if server is not self.stopped:
                server.__exit__(None, None, None)

    @property
    def answered(self) -> Counter[str]:
        """Number of answers to each question."""
        return sum((server.answered for server in self.servers), Counter[str]())


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.end()


def ask(
    pool: Pool, journal_path: Path, count: int, actions: Mapping[int, Callable[[], None]]
) -> list[Response]:
    """Ask about `count` videos. Call an action once so many questions are answered."""
    left = sorted(actions.items())

    def on_progress(progress: AskingProgress) -> None:
        while left and progress.answered >= left[0][0]:
            left.pop(0)[1]()

    spec = pool.spec
    plan = RequestPlan(evaluation="test", limits=spec.limits)
    with Journal(journal_path) as journal:
        model = build_model(spec, {})
        responses = collect_now(videos(count), model, journal, plan, on_progress=on_progress)
        return list(responses)


def test_each_video_is_asked_at_one_endpoint_and_all_endpoints_are_used(
    pool: Pool, tmp_path: Path
) -> None:
    responses = ask(pool, tmp_path / "journal", 12, {})
    assert len(letters(responses)) == 36
    asked = [{question.split(",")[0] for question in s.answered} for s in pool.servers]
    assert sum(map(len, asked)) == 12, "each video is at one endpoint"
    assert all(asked)


def test_nothing_is_lost_or_answered_twice_when_an_endpoint_stops_and_starts_again(
    pool: Pool, tmp_path: Path
) -> None:
    actions = {30: pool.stop, 60: pool.start_again}
    responses = ask(pool, tmp_path / "journal", 100, actions)
    assert len(letters(responses)) == 300
    assert all(response.raw_output for response in responses)
    assert set(pool.answered.values()) == {1}
    assert pool.servers[3].answered, "it gets questions again"


def test_a_pool_is_the_same_model_as_each_of_its_endpoints(pool: Pool) -> None:
    spec = pool.spec
    one = EndpointSpec(name="served", base_url="http://elsewhere/v1", profile=spec.profile)
    assert build_model(spec, {}).identity == one.identity == build_model(one, {}).identity
    assert spec.fingerprint == one.fingerprint
