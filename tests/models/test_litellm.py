"""A real LiteLLM proxy in front of a local endpoint.

VIDEOMME_LITELLM is the folder of a virtual environment with `litellm[proxy]`.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.made_up_requests import request
from tests.support.model_server import ModelServer
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.served import get
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure
from videomme_pipeline.processes.lifeline import ProcessGroup
from videomme_pipeline.serving.replicas import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.engine]

KEY = "sk-of-the-proxy"
INPUT_DOLLARS, OUTPUT_DOLLARS = 2e-6, 5e-6
"""Prices of a token in the configuration of the proxy."""
CONTEXT = 4_000
START_SECONDS = 180


@pytest.fixture(scope="module")
def backend() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(backend: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a proxy with one model, `served`."""
    environment = os.environ.get("VIDEOMME_LITELLM")
    if environment is None or not Path(environment, "bin", "litellm").exists():
        pytest.skip("VIDEOMME_LITELLM does not name an environment with LiteLLM")
    folder = tmp_path_factory.mktemp("litellm")
    model = {
        "model_name": "served",
        "litellm_params": {
            "model": "openai/upstream",
            "api_base": backend.base_url,
            "api_key": "unused",
            "input_cost_per_token": INPUT_DOLLARS,
            "output_cost_per_token": OUTPUT_DOLLARS,
        },
        "model_info": {"max_input_tokens": CONTEXT},
    }
    settings = {"model_list": [model], "general_settings": {"master_key": KEY}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (port,) = free_ports(1)
    command = [
        *(f"{environment}/bin/litellm", "--config", str(folder / "config.yaml")),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    with (folder / "log").open("wb") as log:
        group = ProcessGroup(command, dict(os.environ), log)
    try:
        wait_for(f"http://127.0.0.1:{port}/health/liveliness", group, folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        group.stop(5.0)


def wait_for(url: str, group: ProcessGroup, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and group.exit_status is None:
        with suppress(ModelError):
            get(url, None, 2.0)
            return
        time.sleep(0.5)
    raise subprocess.SubprocessError(log.read_text(encoding="utf-8")[-2_000:])


def spec(proxy: str, **values: object) -> EndpointSpec:
    entry = {"name": "served", "base_url": proxy, "api_key_env": "PROXY_KEY", "is_paid": True}
    return EndpointSpec.model_validate({**entry, **values})


async def ask(spec: EndpointSpec, example: Request, key: str = KEY) -> Reply:
    model = OpenAICompatibleModel(spec, api_key=key)
    try:
        return await model.respond(example)
    finally:
        await model.close()


async def test_pictures_pass_and_the_cost_is_that_of_the_proxy(
    proxy: str, backend: ModelServer
) -> None:
    reply = await ask(spec(proxy), request(frames=3))
    (content,) = [message["content"] for message in backend.requests[-1].body["messages"]]
    assert [part["type"] for part in content] == [*["image_url"] * 3, "text"]
    usage = reply.usage
    assert usage.prompt_tokens is not None
    assert usage.completion_tokens is not None
    expected = usage.prompt_tokens * INPUT_DOLLARS + usage.completion_tokens * OUTPUT_DOLLARS
    assert reply.cost_dollars == pytest.approx(expected)


async def test_a_text_is_counted_through_the_proxy(proxy: str, backend: ModelServer) -> None:
    values: dict[str, Any] = {"count_texts": True, "tokens_per_frame": backend.tokens_per_image}
    reply = await ask(spec(proxy, **values), request(frames=3))
    assert reply.usage.prompt_tokens is not None
    assert reply.usage.text_tokens == reply.usage.prompt_tokens - 3 * backend.tokens_per_image
    assert reply.warning is None


async def test_a_wrong_name_or_key_ends_the_run(proxy: str) -> None:
    with pytest.raises(ModelError, match="has no model 'another'"):
        await ask(spec(proxy, model="another"), request())
    with pytest.raises(ModelError, match="rejects the key"):
        await ask(spec(proxy), request(), key="sk-another")


async def test_the_context_that_the_proxy_reports_is_the_limit(
    proxy: str, backend: ModelServer
) -> None:
    assert spec(proxy).context_tokens({"PROXY_KEY": KEY}) == CONTEXT
    asked = len(backend.requests)
    values: dict[str, Any] = {"tokens_per_frame": 1_000}
    with pytest.raises(ResponseFailure, match="4,000") as raised:
        await ask(spec(proxy, **values), request(frames=5))
    assert raised.value.kind is FailureKind.TOO_LARGE
    assert len(backend.requests) == asked
