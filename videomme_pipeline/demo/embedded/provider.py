"""The embedded model in the catalog.

The model is imported when it is built, so its identity is known even without the extra `demo`.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from videomme_pipeline.demo.embedded import identity
from videomme_pipeline.errors import ModelError
from videomme_pipeline.extras import EXTRAS
from videomme_pipeline.models.spec import Limits, ModelSpec, Provider
from videomme_pipeline.models.video_llm import VideoLLM


class EmbeddedSpec(ModelSpec):
    """OCR and SmolLM2-135M in a child process."""

    sees_frame_times: ClassVar[bool] = True
    kind: Literal["embedded"] = "embedded"
    # A question that crashes the model three times will crash it again.
    limits: Limits = Field(
        default_factory=lambda: Limits(concurrency=identity.children_at_once(), max_attempts=3)
    )

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": self.kind, **identity.embedded_identity()}

    def check_installed(self) -> None:
        missing = [
            package
            for package in EXTRAS["demo"]
            if identity.package_version(package) == identity.NOT_INSTALLED
        ]
        if missing:
            raise ModelError(
                f"model {self.name}: not installed: {', '.join(missing)}; "
                "run `pip install 'videomme-pipeline[demo]'`"
            )


def _build(spec: EmbeddedSpec, _environment: Mapping[str, str]) -> VideoLLM:
    spec.check_installed()
    from videomme_pipeline.demo.embedded.model import EmbeddedModel  # noqa: PLC0415

    return EmbeddedModel(time_limit_seconds=spec.limits.request_timeout_seconds)


PROVIDER = Provider(EmbeddedSpec, _build, needs_entry=False)
