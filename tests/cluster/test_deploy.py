"""deploy/: files that are valid, and that name only what exists."""

import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import PROCESS_TAG, RunProcess

DEPLOY = ROOT / "deploy"
EXTRAS = ("cluster", "kubernetes", "postgres", "s3")
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def values_of(key: str, tree: Any) -> Iterator[Any]:
    """Every value of a key, at any depth."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == key:
                yield value
            yield from values_of(key, value)
    elif isinstance(tree, list):
        for value in tree:
            yield from values_of(key, value)


def pinned(lock: Path) -> dict[str, str]:
    return dict(PINNED.findall(lock.read_text(encoding="utf-8")))


def test_compose_is_valid() -> None:
    jsonschema.validate(read("compose.yaml"), get_builtin_schema("vendor.compose-spec"))


def test_services_of_compose_wait_for_what_exists() -> None:
    compose = read("compose.yaml")
    services = compose["services"]
    for service in services.values():
        for name, dependency in service.get("depends_on", {}).items():
            if dependency["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
            else:
                assert services[name]["restart"] == "on-failure", "it has to end"
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            is_path = source.startswith(".")
            exists = (DEPLOY / source).exists() if is_path else source in compose["volumes"]
            assert exists, volume
    hosts = {entry["grpc_server"]["host"] for entry in read("workspace.yaml")["load_from"]}
    assert hosts <= set(services)
    assert services["code"]["hostname"] == "code", "end_runs.py needs a name of its own"


def test_helm_values_name_what_the_manifests_and_commands_create() -> None:
    values = read("helm-values.yaml")
    commands = (DEPLOY / "helm-values.yaml").read_text(encoding="utf-8")
    created = dict(re.findall(r"create secret generic (\S+) --from-literal=(\S+?)=", commands))
    (claim,) = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert set(values_of("claimName", values)) == {claim["metadata"]["name"]}
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert {secret["name"] for secret in deployment["envSecrets"]} <= set(created)
    postgres = values["global"]["postgresqlSecretName"]
    assert created[postgres] == "postgresql-password", "the chart reads this key"
    assert not values["generatePostgresqlPasswordSecret"], "two owners of one secret"
    for reference in values_of("secretKeyRef", values):
        assert created[reference["name"]] == reference["key"]


def test_pods_of_runs_have_limits_and_a_pinned_image() -> None:
    values = read("helm-values.yaml")
    job = read("frames-job.yaml")
    for pod in (values["runLauncher"], job):
        (resources,) = values_of("resources", pod)
        assert resources["limits"].keys() == resources["requests"].keys() == {"cpu", "memory"}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    assert set(values_of("tag", values)) == {version}
    assert [image.partition(":")[2] for image in values_of("image", job)] == [version]
    (claim,) = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    assert list(values_of("claimName", job)) == [claim["metadata"]["name"]]


def test_helm_values_set_the_instance_as_the_project_does() -> None:
    values = read("helm-values.yaml")
    ours = yaml.safe_load((ROOT / "assets" / "dagster.yaml").read_text(encoding="utf-8"))
    for key in ("freshness", "nux"):
        assert values["additionalInstanceConfig"][key] == ours[key]
    assert values["telemetry"] == ours["telemetry"]
    assert values["dagsterDaemon"]["runRetries"] == ours["run_retries"]


def test_environment_variables_are_ones_that_the_project_reads() -> None:
    used = {
        name
        for path in DEPLOY.iterdir()
        for name in re.findall(r"\bVIDEOMME_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "videomme_pipeline").rglob("*.py")
    )
    own = {"VIDEOMME"}  # of evaluate.sbatch
    assert {name for name in used - own if f'"{name}"' not in source} == set()
    assert "VIDEOMME_DATA" in used


def test_the_image_installs_the_lock_that_its_extras_need() -> None:
    """`make lock` writes it; this notices a dependency that was changed without."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    optional = project["project"]["optional-dependencies"]
    needed = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["build"],
        *(line for extra in EXTRAS for line in optional[extra]),
    ]
    locked, ours = pinned(DEPLOY / "requirements.lock"), pinned(ROOT / "requirements.lock")
    for requirement in map(Requirement, needed):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
    shared = locked.keys() & ours.keys()
    assert {name: locked[name] for name in shared} == {name: ours[name] for name in shared}
    demo = {canonicalize_name(Requirement(line).name) for line in optional["demo"]}
    assert demo.isdisjoint(locked)
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes -r deploy/requirements.lock" in dockerfile
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = " ".join(f"--extra {extra}" for extra in EXTRAS)
    assert f"{extras} --group build \\\n" in makefile


def test_kubernetes_accepts_the_manifest() -> None:
    pytest.importorskip("kubernetes_validate")
    command = [sys.executable, "-m", "kubernetes_validate", "--strict"]
    subprocess.run([*command, str(DEPLOY / "kubernetes.yaml")], check=True, capture_output=True)


def test_a_restarted_code_location_ends_the_runs_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))

    @dg.job
    def idle() -> None: ...

    def start_run(instance: dg.DagsterInstance, **change: Any) -> str:
        run_id = str(uuid4())
        process = replace(RunProcess.here(run_id=run_id), **change)
        instance.create_run_for_job(
            idle,
            run_id=run_id,
            status=dg.DagsterRunStatus.STARTED,
            tags={PROCESS_TAG: process.as_json()},
        )
        return run_id

    with open_instance() as instance:
        before = start_run(instance, namespace="of the container before")
        elsewhere = start_run(instance, namespace="of another container", host="another container")
        runpy.run_path(str(DEPLOY / "end_runs.py"), run_name="__main__")
        statuses = {run.run_id: run.status for run in instance.get_runs()}
    assert statuses == {
        before: dg.DagsterRunStatus.FAILURE,
        elsewhere: dg.DagsterRunStatus.STARTED,
    }
