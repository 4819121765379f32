"""The models that an endpoint lists, their context, and what servers report about themselves."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.support.model_server import ModelServer
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.served import (
    ServerDownError,
    list_models,
    reported_identity,
    reported_values,
)
from videomme_pipeline.models.endpoint.spec import EndpointSpec

KEY = "sk-canary-0123456789"


@contextmanager
def endpoint(status: int, body: Callable[[], Iterator[bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            try:
                for data in body():
                    self.wfile.write(data)
            except ConnectionError:
                pass

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def endless() -> Iterator[bytes]:
    while True:
        yield b" " * 65_536


def test_the_names_are_sorted() -> None:
    with endpoint(200, lambda: iter([b'{"data": [{"id": "b"}, {"id": "a", "x": 1}]}'])) as url:
        assert [model.id for model in list_models(url, None)] == ["a", "b"]


@pytest.mark.parametrize(
    ("listed", "context_tokens"),
    [
        ([{"id": "served", "max_model_len": 4096}, {"id": "b", "max_model_len": 8}], 4096),
        ([{"id": "weights.gguf", "meta": {"n_ctx": 2048}}], 2048),
        ([{"id": "a", "max_model_len": 4096}, {"id": "b", "max_model_len": 8}], None),
        ([{"id": "served", "max_model_len": "long", "meta": []}], None),
    ],
    ids=["vLLM", "llama.cpp", "other models", "odd values"],
)
def test_the_context_is_that_of_the_named_model(
    listed: list[dict[str, object]], context_tokens: int | None
) -> None:
    with endpoint(200, lambda: iter([json.dumps({"data": listed}).encode()])) as url:
        spec = EndpointSpec.model_validate({"name": "served", "base_url": url, "profile": "vllm"})
        assert spec.context_tokens() == context_tokens
        own = spec.model_copy(update={"max_model_len": 5})
        assert own.context_tokens() == 5


def test_the_context_of_an_endpoint_without_a_list_is_unknown() -> None:
    with endpoint(404, lambda: iter([b"{}"])) as url:
        spec = EndpointSpec.model_validate({"name": "served", "base_url": url, "profile": "vllm"})
        assert spec.context_tokens() is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, lambda: iter([f'{{"data": [{{"id": ["{KEY}"]}}]}}'.encode()])),
        (200, lambda: iter([f"no JSON, but {KEY}".encode()])),
        (200, endless),
        (401, lambda: iter([KEY.encode()])),
    ],
)
def test_any_other_answer_is_an_error_without_the_key(
    status: int, body: Callable[[], Iterator[bytes]]
) -> None:
    with (
        endpoint(status, body) as url,
        pytest.raises(ModelError, match="list its models") as caught,
    ):
        list_models(url, KEY)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_with_only_internal_errors_is_down(status: int) -> None:
    with endpoint(status, lambda: iter([b"{}"])) as url, pytest.raises(ServerDownError):
        reported_values(url, "vllm", None)


def test_a_server_without_a_report_is_up() -> None:
    with endpoint(404, lambda: iter([b"{}"])) as url:
        assert "version" not in reported_values(url, "vllm", None)


REPORTS: Mapping[str, Mapping[str, Any]] = {
    "vllm": {
        "/version": {"version": "0.33.0"},
        "/v1/models": {"data": [{"id": "served", "root": "/weights/a"}]},
    },
    "sglang": {"/server_info": {"version": "0.6.1", "model_path": "/weights/a", "dtype": "auto"}},
    "llama_cpp": {"/props": {"build_info": "b9000-1234", "model_path": "/weights/a"}},
    "ollama": {"/api/version": {"version": "0.20.1"}},
}


@pytest.mark.parametrize("profile", REPORTS)
def test_the_version_and_the_weights_are_reported(profile: str) -> None:
    with ModelServer(reports=dict(REPORTS[profile])) as server:
        identity = reported_identity(server.base_url, profile, "served", None)
    assert identity is not None
    assert identity.engine == profile
    assert identity.version in ("0.33.0", "0.6.1", "b9000-1234", "0.20.1")
    assert identity.model == (None if profile == "ollama" else "/weights/a")


def test_vllm_is_known_by_the_fingerprint_of_its_configuration() -> None:
    with ModelServer(reports=dict(REPORTS["vllm"])) as server:
        reported = reported_identity(server.base_url, "vllm", "served", None)
        (asked,) = server.requests
    assert reported is not None
    assert reported.system_fingerprint == "fp_1"
    assert (asked.body["model"], asked.body["max_tokens"]) == ("served", 1)
    with ModelServer(reports=dict(REPORTS["ollama"])) as server:
        assert reported_identity(server.base_url, "ollama", "served", None)
        assert server.requests == []


def test_other_frame_settings_of_sglang_are_another_server() -> None:
    hashes = set()
    for settings in ({}, {"video": {"fps": 1}}, {"video": {"fps": 2}}):
        reports = {"/server_info": {"version": "0.5.23", "mm_process_config": settings}}
        with ModelServer(reports=reports) as server:
            reported = reported_identity(server.base_url, "sglang", "served", None)
        assert reported is not None
        hashes.add(reported.processor_hash)
    assert len(hashes) == 3
    assert None not in hashes


def test_a_server_that_is_down_or_reports_nothing_is_unknown() -> None:
    with ModelServer() as server:
        assert reported_identity(server.base_url, "vllm", "served", None) is None
    assert reported_identity(server.base_url, "vllm", "served", None) is None
    assert reported_identity(server.base_url, "generic", "served", None) is None


def test_a_chat_template_is_known_by_its_hash() -> None:
    identities = []
    for template in ("a", "b", "b"):
        reports = {"/props": {"build_info": "b1", "chat_template": template}}
        with ModelServer(reports=reports) as server:
            identities.append(reported_identity(server.base_url, "llama_cpp", "served", None))
    first, two, three = identities
    assert first is not None
    assert two is not None
    assert first.differences(two).keys() == {"chat_template_hash"}
    assert two == three


def test_endpoints_that_differ_are_an_error() -> None:
    with (
        ModelServer(reports={"/version": {"version": "0.33.0"}}) as first,
        ModelServer(reports={"/version": {"version": "0.34.0"}}) as two,
    ):
        urls = [first.base_url, two.base_url]
        spec = EndpointSpec.model_validate({"name": "a", "profile": "vllm", "base_url": urls})
        with pytest.raises(ModelError, match=r"version 0.34.0 instead of 0.33.0"):
            spec.reported_server()
        two.reports["/version"] = {"version": "0.33.0"}
        assert spec.reported_server() == reported_identity(urls[0], "vllm", "a", None)
