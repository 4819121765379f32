"""Reading a response: answers, reasoning, usage and failures."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.made_up_requests import request
from videomme_pipeline.models.endpoint.reply import read_reply, reported_cost, split_reasoning
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure, Usage

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
        (completion({"content": 5}), FailureKind.MALFORMED),
        (completion({"content": {"text": "B"}}), FailureKind.MALFORMED),
        (completion({"content": [{"type": "text", "text": 5}]}), FailureKind.MALFORMED),
        (
            completion({"content": [{"type": "text", "text": {"value": "B"}}]}),
            FailureKind.MALFORMED,
        ),
        (completion({"content": "\0"}), FailureKind.EMPTY),
        (completion({"content": "\u200b\n"}), FailureKind.EMPTY),
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


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
DETAILS = st.fixed_dictionaries({}, optional={"cached_tokens": ANYTHING}) | ANYTHING
USAGE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": ANYTHING | st.integers(0, 2**64),
        "completion_tokens": ANYTHING | st.integers(0, 2**64),
        "prompt_tokens_details": DETAILS,
    },
)
CONTENT = st.text(max_size=8) | st.lists(
    st.fixed_dictionaries({"text": st.text(max_size=8) | ANYTHING}), max_size=3
)
MESSAGE = st.fixed_dictionaries(
    {"content": CONTENT | ANYTHING},
    optional=dict.fromkeys(("refusal", "reasoning", "reasoning_content"), ANYTHING),
)
CHOICE = st.fixed_dictionaries({"message": MESSAGE}, optional={"finish_reason": ANYTHING})
COMPLETIONS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, min_size=1, max_size=2)},
    optional={
        "usage": USAGE | ANYTHING,
        "timings": ANYTHING,
        **dict.fromkeys(("model", "system_fingerprint", "service_tier"), ANYTHING),
    },
)
BODIES = st.binary(max_size=200) | (COMPLETIONS | ANYTHING).map(
    lambda value: json.dumps(value, ensure_ascii=True).encode()
)


def check_that_a_body_is_a_typed_reply_or_a_failure(content: bytes) -> None:
    try:
        reply = read_reply(content, spec(prices={"input": 1, "output": 2}), request())
    except ResponseFailure as failure:
        if failure.reply is None:
            return
        reply = failure.reply
    texts = (reply.text, reply.reasoning, reply.finish_reason, reply.reported_model)
    for text in (*texts, reply.system_fingerprint, reply.usage_json, reply.body):
        assert text is None or type(text) is str
        assert "\0" not in (text or "")
    for count in (reply.usage.prompt_tokens, reply.usage.completion_tokens):
        assert count is None or (type(count) is int and 0 <= count < 2**63)
    assert reply.cost_dollars is None or reply.cost_dollars >= 0


@given(BODIES)
@settings(max_examples=100)
def test_every_body_is_a_typed_reply_or_a_failure(content: bytes) -> None:
    check_that_a_body_is_a_typed_reply_or_a_failure(content)


@pytest.mark.slow
@given(BODIES)
@settings(max_examples=2_000, deadline=None)
def test_every_one_of_many_bodies_is_a_typed_reply_or_a_failure(content: bytes) -> None:
    check_that_a_body_is_a_typed_reply_or_a_failure(content)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", {"name": "m"}),
        ("system_fingerprint", ["fp"]),
        ("usage", "10 tokens"),
        ("usage", {"prompt_tokens": 2**63 + 5, "completion_tokens": -1}),
        ("usage", {"prompt_tokens": True, "prompt_tokens_details": [1]}),
        ("timings", 5),
    ],
)
def test_an_odd_field_that_the_answer_does_not_need_is_unknown(field: str, value: object) -> None:
    body = completion({"content": "B", "reasoning": ["hm"]}, **{field: value}, finish_reason=None)
    reply = read_reply(body, SPEC, request())
    assert (reply.text, reply.reasoning, reply.usage) == ("B", None, Usage())
    assert reply.reported_model == (None if field == "model" else "m-1")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (completion({"content": "A"}, finish_reason="error"), FailureKind.SERVER_ERROR),
        (completion({"content": "A"}, finish_reason="abort"), FailureKind.SERVER_ERROR),
        (
            orjson.dumps(
                {"choices": [{"message": {"content": "A"}, "error": {"code": 502, "message": "x"}}]}
            ),
            FailureKind.SERVER_ERROR,
        ),
        (
            completion({"content": "A"}, error={"code": 429, "message": "slow down"}),
            FailureKind.RATE_LIMITED,
        ),
        (completion({"content": "A"}, error="upstream error"), FailureKind.SERVER_ERROR),
        (completion({"content": "A"}, error={"code": 429}), FailureKind.RATE_LIMITED),
        (
            b'{"choices": [{"message": {"content": "A"}, "error": {"code": 502}}]}',
            FailureKind.SERVER_ERROR,
        ),
        (b'{"error": {"code": 429}}', FailureKind.RATE_LIMITED),
        (
            b'{"choices": [{"message": {"content": "A"}, "error": "upstream error"}]}',
            FailureKind.SERVER_ERROR,
        ),
        (b'{"error": {"code": 429, "message": "slow down"}}', FailureKind.RATE_LIMITED),
        (
            b'{"error": {"code": "rate_limit_exceeded", "message": "slow down"}}',
            FailureKind.RATE_LIMITED,
        ),
    ],
)
def test_a_reply_that_reports_its_own_failure_is_no_answer(
    content: bytes, kind: FailureKind
) -> None:
    with pytest.raises(ResponseFailure) as caught:
        read_reply(content, SPEC, request())
    assert caught.value.kind is kind
    assert caught.value.kind.is_transient


def test_an_answer_with_an_unknown_finish_reason_is_stored_with_the_reason() -> None:
    reply = read_reply(completion({"content": "A"}, finish_reason="paused"), SPEC, request())
    assert (reply.text, reply.finish_reason, reply.warning) == ("A", "paused", None)


def test_nul_characters_are_removed() -> None:
    reply = read_reply(completion({"content": "\0B\0", "reasoning": "a\0b"}), SPEC, request())
    assert (reply.text, reply.reasoning) == ("B", "ab")


def test_a_byte_order_mark_is_ignored() -> None:
    assert read_reply(b"\xef\xbb\xbf" + completion({"content": "B"}), SPEC, request()).text == "B"


@pytest.mark.parametrize(
    ("headers", "cost"),
    [
        ({"x-litellm-response-cost": "0.00125"}, 0.00125),
        ({"x-litellm-response-cost": "None"}, None),
        ({"x-litellm-response-cost": "-1"}, None),
        ({}, None),
    ],
)
def test_the_cost_that_a_proxy_reports_is_read(headers: dict[str, str], cost: float | None) -> None:
    assert reported_cost(headers) == cost
