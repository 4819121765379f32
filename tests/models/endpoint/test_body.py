"""The body of a request: order of its parts, encodings and limits."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_requests import frame_set, request
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.body import (
    CHUNK_BYTES,
    ENCODED_BYTES_KEPT,
    RecentFrames,
    request_body,
)
from videomme_pipeline.models.endpoint.reply import frames_warning, read_reply
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure

SPEC = EndpointSpec(name="served")


def spec(**values: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "served", **values})


def sent(model: EndpointSpec, example: Request) -> dict[str, Any]:
    """The parsed body of the request."""
    body = b"".join(request_body(model, example).chunks())
    return dict(json.loads(body))


def completion(message: dict[str, Any], **others: object) -> bytes:
    choice = {"message": message, "finish_reason": others.pop("finish_reason", "stop")}
    return orjson.dumps({"choices": [choice], "model": "m-1", **others})


def test_frames_are_sent_first_as_images_and_the_question_last() -> None:
    example = request(frames=3)
    content = sent(SPEC, example)["messages"][0]["content"]
    assert [part["type"] for part in content] == ["image_url"] * 3 + ["text"]
    assert content[-1]["text"] == example.prompt.text
    for part, frame in zip(content, example.frames.frames, strict=False):
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
def test_a_body_is_valid_json_of_the_announced_length(
    pictures: list[bytes], text: str, system: str | None
) -> None:
    example = request(frames=len(pictures))
    frames = tuple(
        replace(frame, picture=picture)
        for frame, picture in zip(example.frames.frames, pictures, strict=True)
    )
    example = replace(
        example,
        frames=replace(example.frames, frames=frames),
        prompt=replace(example.prompt, text=text, system=system),
    )
    body = request_body(SPEC, example)
    chunks = list(body.chunks())
    assert sum(map(len, chunks)) == body.size
    assert all(len(chunk) < CHUNK_BYTES + 1_000_000 for chunk in chunks)
    read = orjson.loads(b"".join(chunks))
    assert read["messages"][-1]["content"][-1] == {"type": "text", "text": text}
    assert (read["messages"][0]["role"] == "system") == (system is not None)


async def test_a_body_can_be_sent_twice() -> None:
    body = request_body(SPEC, request(frames=4))

    async def read(chunks: AsyncIterator[bytes]) -> bytes:
        return b"".join([chunk async for chunk in chunks])

    uploads = asyncio.Semaphore(1)
    assert await read(body.stream(uploads)) == await read(body.stream(uploads))


@pytest.mark.parametrize("before", ["", "at first"])
def test_texts_between_frames_are_sent_in_their_order(before: str) -> None:
    example = request(frames=2)
    prompt = replace(example.prompt, before_frames=before, after_frame=("hello", ""))
    content = sent(SPEC, replace(example, prompt=prompt))["messages"][0]["content"]
    kinds = [part.get("text", part["type"]) for part in content]
    first = [before] if before else []
    assert kinds == [*first, "image_url", "hello", "image_url", example.prompt.text]


def test_a_vllm_video_has_every_frame_with_its_real_time() -> None:
    example = request(frames=40)
    body = sent(spec(profile="vllm", frames_as="frame_sequence"), example)
    content = body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["video_url", "text"]
    frames = content[0]["video_url"]["url"].removeprefix("data:video/jpeg;base64,").split(",")
    assert [base64.b64decode(f) for f in frames] == [f.picture for f in example.frames.frames]
    options = body["media_io_kwargs"]["video"]
    assert options["num_frames"] == -1
    times = [index / options["fps"] for index in options["frames_indices"]]
    assert times == pytest.approx([frame.pts_seconds for frame in example.frames.frames])


def test_text_between_frames_that_are_sent_as_video_is_an_error() -> None:
    example = request(frames=2)
    for texts in ({"after_frame": ("hello", "")}, {"before_frames": "hello"}):
        prompt = replace(example.prompt, **texts)
        with pytest.raises(ModelError, match="frames_as: images"):
            request_body(
                spec(profile="vllm", frames_as="frame_sequence"), replace(example, prompt=prompt)
            )


@pytest.mark.parametrize(
    ("profile", "fields"),
    [
        ("vllm", {"structured_outputs": {"choice": ["A", "B", "C", "D"]}}),
        ("sglang", {"regex": "[ABCD]"}),
        (
            "lmdeploy",
            {"response_format": {"type": "regex_schema", "regex_schema": "[ABCD]"}},
        ),
        ("llama_cpp", {"grammar": 'root ::= "A" | "B" | "C" | "D"'}),
    ],
)
def test_each_profile_constrains_answers_with_its_own_field(
    profile: str, fields: dict[str, object]
) -> None:
    body = sent(spec(profile=profile), request(constrain_answer=True))
    assert fields.items() <= body.items()
    assert "guided_choice" not in body


def test_an_answer_constrained_by_a_schema_is_read_as_its_letter() -> None:
    example = request(constrain_answer=True)
    model = spec(profile="openai")
    schema = sent(model, example)["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["A", "B", "C", "D"]
    reply = read_reply(completion({"content": '{"answer":"C"}'}), model, example)
    assert reply.text == "C"


def test_constraining_answers_needs_a_profile_that_supports_it() -> None:
    with pytest.raises(ModelError, match="constrain_answer: false"):
        request_body(spec(profile="generic"), request(constrain_answer=True))


def test_the_token_limit_has_the_name_that_the_profile_uses() -> None:
    assert sent(spec(profile="openai"), request(max_tokens=7))["max_completion_tokens"] == 7
    assert sent(spec(profile="vllm"), request(max_tokens=7))["max_tokens"] == 7
    assert "max_tokens" not in sent(SPEC, request(max_tokens=None))


def test_extra_fields_service_tier_and_detail_are_sent() -> None:
    model = spec(
        profile="openai",
        service_tier="flex",
        image_detail="low",
        extra_body={"verbosity": "low"},
    )
    body = sent(model, request(frames=2))
    assert (body["service_tier"], body["verbosity"]) == ("flex", "low")
    _, last, _ = body["messages"][0]["content"]
    assert last["image_url"]["detail"] == "low"
    other = sent(model, request(2, frames=2))
    assert body["prompt_cache_key"] != other["prompt_cache_key"]


def test_too_many_frames_or_bytes_are_never_sent() -> None:
    with pytest.raises(ResponseFailure, match="3 frames and served accepts 2") as images:
        request_body(spec(max_images=2), request(frames=3))
    with pytest.raises(ResponseFailure, match="bytes and served accepts 1,000") as size:
        request_body(spec(max_body_bytes=1000), request(frames=3))
    assert {images.value.kind, size.value.kind} == {FailureKind.TOO_LARGE}
    assert not FailureKind.TOO_LARGE.is_transient


def test_sound_is_sent_after_the_frames_and_before_the_question() -> None:
    example = request(frames=2)
    example = replace(example, frames=replace(example.frames, sound=b"RIFF"))
    content = sent(spec(profile="vllm", audio=True), example)["messages"][0]["content"]
    kinds = [part["type"] for part in content]
    assert kinds == ["image_url", "image_url", "input_audio", "text"]
    audio = content[2]["input_audio"]
    assert (base64.b64decode(audio["data"]), audio["format"]) == (b"RIFF", "wav")
    assert len(sent(spec(profile="vllm"), example)["messages"][0]["content"]) == 3


def test_a_video_without_sound_is_reported_if_the_model_should_hear_it() -> None:
    model, example = spec(profile="vllm", audio=True), request(frames=2)
    assert "no sound" in (frames_warning(model, example, Reply(text="A")) or "")
    heard = replace(example, frames=replace(example.frames, sound=b"RIFF"))
    assert frames_warning(model, heard, Reply(text="A")) is None


def test_audio_is_part_of_the_identity_and_needs_a_profile_that_takes_it() -> None:
    assert spec(profile="vllm").identity["audio"] is False
    assert spec(profile="vllm", audio=True).identity["audio"] is True
    with pytest.raises(ValueError, match="ollama does not take audio"):
        spec(profile="ollama", audio=True)


def test_a_question_without_frames_is_only_text() -> None:
    example = request(frames=0)
    assert frame_set(1, 0) == example.frames
    content = sent(spec(profile="vllm", frames_as="frame_sequence"), example)["messages"][0][
        "content"
    ]
    assert [part["type"] for part in content] == ["text"]


def test_questions_of_one_video_share_the_encoded_frames() -> None:
    first, second = request(1, 1, frames=8), request(1, 2, frames=8)
    recent = RecentFrames()
    same_video = type(second)(
        question=second.question,
        prompt=second.prompt,
        frames=first.frames,
        generation=second.generation,
    )
    part = recent.part_of(SPEC, first)
    assert recent.part_of(SPEC, same_video) is part
    bodies = [list(request_body(SPEC, example, part).chunks()) for example in (first, same_video)]
    assert all(a is b for a, b in zip(bodies[0][1:-1], bodies[1][1:-1], strict=True))
    assert recent.part_of(SPEC, second) is not part, (
        "the frames of the same video, read a second time"
    )


def test_the_size_of_the_kept_frames_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videomme_pipeline.models.endpoint.body.ENCODED_BYTES_KEPT", 10_000)
    assert ENCODED_BYTES_KEPT > 10_000
    recent = RecentFrames()
    requests = [request(video, frames=4) for video in range(10)]
    parts = [recent.part_of(SPEC, item) for item in requests]
    assert recent.bytes <= 10_000
    assert recent.part_of(SPEC, requests[-1]) is parts[-1]
    assert recent.part_of(SPEC, requests[0]) is not parts[0]
