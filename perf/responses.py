"""Time of a whole evaluation compared with the ideal time, and time to resume a finished one.

    python -m perf.responses [--quick] [--delay 2] [--json]

2,700 questions on 900 videos with 32 frames of 40 KB each, 64 requests in flight, and an endpoint
in another process that answers after 200 ms. Real models need about 2 s.

- The ideal time is the longer of two: 2,700 / 64 rounds of the delay, or the time in which
  ready-made bytes pass through the loopback interface without any delay, measured in the same run.
- `without_client` is the time for the same ready-made bytes with the delay. No client is faster.
- `create` is plain `AsyncOpenAI.chat.completions.create` with a semaphore. It answers fewer
  questions, since it is slow.
- `postgres_more_cpu_ms_per_question` is the CPU time of this process with the journal in
  PostgreSQL, less that with SQLite, if a server is installed. Both flush every commit to the disk.
- `httpx2` is our model with `httpx2.AsyncClient` as transport.
"""

import argparse
import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import openai
import orjson

from perf.endpoint import endpoint
from perf.requests import HttpxModel, create_body, write_bytes
from tests.support.made_up_requests import frame_set, videos
from tests.support.postgres_server import find_postgres, running_postgres
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import Generation, Request
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.journal_databases import JournalDatabase
from videomme_pipeline.responses.journal_postgres import PostgresJournal
from videomme_pipeline.responses.requests import RequestPlan, VideoRequests

FRAMES = 32
FRAME_BYTES = 40_000
QUESTIONS_PER_VIDEO = 3
IN_FLIGHT = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="60 videos instead of 900")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds until an answer")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result = measure(*((60, 20) if arguments.quick else (900, 60)), arguments.delay)
    for name, value in result.items():
        print(f"{name:36} {value}")
    if arguments.json:
        print(json.dumps(result))


def measure(video_count: int, create_videos: int, delay_seconds: float) -> dict[str, Any]:
    """Figures by name. The OpenAI client asks the questions about `create_videos` videos."""
    sets = [frame_set(video, FRAMES, FRAME_BYTES) for video in range(16)]
    asked = videos(video_count, QUESTIONS_PER_VIDEO, frames=FRAMES, load=lambda v: sets[v % 16])
    questions = video_count * QUESTIONS_PER_VIDEO
    with tempfile.TemporaryDirectory() as folder:
        with endpoint(0.0) as server:
            limit = asyncio.run(_bodies_per_second(asked[0], server.base_url, questions // 4))
        with endpoint(delay_seconds) as server:
            cpu = time.process_time()
            seconds = _collect(Path(folder) / "journal", asked, server.base_url)
            cpu = time.process_time() - cpu
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            before, server_cpu = server.requests, server.cpu_seconds
            resumed = _collect(Path(folder) / "journal", asked, server.base_url)
            resumed_requests = server.requests - before
        postgres_cpu = _cpu_with_postgres(asked, delay_seconds)
        with endpoint(delay_seconds) as server:
            httpx2_seconds = _collect(Path(folder) / "httpx2", asked, server.base_url, HttpxModel)
        with endpoint(delay_seconds) as server:
            rate = asyncio.run(_bodies_per_second(asked[0], server.base_url, questions))
        with endpoint(delay_seconds) as server:
            create_seconds = asyncio.run(_create(asked[:create_videos], server.base_url))
    by_delay = ceil(questions / IN_FLIGHT) * delay_seconds
    ideal = max(by_delay, questions / limit)
    create_questions = create_videos * QUESTIONS_PER_VIDEO
    create_rate = create_questions / create_seconds
    return {
        "questions": questions,
        "ideal_by_delay_seconds": round(by_delay, 2),
        "ideal_by_loopback_seconds": round(questions / limit, 2),
        "bound_by": "delay" if ideal == by_delay else "loopback",
        "seconds": round(seconds, 2),
        "without_client_seconds": round(questions / rate, 2),
        "share_of_ideal": round(ideal / seconds, 3),
        "httpx2_share_of_ideal": round(ideal / httpx2_seconds, 3),
        "cpu_ms_per_question": round(cpu / questions * 1000, 2),
        "postgres_more_cpu_ms_per_question": (
            None if postgres_cpu is None else round((postgres_cpu - cpu) / questions * 1000, 2)
        ),
        "server_cpu_ms_per_question": round(server_cpu / questions * 1000, 2),
        "peak_mb": round(peak),
        "create_questions": create_questions,
        "questions_per_second": round(questions / seconds, 1),
        "create_questions_per_second": round(create_rate, 1),
        "times_faster_than_create": round(questions / seconds / create_rate, 2),
        "resume_seconds": round(resumed, 2),
        "resume_requests": resumed_requests,
    }


async def _bodies_per_second(video: VideoRequests, base_url: str, count: int) -> float:
    """Ready-made bodies of this size per second through the loopback interface."""
    item, text = video.questions[0]
    request = Request(
        question=item, prompt=text, frames=video.load_frames(), generation=Generation()
    )
    body = orjson.dumps(create_body(request))
    in_flight = asyncio.Semaphore(IN_FLIGHT)

    async def send() -> None:
        async with in_flight:
            await write_bytes(base_url, body)

    began = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(count)))
    return count / (time.perf_counter() - began)


def _cpu_with_postgres(asked: Sequence[VideoRequests], delay_seconds: float) -> float | None:
    """CPU seconds of a collection whose journal is in PostgreSQL, or None without a server."""
    if find_postgres() is None:
        return None
    with running_postgres() as url, endpoint(delay_seconds) as server:
        cpu = time.process_time()
        _collect(PostgresJournal(url), asked, server.base_url)
        return time.process_time() - cpu


def _collect(
    database: JournalDatabase | Path,
    asked: Sequence[VideoRequests],
    base_url: str,
    model_class: type[OpenAICompatibleModel | HttpxModel] = OpenAICompatibleModel,
) -> float:
    """Seconds for one collection."""
    model = model_class(EndpointSpec(name="m", base_url=base_url), api_key="key")
    plan = RequestPlan(evaluation="measured", limits=Limits(concurrency=IN_FLIGHT))
    began = time.perf_counter()
    with Journal(database) as journal:
        answered = sum(1 for item in collect(asked, model, journal, plan) if not item.error)
    seconds = time.perf_counter() - began
    if answered != sum(len(video.questions) for video in asked):
        raise RuntimeError(f"only {answered} questions were answered")
    return seconds


async def _create(asked: Sequence[VideoRequests], base_url: str) -> float:
    """Seconds for the same questions with the OpenAI client."""
    in_flight = asyncio.Semaphore(IN_FLIGHT)
    # This event loop stalls for longer than the default connect timeout of 5 s.
    client = openai.AsyncOpenAI(api_key="key", base_url=base_url, max_retries=0, timeout=600.0)

    async def ask(request: Request) -> None:
        async with in_flight:
            await client.chat.completions.create(**create_body(request))

    requests = [
        Request(question=item, prompt=text, frames=video.load_frames(), generation=Generation())
        for video in asked
        for item, text in video.questions
    ]
    began = time.perf_counter()
    await asyncio.gather(*(ask(request) for request in requests))
    seconds = time.perf_counter() - began
    await client.close()
    return seconds


if __name__ == "__main__":
    main()
