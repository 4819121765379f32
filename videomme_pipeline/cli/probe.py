"""The command that shows what an endpoint does with pictures: probe."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import AsJson
from videomme_pipeline.cli.context import end_with_findings, note, open_project, showing_progress

if TYPE_CHECKING:
    from videomme_pipeline.models.spec import ModelSpec

commands = typer.Typer()


@commands.command(epilog="Example: videomme probe my-model")
def probe(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A model in models.yaml.")],
    as_json: AsJson = False,
) -> None:
    """Send a model a few small requests, and report what arrives.

    Shows from token counts and answers if pictures arrive, how many, at what
    size, and if their times do. Exits with status 1 if a check fails.
    """
    import asyncio

    from videomme_pipeline.models.catalog import build_model
    from videomme_pipeline.models.endpoint.remote import RemoteSpec
    from videomme_pipeline.models.endpoint_probe import probe_endpoints, server_finding

    project = open_project()
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
    end_with_findings(findings, as_json=as_json)
