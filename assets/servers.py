"""The Dagster resource of the servers that runs start for models with `serve`."""

from collections.abc import Iterator

import dagster as dg

from videomme_pipeline.project.project import Project
from videomme_pipeline.project.servers.running import ModelServers

SERVERS = "model_servers"
"""The name of the resource. Everything that asks models requires it."""


def servers_resource(project: Project) -> dg.ResourceDefinition:
    """The servers of `project`, which start when they are needed and stop with the run."""

    @dg.resource(description="Starts the servers of models with `serve`, and stops them.")
    def model_servers(_: dg.InitResourceContext) -> Iterator[ModelServers]:
        with project.servers as servers:
            yield servers

    return model_servers
