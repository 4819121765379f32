"""Facts that servers report about themselves, in the forms of their engines."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.model_server import ModelServer
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.models.endpoint.reported import reported_identity
from videomme_pipeline.models.endpoint.spec import EndpointSpec

REPORTS: Mapping[Profile, Mapping[str, Any]] = {
    Profile.VLLM: {
        "/version": {"version": "0.33.0"},
        "/v1/models": {"data": [{"id": "served", "root": "/weights/a"}]},
    },
    Profile.SGLANG: {
        "/server_info": {"version": "0.6.1", "model_path": "/weights/a", "dtype": "auto"}
    },
    Profile.LLAMA_CPP: {"/props": {"build_info": "b9000-1234", "model_path": "/weights/a"}},
    Profile.OLLAMA: {"/api/version": {"version": "0.20.1"}},
}


@pytest.mark.parametrize("profile", REPORTS)
def test_the_version_and_the_weights_are_reported(profile: Profile) -> None:
    with ModelServer(reports=dict(REPORTS[profile])) as server:
        found = reported_identity(server.base_url, profile, "served", None)
    assert found is not None
    assert found.engine == profile.value
    assert found.version in ("0.33.0", "0.6.1", "b9000-1234", "0.20.1")
    assert found.model == (None if profile is Profile.OLLAMA else "/weights/a")


def test_a_server_that_is_down_or_reports_nothing_is_unknown() -> None:
    with ModelServer() as server:
        assert reported_identity(server.base_url, Profile.VLLM, "served", None) is None
    assert reported_identity(server.base_url, Profile.VLLM, "served", None) is None
    assert reported_identity(server.base_url, Profile.GENERIC, "served", None) is None


def test_a_chat_template_is_known_by_its_hash() -> None:
    found = []
    for template in ("a", "b", "b"):
        reports = {"/props": {"build_info": "b1", "chat_template": template}}
        with ModelServer(reports=reports) as server:
            found.append(reported_identity(server.base_url, Profile.LLAMA_CPP, "served", None))
    one, two, three = found
    assert one is not None
    assert two is not None
    assert one.differences(two).keys() == {"chat_template_hash"}
    assert two == three


def test_endpoints_that_differ_are_an_error() -> None:
    with (
        ModelServer(reports={"/version": {"version": "0.33.0"}}) as one,
        ModelServer(reports={"/version": {"version": "0.34.0"}}) as two,
    ):
        urls = [one.base_url, two.base_url]
        spec = EndpointSpec.model_validate({"name": "a", "profile": "vllm", "base_url": urls})
        with pytest.raises(ModelError, match=r"version 0.34.0 instead of 0.33.0"):
            spec.reported_server()
        two.reports["/version"] = {"version": "0.33.0"}
        assert spec.reported_server() == reported_identity(urls[0], Profile.VLLM, "a", None)
