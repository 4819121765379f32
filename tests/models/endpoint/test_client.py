"""One request to a real local endpoint, and its errors."""

import socket

import pytest

from tests.support.made_up_requests import request
from tests.support.model_server import Fault, ModelServer, always, first_time
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint import client, served
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

SPEC = EndpointSpec(name="served")


def spec(**values: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "served", **values})


async def test_a_server_that_never_answers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "SILENT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        model = OpenAICompatibleModel(spec(base_url=f"http://127.0.0.1:{server.getsockname()[1]}"))
        for _ in range(2):
            with pytest.raises(ResponseFailure, match="does not answer") as raised:
                await model.respond(request())
            assert raised.value.shows_no_model
        await model.close()


async def test_a_server_that_has_answered_may_be_silent_while_it_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ModelServer(faults=first_time(Fault.CLOSED_BEFORE_BODY)) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url))
        with pytest.raises(ResponseFailure):
            await model.respond(request())
        monkeypatch.setattr(client, "is_silent", lambda *_: True)
        assert (await model.respond(request())).text
        await model.close()
        with pytest.raises(ResponseFailure, match="does not answer"):
            await model.respond(request())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.UNAUTHORIZED, "SERVED_KEY"),
        (Fault.UNKNOWN_MODEL, "base_url"),
        (Fault.NO_CREDIT, "credit"),
    ],
)
async def test_errors_that_end_the_evaluation_say_what_to_do(fault: Fault, words: str) -> None:
    with ModelServer(faults=always(fault)) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url, api_key_env="SERVED_KEY"))
        with pytest.raises(ModelError, match=words):
            await model.respond(request())
        await model.close()
    assert server.request_count == 1


async def test_a_rejected_request_is_not_retried_and_its_error_has_the_reason() -> None:
    with ModelServer(faults=always(Fault.BAD_REQUEST)) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url))
        with pytest.raises(ResponseFailure, match="unknown parameter") as raised:
            await model.respond(request())
        await model.close()
    assert raised.value.kind is FailureKind.REJECTED
    assert not raised.value.kind.is_transient


async def test_frames_that_the_endpoint_dropped_are_detected() -> None:
    with ModelServer(image_limit=32, tokens_per_image=258) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url, tokens_per_frame=258))
        complete = await model.respond(request(frames=32))
        dropped = await model.respond(request(frames=64))
        await model.close()
    assert complete.warning is None
    assert dropped.warning is not None
    assert "64 frames" in dropped.warning


async def test_a_model_without_a_rule_must_report_a_token_per_frame() -> None:
    with ModelServer(image_limit=0) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url))
        reply = await model.respond(request(frames=64))
        await model.close()
    assert reply.warning is not None


async def test_a_prompt_that_cannot_fit_is_not_sent() -> None:
    with ModelServer(max_model_len=1000) as server:
        model = OpenAICompatibleModel(
            spec(profile="vllm", base_url=server.base_url, tokens_per_frame=100)
        )
        await model.respond(request(frames=9))
        asked = server.request_count
        with pytest.raises(ResponseFailure, match="at most 9 frames of this size fit") as raised:
            await model.respond(request(frames=64))
        await model.close()
    assert raised.value.kind is FailureKind.TOO_LARGE
    assert server.request_count == asked


async def test_the_headers_contain_the_key_and_the_length() -> None:
    with ModelServer() as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url), api_key="secret")
        await model.respond(request())
        await model.close()
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer secret"
    assert int(headers["content-length"]) == server.requests[0].body_bytes
    assert "transfer-encoding" not in headers


@pytest.mark.parametrize(
    ("image_limit", "problem"),
    [(None, None), (4, "8 frames of 320 × 240 pixels need 680 tokens")],
)
async def test_the_tokens_of_the_text_show_how_many_frames_arrived(
    image_limit: int | None, problem: str | None
) -> None:
    with ModelServer(image_limit=image_limit) as server:
        model = OpenAICompatibleModel(
            spec(profile="vllm", base_url=server.base_url, tokens_per_frame=85)
        )
        reply = await model.respond(request(frames=8))
        await model.close()
    assert reply.usage.prompt_tokens is not None
    assert reply.usage.text_tokens == reply.usage.prompt_tokens - (image_limit or 8) * 85
    assert (reply.warning is None) == (problem is None)
    assert problem is None or problem in (reply.warning or "")
