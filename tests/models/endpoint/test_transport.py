"""Connections to an endpoint: reuse, replacement, proxies and encryption."""

import asyncio
import ssl
import subprocess
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.made_up_requests import request
from tests.support.model_server import ModelServer
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import Connections
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

SPEC = EndpointSpec(name="served")


@dataclass
class RawEndpoint:
    base_url: str = ""
    sent_bytes: int = 0


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def spec(base_url: str) -> EndpointSpec:
    return EndpointSpec(name="served", base_url=base_url)


async def test_consecutive_requests_share_a_connection() -> None:
    with ModelServer() as server:
        model = OpenAICompatibleModel(spec(server.base_url))
        for number in (1, 2, 3):
            await model.respond(request(number=number))
            assert server.connections == 1
        await model.close()


async def test_each_concurrent_request_has_its_own_connection() -> None:
    with ModelServer(delay_seconds=0.1) as server:
        model = OpenAICompatibleModel(spec(server.base_url))
        await asyncio.gather(*(model.respond(request(number=number)) for number in range(20)))
        assert server.most_in_flight == 20
        await model.respond(request())
        assert server.connections == 20
        await model.close()


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    with ModelServer() as server:
        model = OpenAICompatibleModel(spec(server.base_url))
        await model.respond(request())
    with ModelServer(port=server.port) as restarted:
        reply = await model.respond(request())
        await model.close()
    assert reply.text
    assert restarted.request_count == 1


async def test_a_response_that_arrives_before_the_body_is_sent_is_read() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await asyncio.sleep(0.1)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = OpenAICompatibleModel(spec(f"http://127.0.0.1:{port}/v1"))
    with pytest.raises(ResponseFailure) as raised:
        await model.respond(request(frames=64, frame_bytes=400_000))
    assert raised.value.kind is FailureKind.TOO_LARGE
    await model.close()
    server.close()


async def test_the_error_for_an_endpoint_that_is_down_has_its_address() -> None:
    with ModelServer() as stopped:
        pass
    model = OpenAICompatibleModel(spec(stopped.base_url))
    with pytest.raises(ResponseFailure, match=f"{stopped.port}.*is the server up") as raised:
        await model.respond(request())
    await model.close()
    assert raised.value.kind is FailureKind.CONNECTION


def endless(status: str) -> Iterator[bytes]:
    yield f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    while True:
        yield b"10000\r\n" + b" " * 65_536 + b"\r\n"


@pytest.mark.parametrize("status", ["200 OK", "500 Error"])
async def test_a_response_without_an_end_fails_its_attempt(status: str) -> None:
    async with raw_endpoint(lambda: endless(status)) as endpoint:
        model = OpenAICompatibleModel(
            EndpointSpec.model_validate(
                {
                    "name": "served",
                    "base_url": endpoint.base_url,
                    "limits": {"max_response_bytes": 2 * 2**20},
                }
            )
        )
        with pytest.raises(ResponseFailure, match="larger than 2,097,152 bytes") as raised:
            await model.respond(request())
        await model.close()
    assert raised.value.kind is FailureKind.MALFORMED


async def test_a_connection_receives_no_more_than_is_read() -> None:
    async with raw_endpoint(lambda: endless("200 OK")) as endpoint:
        connections = Connections(spec(endpoint.base_url), None)
        async with connections.session.post(f"{endpoint.base_url}/chat/completions") as response:
            sent = -1
            while endpoint.sent_bytes > sent:  # until the endpoint cannot send more
                sent = endpoint.sent_bytes
                await asyncio.sleep(0.2)
            unread = len(await response.content.readany())
            assert unread < 2**20
            while endpoint.sent_bytes < sent + 10 * 2**20:
                unread = max(unread, len(await response.content.readany()))
        await connections.close()
    assert unread < 2**20


async def test_a_key_that_the_endpoint_repeats_is_removed() -> None:
    key = "sk-canary-0123456789"
    body = b'{"error": {"message": "Incorrect API key provided: %s"}}' % key.encode()

    def repeat() -> Iterator[bytes]:
        yield b"HTTP/1.1 400 Bad\r\nLocation: /%s\r\n" % key.encode()
        yield b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def break_protocol() -> Iterator[bytes]:
        yield f"HTTP {key}\r\n\r\n".encode()

    for response in (repeat, break_protocol):
        async with raw_endpoint(response) as endpoint:
            model = OpenAICompatibleModel(spec(endpoint.base_url), api_key=key)
            with pytest.raises(ResponseFailure, match=r"\[key removed\]") as raised:
                await model.respond(request())
            assert key not in "".join(traceback.format_exception(raised.value))
            await model.close()


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:word@127.0.0.1:{proxy.port}")
        model = OpenAICompatibleModel(spec("http://models.invalid/v1"), api_key="secret")
        await model.respond(request())
        await model.close()
        assert proxy.requests[0].headers["host"] == "models.invalid"
        assert proxy.requests[0].headers["authorization"] == "Bearer secret"
        assert proxy.requests[0].headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"
        monkeypatch.setenv("no_proxy", "models.invalid")
        model = OpenAICompatibleModel(spec("http://models.invalid/v1"))
        with pytest.raises(ResponseFailure, match=r"models\.invalid"):
            await model.respond(request())
        await model.close()
    assert proxy.request_count == 1


async def test_an_encrypted_endpoint_needs_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with encrypted_endpoint(tmp_path) as (port, certificate):
        stranger = OpenAICompatibleModel(spec(f"https://localhost:{port}/v1"))
        with pytest.raises(ResponseFailure, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.respond(request())
        await stranger.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await answer_of(port) == (200, b"{}")


async def test_an_encrypted_endpoint_is_reached_through_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnels: list[bytes] = []
    piping: list[asyncio.Task[None]] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        tunnels.append(head.partition(b"\r\n")[0])
        host, port = head.split()[1].decode().split(":")
        from_server, to_server = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        piping.extend(
            map(asyncio.create_task, (pipe(reader, to_server), pipe(from_server, writer)))
        )

    async with encrypted_endpoint(tmp_path) as (port, certificate):
        proxy = await asyncio.start_server(forward, "localhost", 0)
        proxy_port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://localhost:{proxy_port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await answer_of(port) == (200, b"{}")
        proxy.close()
    assert tunnels == [f"CONNECT localhost:{port} HTTP/1.1".encode()]
    await asyncio.gather(*piping, return_exceptions=True)


@asynccontextmanager
async def raw_endpoint(response: Callable[[], Iterator[bytes]]) -> AsyncIterator[RawEndpoint]:
    """An endpoint that reads a request and sends `response`."""
    endpoint = RawEndpoint()

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            for data in response():
                writer.write(data)
                await writer.drain()
                endpoint.sent_bytes += len(data)
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    endpoint.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield endpoint
    finally:
        server.close()


@asynccontextmanager
async def encrypted_endpoint(folder: Path) -> AsyncIterator[tuple[int, Path]]:
    """An endpoint on a port of `localhost` that answers `{}`, and its certificate."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-keyout {key} -out {certificate} -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\nbody")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "localhost", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], certificate
    finally:
        server.close()


async def answer_of(port: int) -> tuple[int, bytes]:
    """Status and body of a response of the encrypted endpoint."""

    async def body() -> AsyncIterator[bytes]:
        yield b"body"

    connections = Connections(spec(f"https://localhost:{port}/v1"), None)
    response = await connections.post(body(), 4)
    await connections.close()
    return response.status, response.content
