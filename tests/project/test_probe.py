"""One small request to a real server."""

import pytest

from tests.support.model_server import Fault, ModelServer, always
from videomme_pipeline.models.openai.spec import EndpointSpec, ServiceTier
from videomme_pipeline.project.probe import probe
from videomme_pipeline.videos.integrity import Verdict


def endpoint(server: ModelServer, **settings: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "m", "base_url": server.base_url, **settings})


def test_the_answer_and_its_prompt_tokens_are_shown() -> None:
    with ModelServer(answer=lambda _: "B") as server:
        finding = probe(endpoint(server))
    assert server.request_count == 1
    assert (finding.verdict, finding.check) == (Verdict.OK, "request to m")
    assert finding.message.startswith("answered 'B' after ")
    assert finding.message.endswith(" prompt tokens")


def test_a_batch_model_is_asked_directly() -> None:
    with ModelServer(answer=lambda _: "B") as server:
        finding = probe(endpoint(server, service_tier=ServiceTier.BATCH))
    assert finding.verdict is Verdict.OK, finding.message


@pytest.mark.parametrize("fault", [Fault.NO_VISION, Fault.UNAUTHORIZED, Fault.UNAVAILABLE])
def test_a_failure_is_reported_after_one_attempt(fault: Fault) -> None:
    with ModelServer(answer=lambda _: "B", faults=always(fault)) as server:
        finding = probe(endpoint(server))
    assert (finding.verdict, server.request_count) == (Verdict.FAILED, 1)
