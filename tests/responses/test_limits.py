"""Limits of requests: in flight, per minute, and in US dollars."""

import asyncio
import time

import pytest

from videomme_pipeline.errors import CostLimitError
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.responses.limits import FIRST_CONCURRENCY, Budget, ConcurrencyLimit


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_fixed_concurrency_never_changes() -> None:
    limit = ConcurrencyLimit(Limits(concurrency=2), Clock())
    limit.overloaded(None)
    limit.answered()
    assert limit.allowed == 2


async def test_adaptive_concurrency_doubles_until_an_overload_and_then_grows_slowly() -> None:
    clock = Clock()
    limit = ConcurrencyLimit(Limits(max_concurrency=64), clock)

    async def round_trip() -> None:
        """Record one answer per allowed request, with the limit reached."""
        allowed = limit.allowed
        for _ in range(allowed - limit.in_flight):
            await limit.acquire(is_follower=False)
        for _ in range(allowed):
            limit.answered()
            limit.in_flight = limit.allowed  # the next question takes the free place

    assert limit.allowed == FIRST_CONCURRENCY
    await round_trip()
    assert limit.allowed == 2 * FIRST_CONCURRENCY
    limit.overloaded(None)
    limit.overloaded(None)
    assert limit.allowed == FIRST_CONCURRENCY
    clock.seconds = 2.0
    limit.overloaded(None)
    assert limit.allowed == FIRST_CONCURRENCY // 2
    limit.in_flight = limit.allowed
    await round_trip()
    assert limit.allowed in (FIRST_CONCURRENCY // 2, FIRST_CONCURRENCY // 2 + 1)


async def test_concurrency_does_not_grow_while_its_limit_is_not_reached() -> None:
    limit = ConcurrencyLimit(Limits(), Clock())
    for _ in range(100):
        limit.answered()
    assert limit.allowed == FIRST_CONCURRENCY


async def test_followers_are_admitted_before_leaders() -> None:
    limit = ConcurrencyLimit(Limits(concurrency=1), asyncio.get_running_loop().time)
    await limit.acquire(is_follower=False)
    order: list[str] = []

    async def wait(name: str, *, is_follower: bool) -> None:
        await limit.acquire(is_follower=is_follower)
        order.append(name)
        limit.release()

    waiting = [
        asyncio.create_task(wait("leader", is_follower=False)),
        asyncio.create_task(wait("follower", is_follower=True)),
    ]
    await asyncio.sleep(0)
    limit.release()
    await asyncio.gather(*waiting)
    assert order == ["follower", "leader"]


async def test_a_cancelled_wait_does_not_count() -> None:
    limit = ConcurrencyLimit(Limits(concurrency=1), asyncio.get_running_loop().time)
    await limit.acquire(is_follower=False)
    waiting = asyncio.create_task(limit.acquire(is_follower=False))
    await asyncio.sleep(0)
    limit.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await limit.acquire(is_follower=False)


async def test_a_retry_after_delays_every_request() -> None:
    limit = ConcurrencyLimit(Limits(concurrency=4), asyncio.get_running_loop().time)
    limit.overloaded(0.2)
    began = time.monotonic()
    await limit.acquire(is_follower=True)
    assert time.monotonic() - began >= 0.2


async def test_a_pause_ends_after_the_time_that_a_question_may_take() -> None:
    limit = ConcurrencyLimit(Limits(deadline_seconds=0.2), asyncio.get_running_loop().time)
    limit.overloaded(86_400.0)
    assert limit.pause_seconds == 0.2
    await asyncio.wait_for(limit.acquire(is_follower=True), timeout=10)
    assert limit.pause_seconds == 0.0


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


async def test_a_request_of_unknown_cost_counts_as_the_most_expensive_request() -> None:
    budget = Budget(1.0, spent_dollars=0.0)
    await budget.reserve()
    await budget.charge(0.4, was_sent=True)
    await budget.reserve()
    await budget.charge(None, was_sent=True)
    assert budget.spent_dollars == pytest.approx(0.8)
