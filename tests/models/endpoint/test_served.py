"""The models that an endpoint lists, and their context."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.served import list_models
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
    with endpoint(status, body) as url, pytest.raises(ModelError, match="list its models") as found:
        list_models(url, KEY)
    assert KEY not in str(found.value)
