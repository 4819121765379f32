"""Limits of requests: in flight, per minute, and in US dollars."""

import asyncio
import time

import pytest

from videomme_pipeline.errors import CostLimitError
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure
from videomme_pipeline.responses.admission import (
    FIRST_CONCURRENCY,
    Admission,
    Budget,
    Pace,
    Permits,
    Priority,
)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_fixed_concurrency_never_changes() -> None:
    permits = Permits(Limits(concurrency=2), Clock())
    permits.overloaded(None)
    permits.answered()
    assert permits.allowed == 2


async def test_adaptive_concurrency_doubles_until_an_overload_and_then_grows_slowly() -> None:
    clock = Clock()
    permits = Permits(Limits(max_concurrency=64), clock)

    async def round_trip() -> None:
        """Record one answer per allowed request, with all permits in use."""
        allowed = permits.allowed
        for _ in range(allowed - permits.in_flight):
            await permits.acquire(Priority.LEADER)
        for _ in range(allowed):
            permits.answered()
            permits.in_flight = permits.allowed  # the next question takes the returned permit

    assert permits.allowed == FIRST_CONCURRENCY
    await round_trip()
    assert permits.allowed == 2 * FIRST_CONCURRENCY
    permits.overloaded(None)
    permits.overloaded(None)
    assert permits.allowed == FIRST_CONCURRENCY
    clock.seconds = 2.0
    permits.overloaded(None)
    assert permits.allowed == FIRST_CONCURRENCY // 2
    permits.in_flight = permits.allowed
    await round_trip()
    assert permits.allowed in (FIRST_CONCURRENCY // 2, FIRST_CONCURRENCY // 2 + 1)


async def test_concurrency_does_not_grow_while_permits_are_unused() -> None:
    permits = Permits(Limits(), Clock())
    for _ in range(100):
        permits.answered()
    assert permits.allowed == FIRST_CONCURRENCY


async def test_followers_are_admitted_before_leaders() -> None:
    permits = Permits(Limits(concurrency=1), asyncio.get_running_loop().time)
    await permits.acquire(Priority.LEADER)
    order: list[str] = []

    async def wait(name: str, priority: Priority) -> None:
        await permits.acquire(priority)
        order.append(name)
        permits.release()

    waiting = [
        asyncio.create_task(wait("leader", Priority.LEADER)),
        asyncio.create_task(wait("follower", Priority.FOLLOWER)),
    ]
    await asyncio.sleep(0)
    permits.release()
    await asyncio.gather(*waiting)
    assert order == ["follower", "leader"]


async def test_a_cancelled_wait_returns_its_permit() -> None:
    permits = Permits(Limits(concurrency=1), asyncio.get_running_loop().time)
    await permits.acquire(Priority.LEADER)
    waiting = asyncio.create_task(permits.acquire(Priority.LEADER))
    await asyncio.sleep(0)
    permits.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await permits.acquire(Priority.LEADER)


async def test_a_retry_after_delays_every_request() -> None:
    permits = Permits(Limits(concurrency=4), asyncio.get_running_loop().time)
    permits.overloaded(0.2)
    began = time.monotonic()
    await permits.acquire(Priority.FOLLOWER)
    assert time.monotonic() - began >= 0.2


async def test_a_pause_ends_after_the_time_that_a_question_may_take() -> None:
    permits = Permits(Limits(deadline_seconds=0.2), asyncio.get_running_loop().time)
    permits.overloaded(86_400.0)
    assert permits.pause_seconds == 0.2
    await asyncio.wait_for(permits.acquire(Priority.FOLLOWER), timeout=10)
    assert permits.pause_seconds == 0.0


async def test_one_absurd_token_count_does_not_slow_down_the_next_requests() -> None:
    pace = Pace(Limits(tokens_per_minute=6000))
    for tokens in (2**63 - 1, *[10] * 30):
        pace.record(tokens)
    for _ in range(10):
        await asyncio.wait_for(pace.wait(expected_tokens=1), timeout=10)


async def test_tokens_per_minute_count_the_reported_tokens() -> None:
    pace = Pace(Limits(tokens_per_minute=6000))
    await pace.wait(expected_tokens=1)
    pace.record(5000)
    await pace.wait(expected_tokens=1)
    waiting = asyncio.create_task(pace.wait(expected_tokens=1))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    waiting.cancel()


async def test_the_first_request_is_sent_alone_to_learn_its_cost() -> None:
    budget = Budget(1.0, spent_dollars=0.0)
    await budget.reserve()
    second = asyncio.create_task(budget.reserve())
    done, _ = await asyncio.wait([second], timeout=0.05)
    assert not done
    await budget.charge(0.3, was_sent=True)
    await second
    await budget.reserve()
    third = asyncio.create_task(budget.reserve())
    await budget.charge(0.4, was_sent=True)
    await budget.charge(0.3, was_sent=True)
    with pytest.raises(CostLimitError):
        await third
    assert budget.spent_dollars == pytest.approx(1.0)


async def test_costs_of_earlier_runs_count_against_the_budget() -> None:
    with pytest.raises(CostLimitError, match="stopped at"):
        await Budget(1.0, spent_dollars=1.0).reserve()


async def test_a_request_of_unknown_cost_counts_as_the_most_expensive_one() -> None:
    budget = Budget(1.0, spent_dollars=0.0)
    await budget.reserve()
    await budget.charge(0.4, was_sent=True)
    await budget.reserve()
    await budget.charge(None, was_sent=True)
    assert budget.spent_dollars == pytest.approx(0.8)


def admission(max_dollars: float | None = None) -> Admission:
    return Admission(Limits(), max_dollars=max_dollars, spent_dollars=0.0)


async def test_the_cost_of_a_failure_counts_against_the_budget() -> None:
    admitted = admission(max_dollars=1.0)
    async with admitted.slot(expected_tokens=1) as slot:
        refusal = Reply(text="", cost_dollars=0.7)
        slot.result = ResponseFailure(FailureKind.REFUSED, "no", reply=refusal)
    with pytest.raises(CostLimitError):
        async with admitted.slot(expected_tokens=1):
            raise AssertionError("a request above the budget was admitted")
