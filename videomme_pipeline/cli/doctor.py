"""The command `doctor`: checks what a run needs, and what an endpoint does with pictures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import AsJson
from videomme_pipeline.cli.context import (
    announce,
    end_with_findings,
    note,
    open_project,
    showing_progress,
)
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from videomme_pipeline.errors import Finding
    from videomme_pipeline.models.spec import ModelSpec
    from videomme_pipeline.project.project import Project

commands = typer.Typer()


@commands.command(epilog="Example: videomme doctor")
def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Check only this model, and send it one small request, which may cost a fraction "
            "of a cent.",
        ),
    ] = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Send the model six requests instead, which show from token counts and answers "
            "if pictures arrive, how many, at what size, and if their times do.",
        ),
    ] = False,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also run a task on the cluster, in a job of it if it starts jobs."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check what a run needs: packages, disk, keys, endpoints, license flag, data and versions.

    Exits with status 1 if a check fails.
    """
    announce("Checking…")
    from videomme_pipeline.project.upkeep.doctor import examine, examine_model

    if model is None:
        from videomme_pipeline.assets.instance import check_instance

        if probe:
            raise ConfigurationError(
                "--probe: name the model, as in `videomme doctor MODEL --probe`"
            )
        project = open_project()
        findings = [*examine(project, is_deep=deep), check_instance()]
    elif probe:
        findings = _probe(open_project(), model)
    else:
        with showing_progress() as show:
            findings = list(examine_model(open_project(), model, show))
    end_with_findings(findings, as_json=as_json)


def _probe(project: "Project", name: str) -> "list[Finding]":
    """Send the endpoints of a model a few small requests, and report what arrives."""
    import asyncio

    from videomme_pipeline.models.catalog import build_model
    from videomme_pipeline.models.endpoint.remote import RemoteSpec
    from videomme_pipeline.models.endpoint_probe import probe_endpoints, server_finding

    spec = project.configuration.catalog.find(name)
    with project.servers as servers:
        with showing_progress() as show:
            served = servers.start(spec, show)
        members: Sequence[ModelSpec] = [served]
        address = name
        if isinstance(served, RemoteSpec):
            members, address = served.members, served.endpoint
        note(f"Sending a few small requests to {address}…")
        pairs = [(member, build_model(member)) for member in members]
        samplings = project.configuration.samplings_of_model(name)
        findings = asyncio.run(probe_endpoints(pairs, samplings))
        if isinstance(served, RemoteSpec) and served.reports_server:
            findings.append(server_finding(served))
    return findings
