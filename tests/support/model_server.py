"""A real HTTP server on the loopback that speaks chat completions and can misbehave.

It reads complete bodies, stores the requests, and injects the faults of a plan. The answer to a
question is a function of its text. The server runs in its own thread, so that a test may block.
"""

import asyncio
import base64
import hashlib
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import av
import orjson

from tests.support.odd_replies import OddReply


class Fault(StrEnum):
    """A fault of one request, or an unusual reply."""

    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNAVAILABLE = "unavailable"
    SLOW = "slow"
    TRUNCATED_JSON = "truncated_json"
    MALFORMED_JSON = "malformed_json"
    CLOSED_BEFORE_BODY = "closed_before_body"
    CLOSED_AFTER_BODY = "closed_after_body"
    WRONG_CONTENT_TYPE = "wrong_content_type"
    EMPTY_CONTENT = "empty_content"
    CUT_BY_LENGTH = "cut_by_length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    REASONING = "reasoning"
    NO_USAGE = "no_usage"
    UNAUTHORIZED = "unauthorized"
    UNKNOWN_MODEL = "unknown_model"
    NO_CREDIT = "no_credit"
    BAD_REQUEST = "bad_request"
    NO_VISION = "no_vision"


TRANSIENT = (
    Fault.RATE_LIMITED,
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
    Fault.TRUNCATED_JSON,
    Fault.MALFORMED_JSON,
    Fault.CLOSED_BEFORE_BODY,
    Fault.CLOSED_AFTER_BODY,
    Fault.WRONG_CONTENT_TYPE,
    Fault.EMPTY_CONTENT,
    Fault.CUT_BY_LENGTH,
)
"""Faults after which a retry can be answered."""
ANSWERED = (Fault.SLOW, Fault.REASONING, Fault.NO_USAGE)
"""Unusual replies that contain an answer."""

FaultPlan = Callable[[str, int], Fault | OddReply | None]
"""Fault of a request, by the text of its question and the number of earlier requests for it."""


def no_faults(question: str, asked_before: int) -> None:
    return None


def always(fault: Fault | OddReply) -> FaultPlan:
    return lambda _question, _asked_before: fault


def first_time(fault: Fault | OddReply, times: int = 1) -> FaultPlan:
    """`fault` for the first `times` requests of every question."""
    return lambda _question, asked_before: fault if asked_before < times else None


def sometimes(share: float, faults: Sequence[Fault | OddReply], seed: int = 0) -> FaultPlan:
    """One of `faults` in `share` of all requests. The same seed selects the same requests."""

    def plan(question: str, asked_before: int) -> Fault | OddReply | None:
        digest = hashlib.sha256(f"{seed} {asked_before} {question}".encode()).digest()
        number = int.from_bytes(digest[:8], "big") / 2**64
        return faults[int(number / share * len(faults))] if number < share else None

    return plan


def letter_of(question: str) -> str:
    """Letter A–D that depends only on the question."""
    return "ABCD"[hashlib.sha256(question.encode()).digest()[0] % 4]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One received request: its JSON, the text of its question, its time and its fault."""

    at_seconds: float
    headers: dict[str, str]
    body: dict[str, Any]
    body_bytes: int
    raw: bytes
    question: str
    fault: Fault | OddReply | None


@dataclass(kw_only=True)
class ModelServer:
    """An endpoint at `base_url`, used as `with ModelServer() as server:`.

    With `keeps_bodies=False`, which measurements use, only the numbers of requests are stored.
    `request_counts` and `answered` count requests and completely sent answers by question.
    """

    answer: Callable[[str], str] = letter_of
    faults: FaultPlan = no_faults
    delay_seconds: float = 0.0
    slow_seconds: float = 0.3
    retry_after_seconds: float = 1.0
    max_in_flight: int | None = None
    """Requests in flight beyond this number get a 429 without Retry-After."""
    keeps_bodies: bool = True
    caches_prefixes: bool = False
    """Report the frames of a video as cached tokens after its first answer."""
    tokens_per_image: int = 85
    image_limit: int | None = None
    """Drop images beyond this number silently, as some engines do."""
    max_model_len: int | None = None
    """The context in the list of models."""
    check: Callable[[dict[str, Any]], str | None] | None = None
    """The reason to reject a body, or None to answer it."""
    reports: dict[str, Any] = field(default_factory=dict)
    """JSON by path, such as `/version`. Every other path has the list of models."""
    host: str = "127.0.0.1"
    port: int = 0
    requests: list[ReceivedRequest] = field(default_factory=list)
    request_counts: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    most_in_flight: int = 0
    in_flight: int = 0
    connections: int = 0
    """Number of open connections. It drops to zero soon after the client process is killed."""

    def __enter__(self) -> Self:
        self._seen_prefixes: set[str] = set()
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def request_count(self) -> int:
        return self.request_counts.total()

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve_until_stopped(started))
        self._loop.close()

    async def _serve_until_stopped(self, started: threading.Event) -> None:
        self._stop = asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            self.connections += 1
            try:
                await self._converse(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            except asyncio.CancelledError:
                return
            finally:
                connections.discard(task)
                self.connections -= 1
                writer.close()

        server = await asyncio.start_server(connected, self.host, self.port, limit=2**20)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            headers = _headers(head)
            if head.startswith(b"GET "):
                path = head.split()[1].decode()
                report = self.reports.get(path, {"data": [self._listed()]})
                writer.write(_response(200, orjson.dumps(report)))
                await writer.drain()
                continue
            length = int(headers.get("content-length", "0"))
            raw = await self._read(reader, length)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                reply = await self._reply(headers, raw, length)
            finally:
                self.in_flight -= 1
            data, closes, question = reply
            writer.write(data)
            await writer.drain()
            if question is not None:
                self.answered[question] += 1
            if closes:
                return

    async def _read(self, reader: asyncio.StreamReader, length: int) -> bytes:
        """Read the body. Return only its end if bodies are not stored."""
        if self.keeps_bodies:
            return await reader.readexactly(length)
        end = b""
        while length:
            chunk = await reader.read(min(length, 2**20))
            if not chunk:
                raise asyncio.IncompleteReadError(end, length)
            length -= len(chunk)
            end = (end + chunk)[-20_000:]
        return end

    async def _reply(
        self, headers: dict[str, str], raw: bytes, length: int
    ) -> tuple[bytes, bool, str | None]:
        """Bytes to send, True to close the connection afterwards, and the answered question."""
        body = orjson.loads(raw) if self.keeps_bodies else {}
        question = _question_of(body) if self.keeps_bodies else _last_text(raw)
        fault = self.faults(question, self.request_counts[question])
        self.request_counts[question] += 1
        if self.keeps_bodies:
            self.requests.append(
                ReceivedRequest(
                    at_seconds=time.monotonic(),
                    headers=headers,
                    body=body,
                    body_bytes=length,
                    raw=raw,
                    question=question,
                    fault=fault,
                )
            )
        if self.max_in_flight is not None and self.in_flight > self.max_in_flight:
            return _response(429, _error("too many at once")), False, None
        await asyncio.sleep(self.slow_seconds if fault is Fault.SLOW else self.delay_seconds)
        reason = None if self.check is None else self.check(body)
        if reason is not None:
            return _response(400, _error(reason)), False, None
        if isinstance(fault, OddReply):
            data, closes = fault.build(self._completion(None, body, question)), True
            answers = fault.is_answer
        else:
            data, closes = self._faulty(fault, body, question)
            answers = fault is None or fault in ANSWERED
        return data, closes, question if answers else None

    def _listed(self) -> dict[str, Any]:
        """The one entry in the list of models. Requests for the list are not counted."""
        context = {} if self.max_model_len is None else {"max_model_len": self.max_model_len}
        return {"id": "served", "object": "model", **context}

    def _faulty(
        self, fault: Fault | None, body: dict[str, Any], question: str
    ) -> tuple[bytes, bool]:
        completion = orjson.dumps(self._completion(fault, body, question))
        retry_after = {"Retry-After": f"{self.retry_after_seconds:g}"}
        if fault in _REFUSED_WITH:
            status, message, code = _REFUSED_WITH[fault]
            headers = retry_after if fault is Fault.RATE_LIMITED else {}
            return _response(status, _error(message, code), headers=headers), False
        match fault:
            case Fault.TRUNCATED_JSON:
                data = _response(200, completion[: len(completion) // 2])
            case Fault.MALFORMED_JSON:
                data = _response(200, b'{"choices": [{"message": }]}')
            case Fault.CLOSED_BEFORE_BODY:
                data = b""
            case Fault.CLOSED_AFTER_BODY:
                data = _response(200, completion)[:-20]
            case Fault.WRONG_CONTENT_TYPE:
                data = _response(200, b"<html>welcome to the proxy</html>", "text/html")
            case _:
                data = _response(200, completion)
        return data, fault in (Fault.CLOSED_BEFORE_BODY, Fault.CLOSED_AFTER_BODY)

    def _completion(self, fault: Fault | None, body: dict[str, Any], question: str) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": self.answer(question)}
        finish_reason = "stop"
        match fault:
            case Fault.EMPTY_CONTENT:
                message["content"] = ""
            case Fault.CUT_BY_LENGTH:
                message["content"], finish_reason = None, "length"
            case Fault.CONTENT_FILTER:
                message["content"], finish_reason = None, "content_filter"
            case Fault.REFUSAL:
                message |= {"content": None, "refusal": "I cannot help with that."}
            case Fault.REASONING:
                message["reasoning_content"] = "Let me look at the frames."
        completion = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": f"{body.get('model', 'served')}-2026-11-01",
            "system_fingerprint": "fp_1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        }
        if fault is not Fault.NO_USAGE:
            completion["usage"] = self._usage(body, question)
        return completion

    def _text_tokens(self, question: str) -> int:
        return len(question) // 4 + 10

    def _usage(self, body: dict[str, Any], question: str) -> dict[str, Any]:
        images, prefix = _images_of(body)
        kept = images if self.image_limit is None else min(images, self.image_limit)
        cached = 0
        if self.caches_prefixes:
            cached = kept * self.tokens_per_image if prefix in self._seen_prefixes else 0
            self._seen_prefixes.add(prefix)
        prompt_tokens = kept * self.tokens_per_image + self._text_tokens(question)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": 3,
            "total_tokens": prompt_tokens + 3,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }


_REFUSED_WITH: Mapping[Fault | None, tuple[int, str, str | None]] = {
    Fault.RATE_LIMITED: (429, "slow down", None),
    Fault.SERVER_ERROR: (500, "something broke", None),
    Fault.UNAVAILABLE: (503, "upstream is gone", None),
    Fault.UNAUTHORIZED: (401, "no such key", None),
    Fault.UNKNOWN_MODEL: (404, "no such model", None),
    Fault.NO_CREDIT: (429, "no credit", "insufficient_quota"),
    Fault.BAD_REQUEST: (400, "unknown parameter", None),
    Fault.NO_VISION: (500, "image input is not supported - hint: provide the mmproj", None),
}
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


def _response(
    status: int,
    body: bytes,
    content_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _error(message: str, code: str | None = None) -> bytes:
    return orjson.dumps({"error": {"message": message, "type": "error", "code": code}})


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}


def _question_of(body: dict[str, Any]) -> str:
    """Text after the frames."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return str(content[-1].get("text", ""))


def _last_text(raw: bytes) -> str:
    """Last text in the end of a body."""
    text = raw.decode("utf-8", "replace")
    start = text.rfind('"text":"')
    return str(json.JSONDecoder().raw_decode(text, start + 7)[0]) if start >= 0 else ""


def _images_of(body: dict[str, Any]) -> tuple[int, str]:
    """Number of pictures in a body, and a digest of them."""
    digest = hashlib.sha256()
    images = 0
    for message in body.get("messages", []):
        for part in message["content"] if isinstance(message["content"], list) else []:
            url = (part.get("image_url") or part.get("video_url") or {}).get("url")
            if url is not None:
                digest.update(url.encode())
                images += _pictures_of(url) if "video_url" in part else 1
    return images, digest.hexdigest()


def _pictures_of(url: str) -> int:
    """Number of pictures in a data URL with the pictures of a video, or with the video."""
    kind, _, data = url.partition(",")
    if kind != "data:video/mp4;base64":
        return url.count(",")
    with av.open(io.BytesIO(base64.b64decode(data))) as container:
        return container.streams.video[0].frames
