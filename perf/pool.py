"""Throughput and prefix sharing of a pool of three endpoints, one of which is stopped for a while.

    python -m perf.pool [--quick] [--json]

- `throughput` is the work that was done as a share of the ideal: 8 requests in flight at each
  endpoint for all the time in which it was up. Each request takes a second. `of_one_endpoint` is
  the same for one endpoint without an outage, measured before.
- `prefix_sharing` is the share of cached prompt tokens, as a share of that of one endpoint.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.made_up_requests import videos
from tests.support.model_server import ModelServer
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits, Schedule
from videomme_pipeline.responses.collect import AskingProgress, collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response

QUESTIONS_PER_VIDEO = 3
IN_FLIGHT = 8
DELAY_SECONDS = 1.0

OnAnswer = Callable[[int], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="120 videos instead of 480")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result = measure(120 if arguments.quick else 480)
    for name, value in result.items():
        print(f"{name:20} {value}")
    if arguments.json:
        print(json.dumps(result))


def measure(video_count: int) -> dict[str, float]:
    """Figures by name."""
    with server() as only:
        ask([only], 1, lambda _: None)  # imports what a first request needs
        began = time.monotonic()
        single = ask([only], video_count // 3, lambda _: None)
        of_one = throughput(single, time.monotonic() - began)
    servers = [server().__enter__() for _ in range(3)]
    outage = Outage(servers[1], video_count)
    began = time.monotonic()
    responses = ask(servers, video_count, outage)
    seconds = time.monotonic() - began
    for running in (servers[0], outage.server, servers[2]):
        running.__exit__(None, None, None)
    assert all(response.raw_output for response in responses)
    up_seconds = 3 * seconds - (outage.ended - outage.began)
    return {
        "questions": len(responses),
        "seconds": round(seconds, 1),
        "outage_seconds": round(outage.ended - outage.began, 1),
        "throughput": throughput(responses, up_seconds),
        "of_one_endpoint": of_one,
        "prefix_sharing": round(cached_share(responses) / cached_share(single), 3),
    }


def throughput(responses: list[Response], up_seconds: float) -> float:
    return round(len(responses) * DELAY_SECONDS / (up_seconds * IN_FLIGHT), 3)


class Outage:
    """Stops a server after a third of the answers, and starts it again after half of them."""

    def __init__(self, server: ModelServer, video_count: int) -> None:
        self.server = server
        self.began = self.ended = 0.0
        self._questions = video_count * QUESTIONS_PER_VIDEO

    def __call__(self, answered: int) -> None:
        if not self.began and answered >= self._questions / 3:
            self.began = time.monotonic()
            self.server.__exit__(None, None, None)
        if self.began and not self.ended and answered >= self._questions / 2:
            self.ended = time.monotonic()
            self.server = server(self.server.port).__enter__()


def server(port: int = 0) -> ModelServer:
    return ModelServer(delay_seconds=DELAY_SECONDS, caches_prefixes=True, port=port)


def ask(servers: list[ModelServer], video_count: int, on_answer: OnAnswer) -> list[Response]:
    urls = tuple(server.base_url for server in servers)
    spec = EndpointSpec(name="served", base_url=urls, limits=Limits(concurrency=IN_FLIGHT))
    plan = RequestPlan(evaluation="pool", limits=spec.limits, schedule=Schedule.LEADER_FOLLOWER)

    def on_progress(progress: AskingProgress) -> None:
        on_answer(progress.answered)

    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal") as journal:
        model = build_model(spec, {})
        asked = videos(video_count, QUESTIONS_PER_VIDEO)
        return list(collect(asked, model, journal, plan, on_progress=on_progress))


def cached_share(responses: list[Response]) -> float:
    prompt = sum(response.usage.prompt_tokens or 0 for response in responses)
    return sum(response.usage.cached_tokens or 0 for response in responses) / prompt


if __name__ == "__main__":
    main()
