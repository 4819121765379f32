"""The text of each question is counted by a request without frames, once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.made_up_requests import request, videos
from tests.support.model_server import ModelServer
from videomme_pipeline.models.endpoint import client
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Schedule
from videomme_pipeline.models.video_llm import Reply, Request
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan

FRAME_TOKENS = 85
PRICED: dict[str, object] = {"prices": {"input": 1.0, "output": 1.0}}


def model_at(server: ModelServer, **values: object) -> OpenAICompatibleModel:
    entry = {"name": "served", "base_url": server.base_url, "tokens_per_frame": FRAME_TOKENS}
    return OpenAICompatibleModel(EndpointSpec.model_validate({**entry, **values}))


async def ask(server: ModelServer, example: Request, **values: object) -> Reply:
    model = model_at(server, **values)
    try:
        return await model.respond(example)
    finally:
        await model.close()


def pictures_of(body: Mapping[str, Any]) -> int:
    return sum(part["type"] == "image_url" for part in body["messages"][-1]["content"])


def bodies(server: ModelServer, *, texts: bool) -> list[dict[str, Any]]:
    """The bodies with texts alone, or those with pictures."""
    return [item.body for item in server.requests if (pictures_of(item.body) == 0) is texts]


@pytest.mark.parametrize("profile", ["vllm", "sglang", "llama_cpp", "ollama", "generic"])
async def test_a_text_is_counted_with_everything_but_the_frames(profile: str) -> None:
    example = request(frames=8, max_tokens=64, temperature=0.5)
    with ModelServer() as server:
        reply = await ask(server, example, profile=profile, extra_body={"keep_alive": 60})
    (text,), (question,) = bodies(server, texts=True), bodies(server, texts=False)
    assert reply.usage.text_tokens == (reply.usage.prompt_tokens or 0) - 8 * FRAME_TOKENS
    assert (text.pop("max_tokens"), question.pop("max_tokens")) == (1, 64)
    assert text.pop("messages")[-1]["content"] == question.pop("messages")[-1]["content"][8:]
    assert text == question


async def test_texts_are_not_counted_if_that_costs_money_or_proves_nothing() -> None:
    silent: list[dict[str, object]] = [
        PRICED,
        {"limits": {"requests_per_minute": 1e6}},
        {"count_texts": False},
        {"tokens_per_frame": None},
        {"tokens_per_frame": None, "family": "claude", "count_texts": True},
        {"tokens_per_frame": None, "family": "gpt-4o", "count_texts": True},
    ]
    with ModelServer() as server:
        for values in silent:
            reply = await ask(server, request(frames=8), **values)
            assert reply.usage.text_tokens is None
        await ask(server, request(frames=0))
    assert server.request_count == len(silent) + 1


async def test_the_cost_of_counting_is_part_of_the_first_answer() -> None:
    example = request(frames=8)
    with ModelServer() as server:
        unproven = await ask(server, example, **PRICED)
        model = model_at(server, count_texts=True, **PRICED)
        first, second = [await model.respond(example) for _ in range(2)]
        await model.close()
    assert first.usage.text_tokens is not None
    assert unproven.cost_dollars is not None
    more = (first.usage.text_tokens + 3) * 1e-6
    assert first.cost_dollars == pytest.approx(unproven.cost_dollars + more)
    assert second.cost_dollars == pytest.approx(unproven.cost_dollars)
    assert len(bodies(server, texts=True)) == 1


@pytest.mark.parametrize("failures", [1, 9])
async def test_a_failed_count_is_tried_again_after_the_answer(failures: int) -> None:
    tries = 0

    def refuse(body: Mapping[str, Any]) -> str | None:
        nonlocal tries
        tries += not pictures_of(body)
        return "no text alone" if not pictures_of(body) and tries <= failures else None

    with ModelServer(check=refuse) as server:
        reply = await ask(server, request(frames=8))
    assert tries == 2
    assert reply.text
    assert (reply.usage.text_tokens is None) == (failures > 1)


async def test_an_answer_does_not_wait_long_for_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_COUNT_SECONDS", 0.01)
    example = request(frames=8)

    async def never(_: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    counts = client.TextCounts(never)
    assert await counts.reply_to(example) is None
    counts.close()


def test_the_texts_of_a_video_are_counted_before_the_second_question(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", repeats=2, schedule=Schedule.LEADER_FOLLOWER)
    with ModelServer() as server, Journal(tmp_path / "journal") as journal:
        requests = videos(1, questions=3, frames=8)
        responses = list(collect(requests, model_at(server), journal, plan))
    assert len(responses) == 6
    assert None not in {response.usage.text_tokens for response in responses}
    with_pictures = [pictures_of(item.body) > 0 for item in server.requests]
    assert sum(with_pictures) == 6
    assert len(with_pictures) == 6 + 3
    assert sum(with_pictures[:4]) == 1
