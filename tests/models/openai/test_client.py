"""What is sent to an endpoint, and what is read out of what it sends back."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_requests import frame_set, request
from tests.support.model_server import Fault, ModelServer, always
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.openai.body import CHUNK_BYTES, request_body
from videomme_pipeline.models.openai.client import OpenAICompatibleModel
from videomme_pipeline.models.openai.reply import (
    read_reply,
    retry_after_seconds,
    split_reasoning,
)
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure

SPEC = EndpointSpec(name="served")


def spec(**values: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "served", **values})


def sent(model: EndpointSpec, asked: Request) -> dict[str, Any]:
    """The body as the endpoint parses it."""
    body = b"".join(request_body(model, asked).chunks())
    return dict(json.loads(body))


def completion(message: dict[str, Any], **others: object) -> bytes:
    choice = {"message": message, "finish_reason": others.pop("finish_reason", "stop")}
    return orjson.dumps({"choices": [choice], "model": "m-1", **others})


def test_frames_stand_first_as_images_and_the_question_last() -> None:
    asked = request(frames=3)
    content = sent(SPEC, asked)["messages"][0]["content"]
    assert [part["type"] for part in content] == ["image_url"] * 3 + ["text"]
    assert content[-1]["text"] == asked.prompt.text
    for part, frame in zip(content, asked.frames.frames, strict=False):
        kind, data = part["image_url"]["url"].split(",", 1)
        assert kind == "data:image/jpeg;base64"
        assert base64.b64decode(data) == frame.picture


def test_questions_of_one_video_share_their_prefix_byte_for_byte() -> None:
    bodies = [
        b"".join(request_body(SPEC, request(1, number, frames=8)).chunks()) for number in (1, 2)
    ]
    frames_end = bodies[0].index(b'{"type":"text"')
    assert bodies[0][:frames_end] == bodies[1][:frames_end]
    assert bodies[0] != bodies[1]


@given(
    st.lists(st.binary(max_size=700_000), max_size=4),
    st.text(max_size=50),
    st.none() | st.text(max_size=20),
)
def test_a_body_is_the_json_it_says_and_as_long_as_it_says(
    pictures: list[bytes], text: str, system: str | None
) -> None:
    asked = request(frames=len(pictures))
    frames = tuple(
        replace(frame, picture=picture)
        for frame, picture in zip(asked.frames.frames, pictures, strict=True)
    )
    asked = replace(
        asked,
        frames=replace(asked.frames, frames=frames),
        prompt=replace(asked.prompt, text=text, system=system),
    )
    body = request_body(SPEC, asked)
    chunks = list(body.chunks())
    assert sum(map(len, chunks)) == body.size
    assert all(len(chunk) < CHUNK_BYTES + 1_000_000 for chunk in chunks)
    read = orjson.loads(b"".join(chunks))
    assert read["messages"][-1]["content"][-1] == {"type": "text", "text": text}
    assert (read["messages"][0]["role"] == "system") == (system is not None)


async def test_a_body_can_be_sent_any_number_of_times() -> None:
    body = request_body(SPEC, request(frames=4))

    async def read(chunks: AsyncIterator[bytes]) -> bytes:
        return b"".join([chunk async for chunk in chunks])

    uploads = asyncio.Semaphore(1)
    assert await read(body.sent(uploads)) == await read(body.sent(uploads))


def test_text_after_a_frame_stands_right_after_it() -> None:
    asked = request(frames=2)
    asked = replace(asked, prompt=replace(asked.prompt, after_frame=("hello", "")))
    content = sent(SPEC, asked)["messages"][0]["content"]
    kinds = [part.get("text", part["type"]) for part in content]
    assert kinds == ["image_url", "hello", "image_url", asked.prompt.text]


def test_vllm_video_gets_every_frame_with_its_real_time() -> None:
    asked = request(frames=40)
    body = sent(spec(profile="vllm", frames_as="video"), asked)
    content = body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["video_url", "text"]
    frames = content[0]["video_url"]["url"].removeprefix("data:video/jpeg;base64,").split(",")
    assert [base64.b64decode(f) for f in frames] == [f.picture for f in asked.frames.frames]
    options = body["media_io_kwargs"]["video"]
    assert options["num_frames"] == -1
    times = [index / options["fps"] for index in options["frames_indices"]]
    assert times == pytest.approx([frame.pts_seconds for frame in asked.frames.frames])


def test_text_between_frames_has_no_place_in_a_video() -> None:
    asked = request(frames=2)
    asked = replace(asked, prompt=replace(asked.prompt, after_frame=("hello", "")))
    with pytest.raises(ModelError, match="frames_as: images"):
        request_body(spec(profile="vllm", frames_as="video"), asked)


async def test_frames_on_a_shared_disk_go_as_paths(tmp_path: Path) -> None:
    asked = request(frames=2)
    with ModelServer() as server:
        model = OpenAICompatibleModel(
            spec(
                profile="vllm",
                frames_as="files",
                shared_folder=tmp_path,
                base_url=server.base_url,
            )
        )
        await model.respond(asked)
        await model.close()
    parts = server.requests[0].body["messages"][0]["content"][:-1]
    paths = [Path(part["image_url"]["url"].removeprefix("file://")) for part in parts]
    assert [path.read_bytes() for path in paths] == [f.picture for f in asked.frames.frames]


@pytest.mark.parametrize(
    ("profile", "fields"),
    [
        ("vllm", {"structured_outputs": {"choice": ["A", "B", "C", "D"]}}),
        ("sglang", {"regex": "[ABCD]"}),
        ("llama_cpp", {"grammar": 'root ::= "A" | "B" | "C" | "D"'}),
    ],
)
def test_each_profile_constrains_the_answer_its_own_way(
    profile: str, fields: dict[str, object]
) -> None:
    body = sent(spec(profile=profile), request(constrain_answer=True))
    assert fields.items() <= body.items()
    assert "guided_choice" not in body


def test_a_schema_constrained_answer_is_its_letter() -> None:
    asked = request(constrain_answer=True)
    model = spec(profile="openai")
    schema = sent(model, asked)["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["A", "B", "C", "D"]
    reply = read_reply(completion({"content": '{"answer":"C"}'}), model, asked)
    assert reply.text == "C"


def test_a_profile_without_constraints_says_so() -> None:
    with pytest.raises(ModelError, match="constrain_answer: false"):
        request_body(spec(profile="generic"), request(constrain_answer=True))


def test_the_token_limit_has_the_profiles_own_name() -> None:
    assert sent(spec(profile="openai"), request(max_tokens=7))["max_completion_tokens"] == 7
    assert sent(spec(profile="vllm"), request(max_tokens=7))["max_tokens"] == 7
    assert "max_tokens" not in sent(SPEC, request(max_tokens=None))


def test_extra_fields_flex_and_cache_marks_are_sent() -> None:
    model = spec(
        profile="openai",
        service_tier="flex",
        cache_breakpoint=True,
        image_detail="low",
        extra_body={"verbosity": "low"},
    )
    body = sent(model, request(frames=2))
    assert (body["service_tier"], body["verbosity"]) == ("flex", "low")
    first, last, _ = body["messages"][0]["content"]
    assert "prompt_cache_breakpoint" not in first
    assert last["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert last["image_url"]["detail"] == "low"
    other = sent(model, request(2, frames=2))
    assert body["prompt_cache_key"] != other["prompt_cache_key"]


def test_too_many_frames_or_bytes_are_never_sent() -> None:
    with pytest.raises(ResponseFailure, match="3 frames and served takes 2") as images:
        request_body(spec(max_images=2), request(frames=3))
    with pytest.raises(ResponseFailure, match="bytes and served takes 1,000") as size:
        request_body(spec(max_body_bytes=1000), request(frames=3))
    assert {images.value.kind, size.value.kind} == {FailureKind.TOO_LARGE}
    assert not FailureKind.TOO_LARGE.may_pass


def test_usage_is_kept_raw_and_priced() -> None:
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


def test_llama_cpp_tells_cached_tokens_elsewhere() -> None:
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
def test_thoughts_in_the_text_are_set_apart(
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
def test_what_is_no_answer_is_a_failure_with_a_kind(content: bytes, kind: FailureKind) -> None:
    with pytest.raises(ResponseFailure) as raised:
        read_reply(content, SPEC, request())
    assert raised.value.kind is kind


@given(st.binary(max_size=200))
def test_no_body_breaks_the_reader(content: bytes) -> None:
    try:
        reply = read_reply(content, SPEC, request())
    except ResponseFailure:
        return
    assert isinstance(reply, Reply)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.UNAUTHORIZED, "SERVED_KEY"),
        (Fault.UNKNOWN_MODEL, "base_url"),
        (Fault.NO_CREDIT, "credit"),
    ],
)
async def test_errors_of_the_whole_endpoint_say_what_to_do(fault: Fault, words: str) -> None:
    with ModelServer(faults=always(fault)) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url, api_key_env="SERVED_KEY"))
        with pytest.raises(ModelError, match=words):
            await model.respond(request())
        await model.close()
    assert server.request_count == 1


async def test_a_rejected_request_is_final_and_says_why() -> None:
    with ModelServer(faults=always(Fault.BAD_REQUEST)) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url))
        with pytest.raises(ResponseFailure, match="unknown parameter") as raised:
            await model.respond(request())
        await model.close()
    assert raised.value.kind is FailureKind.REJECTED
    assert not raised.value.kind.may_pass


async def test_frames_that_the_endpoint_dropped_are_noticed() -> None:
    with ModelServer(image_limit=32, tokens_per_image=258) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url, tokens_per_frame=258))
        whole = await model.respond(request(frames=32))
        dropped = await model.respond(request(frames=64))
        await model.close()
    assert whole.warning is None
    assert dropped.warning is not None
    assert "64 frames" in dropped.warning


async def test_an_unknown_model_must_at_least_count_its_frames() -> None:
    with ModelServer(image_limit=0) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url))
        reply = await model.respond(request(frames=64))
        await model.close()
    assert reply.warning is not None


async def test_the_key_and_the_length_are_sent() -> None:
    with ModelServer() as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url), api_key="secret")
        await model.respond(request())
        await model.close()
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer secret"
    assert int(headers["content-length"]) == server.requests[0].body_bytes
    assert "transfer-encoding" not in headers


def test_retry_after_in_all_its_forms() -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after_seconds({"retry-after": "300"}, now) == 300
    assert retry_after_seconds({"retry-after-ms": "1500", "retry-after": "9"}, now) == 1.5
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:02:00 GMT"}, now) == 120
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, now) == 0
    assert retry_after_seconds({"retry-after": "soon"}, now) is None
    assert retry_after_seconds({}, now) is None


def test_a_blind_question_is_text_alone() -> None:
    asked = request(frames=0)
    assert frame_set(1, 0) == asked.frames
    content = sent(spec(profile="vllm", frames_as="video"), asked)["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text"]
