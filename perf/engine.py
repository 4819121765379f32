"""Cached tokens, load and throughput of real vLLM with our client.

    python -m perf.engine [--quick] [--json]

VIDEOMME_VLLM is the folder of an environment with vLLM. The model is a tiny Qwen2.5-VL with random
weights, so only shares and counts say something about larger models.

- `cached_share` is the share of cached prompt tokens, for each order of the questions of a video.
  The questions share the frames, so with 3 of them at most two thirds can be cached.
- `in_flight` is the mean number of requests that vLLM has, 16 at most. It is less if the engine
  waits for the client, and at the start and the end of a measurement.
- `requests_in_engine` is the mean number of those that vLLM reports as running or waiting; it
  prepares the others. `engine_without_request` is the share of the time in which there are none.
- `client_cpu_ms` is the CPU time of our process per request, with drawing and looking at vLLM.
- `pool_of_two` is the throughput of two replicas as a multiple of that of one.
"""

import argparse
import io
import json
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.made_up_requests import frame_set, videos
from tests.support.real_vllm import VllmServer, running_vllm
from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.served import get
from videomme_pipeline.models.spec import Limits, Schedule
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response

IN_FLIGHT, FRAMES, PIXELS = 16, 8, 224
LOOK_SECONDS = 0.05
_REQUESTS = re.compile(r"^vllm:num_requests_(?:running|waiting){.*} (\S+)$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="8 videos instead of 60")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result: dict[str, float] = {}
    for figures in measure(8 if arguments.quick else 60):
        result |= figures
        for name, value in figures.items():
            print(f"{name:40} {value}", flush=True)
    if arguments.json:
        print(json.dumps(result))


def measure(video_count: int) -> Iterator[dict[str, float]]:
    """Yield figures by name."""
    speeds: dict[Schedule, float] = {}
    with served(1) as single:
        ask(single, 4, Schedule.TOGETHER, seed=9)  # the first requests load what vLLM needs
        for number, schedule in enumerate(Schedule):
            began, began_cpu = time.monotonic(), time.process_time()
            with Load(single.urls[0]) as load:
                responses = ask(single, video_count, schedule, seed=number)
            seconds, cpu_seconds = time.monotonic() - began, time.process_time() - began_cpu
            latencies = sum(response.served.latency_seconds or 0.0 for response in responses)
            tokens = sum(response.usage.prompt_tokens or 0 for response in responses)
            cached = sum(response.usage.cached_tokens or 0 for response in responses)
            speeds[schedule] = len(responses) / seconds
            yield {
                f"cached_share.{schedule.value}": round(cached / tokens, 3),
                f"questions_per_second.{schedule.value}": round(speeds[schedule], 2),
                f"in_flight.{schedule.value}": round(latencies / seconds, 1),
                f"engine_without_request.{schedule.value}": load.share_without,
                f"requests_in_engine.{schedule.value}": load.mean,
                f"client_cpu_ms.{schedule.value}": round(1000 * cpu_seconds / len(responses), 1),
            }
    with served(2) as pool:
        ask(pool, 4, Schedule.TOGETHER, seed=9)
        began = time.monotonic()
        responses = ask(pool, video_count, Schedule.TOGETHER, seed=0)
        speed = len(responses) / (time.monotonic() - began)
    yield {"pool_of_two": round(speed / speeds[Schedule.TOGETHER], 2)}


@contextmanager
def served(replicas: int) -> Iterator[VllmServer]:
    with tempfile.TemporaryDirectory() as folder:
        args = {"limit-mm-per-prompt": {"image": FRAMES}}
        with running_vllm(Path(folder), "qwen2_5_vl", args, replicas=replicas) as servers:
            yield servers


class Load:
    """The numbers of requests that vLLM reports during a block of `with`."""

    def __init__(self, url: str) -> None:
        self._url = url.removesuffix("/v1") + "/metrics"
        self._counts: list[float] = []
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    @property
    def share_without(self) -> float:
        return round(sum(count == 0 for count in self._counts) / len(self._counts), 3)

    @property
    def mean(self) -> float:
        return round(sum(self._counts) / len(self._counts), 1)

    def _look(self) -> None:
        while not self._has_ended.wait(LOOK_SECONDS):
            with suppress(ModelError):
                numbers = _REQUESTS.findall(get(self._url, None).decode())
                self._counts.append(sum(map(float, numbers)))


def ask(servers: VllmServer, video_count: int, schedule: Schedule, *, seed: int) -> list[Response]:
    """The responses to 3 questions about each video. Another seed has other pictures."""
    spec = servers.spec(base_url=servers.urls, limits=Limits(concurrency=IN_FLIGHT))
    plan = RequestPlan(
        evaluation="engine",
        generation=Generation(max_tokens=4, constrain_answer=True),
        limits=spec.limits,
        schedule=schedule,
    )
    asked = videos(video_count, frames=FRAMES, load=lambda video: drawn(1000 * seed + video))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal") as journal:
        responses = list(collect(asked, build_model(spec, {}), journal, plan))
    assert all(response.raw_output for response in responses)
    return responses


def drawn(number: int) -> FrameSet:
    """Frames with random colors, which no other number has."""
    chance = np.random.default_rng(number)
    frames = frame_set(number, FRAMES)
    return replace(
        frames,
        frames=tuple(
            replace(frame, width=PIXELS, height=PIXELS, picture=_jpeg(chance))
            for frame in frames.frames
        ),
    )


def _jpeg(chance: np.random.Generator) -> bytes:
    sink = io.BytesIO()
    colors = chance.integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(colors).resize((PIXELS, PIXELS)).save(sink, "JPEG")
    return sink.getvalue()


if __name__ == "__main__":
    main()
