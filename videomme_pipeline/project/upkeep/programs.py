"""Programs that a configuration names, which a run or the UI starts with the rights of the user.

Everybody who can write a configuration file chooses them. So the commands that start them name them
once to each user.
"""

import os
from contextlib import suppress
from pathlib import Path

from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.models.endpoint.remote import RemoteSpec
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.settings import CLUSTER_FILE, IN_PROCESS, RUNS_FILE


def named_programs(project: Project) -> list[str]:
    """Each program with the file that names it, such as "models.yaml, my-model: vllm serve"."""
    evaluations = project.configuration.files.values()
    judges = [e.judge.model for e in evaluations if e.judge is not None]
    models = {model.name: model for model in (*(e.model for e in evaluations), *judges)}
    named = [
        f"models.yaml, {name}: {program}"
        for name, model in sorted(models.items())
        if isinstance(model, RemoteSpec) and model.managed is not None
        for program in model.managed.programs
    ]
    if project.cluster is not None:
        named += [f"{CLUSTER_FILE}: {program}" for program in project.cluster.programs]
    if project.runs.executor != IN_PROCESS:
        named.append(f"{RUNS_FILE}: the Python object {project.runs.executor}")
    return named


def new_programs(project: Project) -> list[str]:
    """`named_programs`, or an empty list if this function has returned them to this user before.

    A file in `XDG_STATE_HOME` remembers them. If it cannot be written, they are returned each time.
    """
    programs = named_programs(project)
    if not programs:
        return []
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home
        home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
        folder = project.configuration.folder.resolve()
        file = Path(home) / "videomme" / "programs" / fingerprint(str(folder))
        shown = fingerprint(programs)
        if file.exists() and file.read_text(encoding="utf-8") == shown:
            return []
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    return programs
