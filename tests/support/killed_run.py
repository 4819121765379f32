"""Collect one evaluation in a process that tests kill. Arguments: URL, journal, videos."""

import sys
from pathlib import Path

from tests.support.made_up_requests import videos
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan


def main(base_url: str, journal_path: str, count: str) -> None:
    model = OpenAICompatibleModel(EndpointSpec(name="served", base_url=base_url), api_key="key")
    plan = RequestPlan(evaluation="test", limits=Limits(concurrency=8))
    with Journal(Path(journal_path)) as journal:
        for response in collect(videos(int(count)), model, journal, plan):
            # This line acknowledges the response: it must survive a kill.
            sys.stdout.write(f"{response.question_id} {response.raw_output}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
