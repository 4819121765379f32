"""The command that runs the servers of one model alone: serve."""

import time
from typing import Annotated

import typer

from videomme_pipeline.cli.context import note, open_project, showing_progress, write
from videomme_pipeline.cli.stopping import on_stop

commands = typer.Typer()


@commands.command(epilog="Example: videomme serve my-model")
def serve(
    name: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model in models.yaml that has `serve`.")
    ],
) -> None:
    """Start the servers of a model, and stop them at Ctrl-C.

    Prints the URL of each server once it has loaded its weights. A server that
    dies is started again. A run starts the servers it needs by itself.
    """
    from videomme_pipeline.errors import ConfigurationError
    from videomme_pipeline.models.endpoint.remote import RemoteSpec

    project = open_project()
    spec = project.configuration.catalog.find(name)
    if not isinstance(spec, RemoteSpec) or spec.managed is None:
        raise ConfigurationError(
            f"model {name}: models.yaml does not say how to start its servers; add `serve`"
        )

    def stop() -> str:
        project.servers.stop()
        return "The servers are stopped."

    with on_stop(stop, seconds=15.0), project.servers as servers:
        with showing_progress() as show:
            served = servers.start(spec, show)
        for member in served.members:
            write(f"{member.endpoint}\n")
        note(f"Logs are in {project.store.server_logs}. Stop with Ctrl-C.")
        while True:
            servers.check_running()
            time.sleep(1.0)
