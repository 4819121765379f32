"""Reading a response: answers, reasoning, usage and failures."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_requests import request
from videomme_pipeline.models.openai.reply import (
    read_reply,
    retry_after_seconds,
    split_reasoning,
)
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure

SPEC = EndpointSpec(name="served")


def spec(**values: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "served", **values})


def completion(message: dict[str, Any], **others: object) -> bytes:
    choice = {"message": message, "finish_reason": others.pop("finish_reason", "stop")}
    return orjson.dumps({"choices": [choice], "model": "m-1", **others})


def test_usage_is_stored_unchanged_and_priced() -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    model = spec(prices={"input": 10, "output": 100, "cached_input": 1, "cache_write": 12.5})
    reply = read_reply(completion({"content": "B"}, usage=usage), model, request())
    assert json.loads(reply.usage_json or "") == usage
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (
        1000,
        400,
        4,
    )
    assert reply.cost_dollars == pytest.approx((500 * 10 + 400 + 100 * 12.5 + 1000) / 1e6)


def test_llama_cpp_reports_cached_tokens_in_another_field() -> None:
    body = completion(
        {"content": "B"},
        usage={"prompt_tokens": 10, "completion_tokens": 1},
        timings={"cache_n": 7},
    )
    assert read_reply(body, spec(profile="llama_cpp"), request()).usage.cached_tokens == 7


@pytest.mark.parametrize(
    ("written", "finish_reason", "answer", "thought"),
    [
        ("<think>a or b</think>B", "stop", "B", "a or b"),
        ("a or b</think>\n\nB", "stop", "B", "a or b"),
        ("<think>a or", "length", "", "a or"),
        ("B", "stop", "B", None),
        ("I <think> so", "stop", "I <think> so", None),
    ],
)
def test_reasoning_in_the_text_is_separated(
    written: str, finish_reason: str, answer: str, thought: str | None
) -> None:
    assert split_reasoning(written, finish_reason) == (answer, thought)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_fields_are_read(name: str) -> None:
    reply = read_reply(completion({"content": "B", name: "hm"}), SPEC, request())
    assert (reply.text, reply.reasoning) == ("B", "hm")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", FailureKind.MALFORMED),
        (b"[]", FailureKind.MALFORMED),
        (b'{"error": "overloaded"}', FailureKind.MALFORMED),
        (b'{"choices": []}', FailureKind.MALFORMED),
        (completion({"content": " "}), FailureKind.EMPTY),
        (completion({"content": None}, finish_reason="length"), FailureKind.TRUNCATED),
        (completion({"content": "<think>so"}, finish_reason="length"), FailureKind.TRUNCATED),
        (completion({"content": "B"}, finish_reason="content_filter"), FailureKind.CONTENT_FILTER),
        (completion({"refusal": "no"}), FailureKind.REFUSED),
    ],
)
def test_a_missing_answer_is_a_failure_with_a_kind(content: bytes, kind: FailureKind) -> None:
    with pytest.raises(ResponseFailure) as raised:
        read_reply(content, SPEC, request())
    assert raised.value.kind is kind


@given(st.binary(max_size=200))
def test_every_body_is_read_as_a_reply_or_a_failure(content: bytes) -> None:
    try:
        reply = read_reply(content, SPEC, request())
    except ResponseFailure:
        return
    assert isinstance(reply, Reply)


def test_every_form_of_retry_after_is_read() -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after_seconds({"retry-after": "300"}, now) == 300
    assert retry_after_seconds({"retry-after-ms": "1500", "retry-after": "9"}, now) == 1.5
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:02:00 GMT"}, now) == 120
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, now) == 0
    assert retry_after_seconds({"retry-after": "soon"}, now) is None
    assert retry_after_seconds({}, now) is None
