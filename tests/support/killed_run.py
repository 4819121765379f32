"""Collect one evaluation in a process that tests kill. Arguments: URL, journal, videos.

The path of a models.yaml with the program `agent` can stand for the URL. With a fourth argument,
the questions on each video are one conversation.
"""

import sys
from dataclasses import replace
from pathlib import Path

from tests.support.made_up_requests import videos
from videomme_pipeline.models.catalog import Catalog, build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits, ModelSpec
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan


def main(address: str, journal_path: str, count: str, conversation: str = "") -> None:
    spec: ModelSpec
    if address.endswith(".yaml"):
        spec = Catalog.read(Path(address)).find("agent")
    else:
        limits = Limits(concurrency=8)
        spec = EndpointSpec(name="served", base_url=address, limits=limits)
    plan = RequestPlan(evaluation="test", limits=spec.limits)
    requests = [replace(v, is_conversation=bool(conversation)) for v in videos(int(count))]
    with Journal(Path(journal_path)) as journal:
        model = build_model(spec)
        for response in collect(requests, model, journal, plan):
            # This line acknowledges the response: it must survive a kill.
            sys.stdout.write(f"{response.question_id} {response.raw_output}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
