"""The list of models that an endpoint serves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.openai.served import served_models

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
        assert served_models(url, None) == ["a", "b"]


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
        served_models(url, KEY)
    assert KEY not in str(found.value)
