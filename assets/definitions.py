"""The entry that `workspace.yaml` loads. Merge assets of your own into these definitions here."""

from videomme_pipeline.orchestration.definitions import defs

__all__ = ["defs"]
