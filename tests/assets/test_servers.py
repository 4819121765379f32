"""Model servers in runs: a changed one makes its responses stale, and managed ones are started."""

import shutil
import sys
from pathlib import Path

import dagster as dg
import psutil
import pytest
import yaml

from tests.support.model_server import ModelServer
from tests.support.projects import SERVED, WriteProject, WriteServed
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.project.project import Project
from videomme_pipeline.responses.response import Response
from videomme_pipeline.stages.explain import Explanation
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.storage.tables import read_rows

VERSION = "/version"


def stale(project: Project) -> set[str]:
    """The assets with partitions that are not fresh."""
    states = plan_project(project, ["served"])
    not_fresh = [state for state in states if state.freshness is not Freshness.FRESH]
    return {state.stage.label for state in not_fresh}


def reasons(project: Project) -> set[str]:
    """Why responses are not fresh."""
    states = plan_project(project, ["served"])
    explanation = Explanation(states)
    responses = [state for state in states if state.stage.name == "responses"]
    return {str(reason) for state in responses for reason in explanation.reasons(state)}


def questions(server: ModelServer) -> int:
    """The number of requests with a question. The others ask for the identity of the server."""
    return server.request_count - server.request_counts["."]


def labels(project: Project) -> set[str | None]:
    path = stored_file(project.store, "responses", "videomme", "served", "002")
    return {row.server for row in read_rows(path, Response)}


def engines() -> list[psutil.Process]:
    """The servers that this process has started."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "tests.support.engine" in child.cmdline()]


@pytest.mark.slow
def test_responses_are_stale_while_another_server_answers(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer(reports={VERSION: {"version": "1"}}) as server:
        project = write_served(server.base_url, profile="vllm")
        refresh_project(project, instance, ["served"])
        assert labels(project) == {'{"engine":"vllm","system_fingerprint":"fp_1","version":"1"}'}
        asked = questions(server)
        server.reports[VERSION] = {"version": "2"}
        assert "videomme/responses" in stale(project)
        assert reasons(project) == {"other server: version 2 instead of 1"}
        refresh_project(project, instance, ["served"])
        assert labels(project) == {'{"engine":"vllm","system_fingerprint":"fp_1","version":"2"}'}
        assert questions(server) == 2 * asked
        server.reports[VERSION] = {"version": "1"}
        assert refresh_project(project, instance, ["served"]).not_fresh == []
        assert labels(project) == {'{"engine":"vllm","system_fingerprint":"fp_1","version":"1"}'}
        assert questions(server) == 2 * asked
        (folder,) = project.store.path("servers").iterdir()
        *_, record = sorted(folder.iterdir())
        content = record.read_bytes()
        record.write_bytes(b"{")
        assert "videomme/responses" in stale(project), "the other assets are planned"
        record.write_bytes(content)
    assert stale(project) == set()


@pytest.mark.slow
def test_a_server_that_is_replaced_after_planning_is_not_asked(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer(reports={VERSION: {"version": "1"}}) as server:
        project = write_served(server.base_url, profile="vllm")
        spec = project.configuration.catalog.find("served")
        assert isinstance(spec, EndpointSpec)
        project.servers.observe([spec])
        server.reports[VERSION] = {"version": "2"}
        with pytest.raises(ModelError, match=r"version 2 instead of 1\. The stored answers are"):
            project.servers.check(spec, spec)
        project.servers.check(project.server_record.with_server(spec), spec)


def write_managed(write_project: WriteProject, root: Path, **changes: object) -> Project:
    """A project of one video whose model is served by two engines that runs start."""
    serve = {
        "engine": "vllm",
        "weights": str(root),
        "replicas": 2,
        "command": [sys.executable, "-m", "tests.support.engine"],
        **changes,
    }
    folder = root / "configuration"
    folder.mkdir(exist_ok=True)
    (folder / "models.yaml").write_text(yaml.safe_dump({"served": {"serve": serve}}))
    return write_project({"served": SERVED}, videos=["002"])


@pytest.mark.slow
def test_a_run_starts_servers_only_to_ask_them(
    write_project: WriteProject, root: Path, instance: dg.DagsterInstance
) -> None:
    project = write_managed(write_project, root)
    logs = project.store.server_logs
    assert refresh_project(project, instance, ["served"]).not_fresh == []
    assert sorted(log.name for log in logs.iterdir()) == ["served.1.log", "served.2.log"]
    (label,) = labels(project)
    assert f'"model":"{root}"' in str(label)
    assert engines() == []
    shutil.rmtree(logs)
    stored_file(project.store, "responses", "videomme", "served", "002").unlink()
    assert refresh_project(project, instance, ["served"]).not_fresh == []
    assert not logs.exists()
