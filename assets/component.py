"""The Dagster component: the assets of a project in the definitions of another team."""

import dagster as dg

from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.project.project import open_project


class EvaluationComponent(dg.Component, dg.Model, dg.Resolvable):
    """A project as a Dagster component (`type: videomme_pipeline.EvaluationComponent`).

    `configuration` and `data` are folders relative to that of `defs.yaml`. `data` can also be the
    URL of an object store. A code location can have one component.
    """

    configuration: str = "assets"
    data: str = "data"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The assets, checks, jobs, schedules and sensors of the project."""
        data = self.data if "://" in self.data else str(context.path / self.data)
        return build_definitions(open_project(context.path / self.configuration, data))
