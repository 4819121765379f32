"""When a request may go out: at once, per minute, for the money."""

import asyncio
import time

import pytest

from videomme_pipeline.errors import CostLimitError
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.responses.admission import (
    FIRST_CONCURRENCY,
    Budget,
    Pace,
    Permits,
    Priority,
)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_fixed_concurrency_stays_whatever_happens() -> None:
    permits = Permits(Limits(concurrency=2), Clock())
    permits.overloaded(None)
    permits.answered()
    assert permits.allowed == 2


async def test_adaptive_concurrency_doubles_halves_and_then_creeps() -> None:
    clock = Clock()
    permits = Permits(Limits(max_concurrency=64), clock)

    async def round_trip() -> None:
        """As many answers as are allowed, all permits in use."""
        held = permits.allowed
        for _ in range(held - permits.in_flight):
            await permits.acquire(Priority.LEADER)
        for _ in range(held):
            permits.answered()
            permits.in_flight = permits.allowed  # the next question takes what was given back

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


async def test_it_does_not_grow_while_permits_are_left_over() -> None:
    permits = Permits(Limits(), Clock())
    for _ in range(100):
        permits.answered()
    assert permits.allowed == FIRST_CONCURRENCY


async def test_ready_followers_go_before_new_leaders() -> None:
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


async def test_whoever_stops_waiting_gives_its_permit_back() -> None:
    permits = Permits(Limits(concurrency=1), asyncio.get_running_loop().time)
    await permits.acquire(Priority.LEADER)
    waiting = asyncio.create_task(permits.acquire(Priority.LEADER))
    await asyncio.sleep(0)
    permits.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(permits.acquire(Priority.LEADER), 1)


async def test_all_requests_wait_when_one_is_told_to_come_back_later() -> None:
    permits = Permits(Limits(concurrency=4), asyncio.get_running_loop().time)
    permits.overloaded(0.2)
    began = time.monotonic()
    await permits.acquire(Priority.FOLLOWER)
    assert time.monotonic() - began >= 0.2


async def test_tokens_a_minute_are_kept_by_what_requests_really_take() -> None:
    pace = Pace(Limits(tokens_per_minute=6000))
    await pace.wait(expected_tokens=1)
    pace.took(5000)
    await pace.wait(expected_tokens=1)
    began = time.monotonic()
    waiting = asyncio.create_task(pace.wait(expected_tokens=1))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    waiting.cancel()
    assert time.monotonic() - began < 5


async def test_the_first_request_goes_alone_to_learn_the_price() -> None:
    budget = Budget(1.0, spent_dollars=0.0)
    await budget.reserve()
    second = asyncio.create_task(budget.reserve())
    done, _ = await asyncio.wait([second], timeout=0.05)
    assert not done
    await budget.charge(0.3, was_sent=True)
    await asyncio.wait_for(second, 1)
    await asyncio.wait_for(budget.reserve(), 1)
    third = asyncio.create_task(budget.reserve())
    await budget.charge(0.4, was_sent=True)
    await budget.charge(0.3, was_sent=True)
    with pytest.raises(CostLimitError):
        await asyncio.wait_for(third, 1)
    assert budget.spent_dollars == pytest.approx(1.0)


async def test_what_was_spent_before_counts() -> None:
    with pytest.raises(CostLimitError, match="stopped at"):
        await Budget(1.0, spent_dollars=1.0).reserve()


async def test_a_request_of_unknown_cost_counts_as_the_dearest() -> None:
    budget = Budget(1.0, spent_dollars=0.0)
    await budget.reserve()
    await budget.charge(0.4, was_sent=True)
    await budget.reserve()
    await budget.charge(None, was_sent=True)
    assert budget.spent_dollars == pytest.approx(0.8)
