"""Replies of endpoints that misbehave, as the bytes on the wire.

A reply is built from the right completion to the request, so that an unusual reply can contain
the right answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

Completion = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OddReply:
    """A way to reply: its name, its bytes for a completion, and True if it contains the answer.

    The connection is closed afterwards.
    """

    name: str
    build: Callable[[Completion], bytes]
    is_answer: bool


def http(
    body: bytes,
    status: str = "200 OK",
    headers: Mapping[str, str] = {},
    *,
    version: str = "HTTP/1.1",
    length: int | None = None,
) -> bytes:
    """A response with `body`. `length` replaces the right Content-Length."""
    lines = [
        f"{version} {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(*chunks: bytes) -> bytes:
    """A chunked response, without its last chunk."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)


def _body(value: object) -> Callable[[Completion], bytes]:
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    return lambda _: http(body)


def _status(status: str, headers: Mapping[str, str] = {}) -> Callable[[Completion], bytes]:
    body = orjson.dumps({"error": {"message": "overloaded", "code": None}})
    return lambda _: http(body, status, headers)


def _message(**changes: object) -> Callable[[Completion], bytes]:
    return _changed(lambda completion: completion["choices"][0]["message"].update(changes))


def _choice(**changes: object) -> Callable[[Completion], bytes]:
    return _changed(lambda completion: completion["choices"][0].update(changes))


def _fields(**changes: object) -> Callable[[Completion], bytes]:
    return _changed(lambda completion: completion.update(changes))


def _changed(change: Callable[[Completion], object]) -> Callable[[Completion], bytes]:
    def build(completion: Completion) -> bytes:
        copy = orjson.loads(orjson.dumps(completion))
        change(copy)
        return http(orjson.dumps(copy))

    return build


def _wire(change: Callable[[bytes], bytes]) -> Callable[[Completion], bytes]:
    return lambda completion: change(orjson.dumps(completion))


def _content(completion: Completion) -> str:
    return str(completion["choices"][0]["message"]["content"])


_LIMITED = "429 Too Many Requests"

_FAILURES: Mapping[str, Callable[[Completion], bytes]] = {
    # Statuses after which a request is repeated.
    "status 408": _status("408 Request Timeout"),
    "status 409": _status("409 Conflict"),
    "status 429": _status(_LIMITED),
    "status 500": _status("500 Error"),
    "status 502, an HTML page": lambda _: http(b"<html>bad gateway</html>", "502 Bad Gateway"),
    "status 503": _status("503 Unavailable", {"Retry-After": "0"}),
    "status 504": _status("504 Gateway Timeout"),
    "status 204": lambda _: b"HTTP/1.1 204 No Content\r\n\r\n",
    "status 520": _status("520 Unknown"),
    "status 529": _status("529 Overloaded"),
    "status 500, an empty body": lambda _: http(b"", "500 Error"),
    "status 500, an odd error": lambda _: http(b'{"error": {"message": [1], "code": {}}}', "500 E"),
    # Retry-After.
    "retry after 0.2 seconds": _status(_LIMITED, {"Retry-After": "0.2"}),
    "retry after 200 milliseconds": _status(_LIMITED, {"retry-after-ms": "200"}),
    "retry after a date": _status(_LIMITED, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "retry after a date without a zone": _status(
        _LIMITED, {"Retry-After": "Wed, 21 Oct 2015 07:28:00"}
    ),
    "retry after a date of no zone": _status(
        _LIMITED, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 -0000"}
    ),
    "retry after a date in 2099": _status(
        _LIMITED, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}
    ),
    "retry after a date that is none": _status(
        _LIMITED, {"Retry-After": "Wed, 99 Xxx 2099 99:99:99"}
    ),
    "retry after nan": _status(_LIMITED, {"Retry-After": "nan"}),
    "retry after inf": _status(_LIMITED, {"Retry-After": "inf"}),
    "retry after three years": _status(_LIMITED, {"Retry-After": "99999999"}),
    "retry after a negative time": _status(_LIMITED, {"Retry-After": "-5"}),
    "retry after soon": _status(_LIMITED, {"Retry-After": "soon"}),
    # Connections.
    "closed without a byte": lambda _: b"",
    "closed in the headers": lambda _: b"HTTP/1.1 200 OK\r\nContent-Le",
    "closed in the body": _wire(lambda body: http(body)[:-20]),
    "closed before the last chunk": _wire(chunked),
    "a chunk of no length": lambda _: chunked(b"") + b"zz\r\n",
    "a length that is no number": lambda _: http(b"{}").replace(b": 2", b": two"),
    "a longer length": _wire(lambda body: http(body, length=len(body) + 5)),
    "a shorter length": _wire(lambda body: http(body, length=len(body) - 5)),
    "no HTTP": lambda _: b"SSH-2.0-OpenSSH_9.9\r\n",
    "headers without an end": lambda _: b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
    "a response that is too large": lambda _: http(b" " * (2 << 20)),
    "a chunked response that is too large": lambda _: chunked(*[b" " * 65_536] * 32),
    # Bodies that are no completions.
    "no body": _body(b""),
    "an HTML page": _body(b"<html>welcome to the proxy</html>"),
    "half of the JSON": _wire(lambda body: http(body[: len(body) // 2])),
    "not a number": _body(b'{"choices": NaN}'),
    "deep nesting": _body(b"[" * 5_000),
    "invalid UTF-8": _wire(lambda body: http(body.replace(b"stop", b"\xff\xfe"))),
    "a lone surrogate": _wire(lambda body: http(body.replace(b"stop", b"\\ud800"))),
    "null": _body(None),
    "a number": _body(5),
    "a text": _body("B"),
    "a list": _body([]),
    "an empty object": _body({}),
    "an error with status 200": _body({"error": {"message": "overloaded"}}),
    "choices null": _fields(choices=None),
    "choices empty": _fields(choices=[]),
    "choices an object": _fields(choices={"0": {"message": {"content": "B"}}}),
    "choices of texts": _fields(choices=["B"]),
    "no message": _changed(lambda completion: completion["choices"][0].pop("message")),
    "message null": _choice(message=None),
    "message a text": _choice(message="B"),
    "content a number": _message(content=5),
    "content true": _message(content=True),
    "content an object": _message(content={"text": "B"}),
    "content of texts": _message(content=["B"]),
    "content with a number as text": _message(content=[{"type": "text", "text": 5}]),
    "content with an object as text": _message(content=[{"type": "text", "text": {"v": "B"}}]),
    # Completions without an answer. Each costs money, so they are repeated twice at most.
    "content null": _message(content=None),
    "content empty": _message(content=""),
    "content NUL": _message(content="\0"),
    "content invisible": _message(content="\u200b\u00a0\n"),
    "content cut by the token limit": _choice(message={"content": ""}, finish_reason="length"),
    "reasoning cut by the token limit": _choice(
        message={"content": "<think>B or"}, finish_reason="length"
    ),
}

_REJECTIONS: Mapping[str, Callable[[Completion], bytes]] = {
    **{
        f"status {status}": _status(f"{status} No")
        for status in (400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 451)
    },
    **{
        f"status {status}, an answer elsewhere": _status(
            f"{status} Moved", {"Location": "http://127.0.0.1:9/v1/chat/completions"}
        )
        for status in (300, 301, 302, 303, 307, 308)
    },
    "status 400, an answer in the body": _wire(lambda body: http(body, "400 Bad Request")),
    "status 302 to a broken address": _status("302 Found", {"Location": "http://["}),
}

_UNUSUAL_ANSWERS: Mapping[str, Callable[[Completion], bytes]] = {
    "content in parts": _changed(
        lambda completion: completion["choices"][0]["message"].update(
            content=[{"type": "text", "text": _content(completion)}, {"type": "image"}]
        )
    ),
    "content with NUL": _changed(
        lambda completion: completion["choices"][0]["message"].update(
            content=f"\0{_content(completion)}\0"
        )
    ),
    "reasoning a list": _message(reasoning=["so"], reasoning_content=[{"text": "so"}]),
    "reasoning an object": _message(reasoning={"text": "so"}),
    "refusal an object": _message(refusal={"no": "no"}),
    "finish_reason an object": _choice(finish_reason={"type": "stop"}),
    "finish_reason null": _choice(finish_reason=None),
    "model a list": _fields(model=["m"]),
    "model an object": _fields(model={"name": "m"}),
    "system_fingerprint a number": _fields(system_fingerprint=5),
    "service_tier an object": _fields(service_tier={}),
    "usage null": _fields(usage=None),
    "usage a text": _fields(usage="10 tokens"),
    "usage of texts": _fields(usage={"prompt_tokens": "10", "completion_tokens": [1]}),
    "usage beyond 64 bits": _fields(
        usage={"prompt_tokens": 9223372036854775813, "completion_tokens": 1}
    ),
    "usage negative": _fields(usage={"prompt_tokens": -5, "completion_tokens": -1}),
    "usage true": _fields(usage={"prompt_tokens": True, "completion_tokens": 1.5}),
    "usage details a list": _fields(
        usage={"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": [1]}
    ),
    "more cached than prompt tokens": _fields(
        usage={
            "prompt_tokens": 5,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 50},
        }
    ),
    "timings a text": _fields(timings="fast"),
    "unknown fields": _fields(choice=1, usage_metadata={"a": [1]}, _x=None),
    "a byte order mark": _wire(lambda body: http(b"\xef\xbb\xbf" + body)),
    "spaces around the JSON": _wire(lambda body: http(b"\n \n" + body + b"\n\n")),
    "chunks": _wire(lambda body: chunked(body[:7], body[7:]) + b"0\r\n\r\n"),
    "no length": _wire(lambda body: b"HTTP/1.1 200 OK\r\n\r\n" + body),
    "HTTP/1.0": _wire(lambda body: http(body, version="HTTP/1.0")),
    "an informational response first": _wire(
        lambda body: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http(body)
    ),
    "odd headers": _wire(
        lambda body: http(body, headers={"Retry-After": "inf", "X-Odd": "\xe9" * 999, "Age": ""})
    ),
    "two values of a header": _wire(
        lambda body: http(body, headers={"Set-Cookie": "a", "set-cookie": "b"})
    ),
}


def _replies(
    builders: Mapping[str, Callable[[Completion], bytes]], *, is_answer: bool = False
) -> tuple[OddReply, ...]:
    return tuple(OddReply(name, build, is_answer) for name, build in builders.items())


FAILURES = _replies(_FAILURES)
"""Replies after which a repeated request can be answered."""
REJECTIONS = _replies(_REJECTIONS)
"""Replies after which the same request is not sent again."""
UNUSUAL_ANSWERS = _replies(_UNUSUAL_ANSWERS, is_answer=True)
"""Replies that contain the right answer in an unusual form."""
