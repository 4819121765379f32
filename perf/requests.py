"""Client's cost of one request with many frames: CPU time, memory and event loop stalls.

    python -m perf.requests [--quick] [--json] [--ways ours,httpx2]

Each video has 64 frames of 40 KB and three questions. The loopback endpoint runs in another
process, and its CPU time is listed separately. Each way of sending runs in its own process:

- `create`: `AsyncOpenAI.chat.completions.create`, with base64 of the standard library;
- `post`: the same client with a body serialized by orjson;
- `httpx2`: `httpx2.AsyncClient` with the streamed body of `OpenAICompatibleModel`;
- `ours`: `OpenAICompatibleModel`;
- `socket`: ready-made bytes written to a connection, the lower bound of every client.
"""

import argparse
import asyncio
import base64
import io
import json
import multiprocessing
import random
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from typing import Any

import httpx2
import openai
import orjson
from PIL import Image

from perf.endpoint import endpoint
from tests.support.builders import draw_frame
from tests.support.made_up_requests import frame_set, prompt, question
from videomme_pipeline.models.endpoint.body import CHUNK_BYTES, request_body
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import HttpResponse
from videomme_pipeline.models.video_llm import Generation, Request

FRAMES = 64
FRAME_BYTES = 40_000
QUESTIONS = 3
WAYS = ("create", "post", "httpx2", "ours", "socket")

Ask = Callable[[Request], Awaitable[object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("--rounds", type=int, help="runs per median (3, or 1 with --quick)")
    parser.add_argument("--ways", default=",".join(WAYS), help="the ways to measure")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    ways = arguments.ways.split(",")
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    result = measure(ways, rounds=rounds, quick=arguments.quick)
    if arguments.json:
        print(json.dumps(result))


def measure(ways: Sequence[str], *, rounds: int, quick: bool) -> dict[str, Any]:
    in_flight = (16,) if quick else (8, 64, 256)
    rows: list[dict[str, Any]] = []
    for count in in_flight:
        requests = 30 if quick else max(100, count)
        results: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                results[way].append(_in_own_process(way, count, requests))
        for way in ways:
            row = {"way": way, "in_flight": count, "requests": requests} | _medians(results[way])
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            rows.append(row)
    png = round(_png_ms_per_request(), 1)
    print(f"way png  cpu_ms_per_request {png}")
    return {
        "frames": FRAMES,
        "frame_bytes": FRAME_BYTES,
        "rounds": rounds,
        "rows": rows,
        "png_cpu_ms_per_request": png,
    }


def _png_ms_per_request(sampled: int = 8) -> float:
    """CPU time to encode 64 frames of 640 × 360 as PNG and base64, estimated from `sampled`."""
    height, width = 360, 640
    pictures = [Image.fromarray(draw_frame(number, width, height)) for number in range(sampled)]
    cpu = time.process_time()
    for picture in pictures:
        file = io.BytesIO()
        picture.save(file, format="PNG")
        base64.b64encode(file.getvalue())
    return (time.process_time() - cpu) / sampled * FRAMES * 1000


def _in_own_process(way: str, in_flight: int, requests: int) -> dict[str, float]:
    with (
        endpoint(delay_seconds=0.2) as server,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process,
    ):
        figures = process.submit(_measure_way, way, server.base_url, in_flight, requests).result()
        return figures | {"server_cpu_ms_per_request": server.cpu_seconds / requests * 1000}


def _medians(results: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(row[name] for row in results), 2) for name in results[0]}


def _measure_way(way: str, base_url: str, in_flight: int, requests: int) -> dict[str, float]:
    return asyncio.run(_ask_all(way, base_url, in_flight, requests))


async def _ask_all(way: str, base_url: str, in_flight: int, count: int) -> dict[str, float]:
    # Always eight videos, so that memory shows requests and not frames.
    sets = [frame_set(video, FRAMES, FRAME_BYTES) for video in range(8)]
    asked = [question(video, number) for video in range(8) for number in range(1, QUESTIONS + 1)]
    requests = [
        Request(
            question=item,
            prompt=prompt(item, FRAMES),
            frames=sets[int(item.video_id)],
            generation=Generation(),
        )
        for item in asked
    ]
    ask, close = _way(way, base_url)
    await ask(requests[0])
    gate = asyncio.Semaphore(in_flight)
    stalls: list[float] = []
    ticking = asyncio.create_task(_tick(stalls))

    failed = 0

    async def ask_in_turn(request: Request) -> None:
        nonlocal failed
        async with gate:
            try:
                await ask(request)
            except openai.APIError:
                # A stalled event loop does not connect in time.
                failed += 1

    before_bytes = _peak_bytes()
    cpu, wall = time.process_time(), time.perf_counter()
    order = random.Random(1).choices(requests, k=count)
    await asyncio.gather(*(ask_in_turn(request) for request in order))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    ticking.cancel()
    await close()
    return {
        "cpu_ms_per_request": cpu / count * 1000,
        "failed": failed,
        "requests_per_second": count / wall,
        "peak_mb_over_idle": (_peak_bytes() - before_bytes) / 1e6,
        "longest_stall_ms": max(stalls, default=0.0) * 1000,
    }


async def _tick(stalls: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.01)
        stalls.append(time.perf_counter() - before - 0.01)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class HttpxModel(OpenAICompatibleModel):
    """`OpenAICompatibleModel` with `httpx2.AsyncClient` as its transport."""

    def __init__(self, spec: EndpointSpec, *, api_key: str) -> None:
        super().__init__(spec, api_key=api_key)
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        self._client: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        await super().close()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _post(self, request: Request) -> HttpResponse:
        if self._client is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=1024)
            self._client = httpx2.AsyncClient(limits=limits, timeout=600.0)
        body = request_body(self.spec, request, self._recent.part_of(self.spec, request))
        response = await self._client.post(
            f"{self.spec.endpoint}/chat/completions",
            content=body.stream(self._uploads),
            headers={**self._headers, "Content-Length": str(body.size)},
        )
        return HttpResponse(response.status_code, response.headers, response.content)


def _way(way: str, base_url: str) -> tuple[Ask, Callable[[], Awaitable[None]]]:
    if way == "ours":
        model = OpenAICompatibleModel(EndpointSpec(name="m", base_url=base_url), api_key="key")
        return model.respond, model.close
    if way == "httpx2":
        streamed = HttpxModel(EndpointSpec(name="m", base_url=base_url), api_key="key")
        return streamed.respond, streamed.close
    if way == "socket":
        body = orjson.dumps(create_body(_first_request()))
        return lambda _request: write_bytes(base_url, body), _nothing
    client = openai.AsyncOpenAI(api_key="key", base_url=base_url, max_retries=0)
    if way == "create":
        return lambda request: client.chat.completions.create(**create_body(request)), client.close
    return lambda request: _post(client, request), client.close


async def _post(client: openai.AsyncOpenAI, request: Request) -> object:
    return await client.post(
        "/chat/completions",
        cast_to=httpx2.Response,
        content=orjson.dumps(create_body(request)),
        options={"headers": {"Content-Type": "application/json"}},
    )


async def write_bytes(base_url: str, body: bytes) -> None:
    """Send `body` over a new connection, and wait for the head of the response."""
    url = httpx2.URL(base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body))
    for start in range(0, len(body), CHUNK_BYTES):
        writer.write(body[start : start + CHUNK_BYTES])
        await writer.drain()
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def _nothing() -> None:
    return


def _first_request() -> Request:
    item = question(0, 1)
    return Request(
        question=item,
        prompt=prompt(item, FRAMES),
        frames=frame_set(0, FRAMES, FRAME_BYTES),
        generation=Generation(),
    )


def create_body(request: Request) -> dict[str, Any]:
    """The arguments of `chat.completions.create` for `request`."""
    pictures = [base64.b64encode(frame.picture).decode() for frame in request.frames.frames]
    urls = [{"url": f"data:image/jpeg;base64,{picture}"} for picture in pictures]
    parts = chain(
        ({"type": "image_url", "image_url": url} for url in urls),
        ({"type": "text", "text": request.prompt.text},),
    )
    return {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": list(parts)}]}


if __name__ == "__main__":
    main()
