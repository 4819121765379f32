"""Connections to an endpoint: reuse, replacement, proxies and encryption."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.made_up_requests import request
from tests.support.model_server import ModelServer
from videomme_pipeline.models.openai.client import OpenAICompatibleModel
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.openai.transport import Connections, connect
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

SPEC = EndpointSpec(name="served")


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
    assert raised.value.kind is FailureKind.CONNECTION


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        model = OpenAICompatibleModel(spec("http://models.invalid/v1"), api_key="secret")
        await model.respond(request())
        await model.close()
        assert proxy.requests[0].headers["host"] == "models.invalid"
        assert proxy.requests[0].headers["authorization"] == "Bearer secret"
        monkeypatch.setenv("no_proxy", "models.invalid")
        model = OpenAICompatibleModel(spec("http://models.invalid/v1"))
        with pytest.raises(ResponseFailure, match=r"models\.invalid"):
            await model.respond(request())
    assert proxy.request_count == 1


async def test_an_encrypted_endpoint_needs_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with encrypted_endpoint(tmp_path) as (port, certificate):
        stranger = OpenAICompatibleModel(spec(f"https://localhost:{port}/v1"))
        with pytest.raises(ResponseFailure, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.respond(request())
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

    client = connect(spec(f"https://localhost:{port}/v1"), None)
    connections = Connections(client, "chat/completions", timeout_seconds=5)
    found = await connections.post(body(), 4)
    await connections.close()
    return found.status, found.content
