"""The Batch API: files of questions, answers in any order, and no request paid for twice."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.made_up_requests import letters, request, videos
from tests.support.model_server import letter_of
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.batch import OpenAIBatchModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response


@dataclass
class Batches:
    """State of an endpoint of the Batch API: files, and batches that end after some polls."""

    polls_needed: int = 2
    fails: frozenset[str] = frozenset()
    """Question texts whose line in the output is an error."""
    ends_as: str = "completed"
    rejects_keys: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    url: str = ""

    def upload(self, content_type: str, body: bytes) -> dict[str, Any]:
        head = f"Content-Type: {content_type}\r\n\r\n".encode()
        parts = BytesParser().parsebytes(head + body).get_payload()
        messages = [part for part in parts if isinstance(part, Message)]
        payloads = {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
            for part in messages
        }
        name = f"file-{len(self.files)}"
        data = payloads["file"]
        assert isinstance(data, bytes)
        self.files[name] = data
        return {"id": name, "object": "file", "bytes": len(data), "purpose": "batch"}

    def create(self, fields: dict[str, Any]) -> dict[str, Any]:
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "status": "in_progress",
            "created_at": int(time.time()),
            "output_file_id": None,
            "error_file_id": None,
            **fields,
        }
        return self.batches[name]

    def poll(self, name: str) -> dict[str, Any]:
        self.polls[name] = self.polls.get(name, 0) + 1
        batch = self.batches[name]
        if self.polls[name] >= self.polls_needed and batch["status"] == "in_progress":
            batch["status"] = self.ends_as
            if self.ends_as == "completed":
                lines = [self._answer(line) for line in self._lines(batch)]
                batch["output_file_id"] = f"{name}-output"
                # The answers are in another order than the questions.
                self.files[f"{name}-output"] = b"\n".join(reversed(lines))
        return batch

    def _lines(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        content = self.files[batch["input_file_id"]]
        return [json.loads(line) for line in content.splitlines()]

    def _answer(self, line: dict[str, Any]) -> bytes:
        text = line["body"]["messages"][-1]["content"][-1]["text"]
        message = {"role": "assistant", "content": letter_of(text)}
        response: dict[str, Any] = {
            "status_code": 200,
            "body": {
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 1},
            },
        }
        if text in self.fails:
            response = {"status_code": 500, "body": {"error": {"message": "broke"}}}
        return json.dumps({"custom_id": line["custom_id"], "response": response}).encode()


@pytest.fixture
def batches() -> Iterator[Batches]:
    endpoint = Batches()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            match self.path.split("?")[0].split("/")[2:]:
                case ["batches"]:
                    newest_first = list(reversed(list(endpoint.batches.values())))
                    self.reply({"object": "list", "data": newest_first, "has_more": False})
                case ["batches", name]:
                    self.reply(endpoint.poll(name))
                case ["files", name, "content"]:
                    self.reply(endpoint.files[name])
                case _:
                    self.reply({"object": "list", "data": []})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/files"):
                self.reply(endpoint.upload(self.headers["content-type"], body))
            else:
                self.reply(endpoint.create(json.loads(body)))

        def reply(self, value: object) -> None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            status = 401 if endpoint.rejects_keys else 200
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield endpoint
    server.shutdown()
    server.server_close()


def model_at(batches: Batches) -> OpenAIBatchModel:
    spec = EndpointSpec.model_validate(
        {"name": "served", "base_url": batches.url, "profile": "openai", "service_tier": "batch"}
    )
    return OpenAIBatchModel(spec, api_key="key", poll_seconds=0.05, gather_seconds=0.2)


def ask(path: Path, model: OpenAIBatchModel, count: int = 4) -> list[Response]:
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=300, max_attempts=3))
    with Journal(path) as journal:
        return list(collect(videos(count), model, journal, plan))


def test_all_questions_in_flight_share_one_batch(tmp_path: Path, batches: Batches) -> None:
    responses = ask(tmp_path / "journal", model_at(batches))
    assert len(batches.batches) == 1
    assert len(letters(responses)) == 12
    expected = {fingerprint: letter_of(text) for fingerprint, text in _uploaded_questions(batches)}
    assert {item.request_fingerprint: item.raw_output for item in responses} == expected
    assert {item.usage.prompt_tokens for item in responses} == {100}


def test_a_run_finds_the_batches_of_a_killed_run(tmp_path: Path, batches: Batches) -> None:
    batches.polls_needed = 1_000_000
    model = model_at(batches)
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=300, deadline_seconds=1.0))
    with Journal(tmp_path / "journal") as journal:
        unanswered = list(collect(videos(4), model, journal, plan))
    assert {item.failure for item in unanswered} == {FailureKind.DEADLINE}
    batches.polls_needed = 0
    responses = ask(tmp_path / "journal", model_at(batches))
    assert all(item.raw_output for item in responses)
    assert len(batches.batches) == 1


def test_a_failed_line_is_asked_again_in_another_batch(tmp_path: Path, batches: Batches) -> None:
    ask(tmp_path / "first", model_at(batches), count=1)
    (_, text), *_ = _uploaded_questions(batches)
    batches.batches.clear()
    batches.fails = frozenset({text})
    responses = ask(tmp_path / "second", model_at(batches), count=1)
    failed = [item for item in responses if item.error]
    assert [item.failure for item in failed] == [FailureKind.SERVER_ERROR]
    assert len(responses) == 3
    assert len(batches.batches) == 3


def test_an_expired_batch_is_a_failure_that_is_retried(tmp_path: Path, batches: Batches) -> None:
    batches.ends_as = "expired"
    responses = ask(tmp_path / "journal", model_at(batches), count=1)
    assert {item.failure for item in responses} == {FailureKind.SERVER_ERROR}
    batches.ends_as = "completed"
    responses = ask(tmp_path / "journal", model_at(batches), count=1)
    assert all(item.raw_output for item in responses)


def test_a_rejected_key_stops_the_evaluation(tmp_path: Path, batches: Batches) -> None:
    batches.rejects_keys = True
    with pytest.raises(ModelError, match="rejects the key"):
        ask(tmp_path / "journal", model_at(batches), count=1)


def test_the_service_tier_selects_the_batch_model() -> None:
    spec = EndpointSpec.model_validate({"name": "m", "profile": "openai", "service_tier": "batch"})
    assert isinstance(build_model(spec, {"OPENAI_API_KEY": "key"}), OpenAIBatchModel)


def _uploaded_questions(batches: Batches) -> list[tuple[str, str]]:
    """Fingerprint and text of every question in every file that was uploaded."""
    inputs = [batch["input_file_id"] for batch in batches.batches.values()]
    lines = [json.loads(line) for name in inputs for line in batches.files[name].splitlines()]
    return [
        (line["custom_id"], line["body"]["messages"][-1]["content"][-1]["text"]) for line in lines
    ]


async def test_a_prompt_that_cannot_fit_is_in_no_batch() -> None:
    spec = EndpointSpec.model_validate(
        {"name": "m", "service_tier": "batch", "max_model_len": 1000, "tokens_per_frame": 100}
    )
    with pytest.raises(ResponseFailure, match="at most 9 frames of this size fit"):
        await OpenAIBatchModel(spec).respond(request(frames=64))
