"""Programs that a configuration names, which a run or the UI starts with the rights of the user.

Everybody who can write a configuration file chooses them, so commands that start them name them.
"""

from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.settings import CLUSTER_FILE


def named_programs(project: Project) -> list[str]:
    """Each program with the file that names it, such as "models.yaml, my-model: vllm serve"."""
    evaluations = project.configuration.files.values()
    judges = [e.judge.model for e in evaluations if e.judge is not None]
    models = {model.name: model for model in (*(e.model for e in evaluations), *judges)}
    named = [
        f"models.yaml, {name}: {program}"
        for name, model in sorted(models.items())
        for program in model.programs
    ]
    if project.cluster is not None:
        named += [f"{CLUSTER_FILE}: {program}" for program in project.cluster.programs]
    return named
