"""The embedded model in the catalog, and the versions that its answers depend on.

The model is imported when it is built, so its identity is known even without the extra `demo`.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Literal

from pydantic import Field

from videomme_pipeline.errors import ModelError
from videomme_pipeline.extras import EXTRAS
from videomme_pipeline.models.spec import Limits, ModelSpec, Provider
from videomme_pipeline.models.video_llm import VideoLLM
from videomme_pipeline.processes.tasks import usable_cores

_MAX_CHILDREN = 4
"""Each child needs about 300 MB of memory."""
EMBEDDED_VERSION = 2
"""Increase this when a change of the code can change an answer."""
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Digest of the language model's weights file (SmolLM2-135M-Instruct, Q4_1)."""
NOT_INSTALLED = "not installed"


def children_at_once() -> int:
    """Number of child processes. Each answers one question at a time."""
    return min(usable_cores(), _MAX_CHILDREN)


def embedded_identity(weights_sha256: str = WEIGHTS_SHA256) -> dict[str, object]:
    """Every version that an answer of the embedded model depends on."""
    return {
        "model": "embedded",
        "version": EMBEDDED_VERSION,
        "weights": weights_sha256,
        "ocr": f"rapidocr {ocr_version()}",
        "engine": f"xllamacpp {package_version('xllamacpp')}",
    }


def ocr_version() -> str:
    """Versions of rapidocr and onnxruntime."""
    return f"{package_version('rapidocr')}, onnxruntime {package_version('onnxruntime')}"


@cache
def package_version(package: str) -> str:
    """Version of an installed package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED


class EmbeddedSpec(ModelSpec):
    """OCR and SmolLM2-135M in a child process."""

    sees_frame_times: ClassVar[bool] = True
    kind: Literal["embedded"] = "embedded"
    # A question that crashes the model three times will crash it again.
    limits: Limits = Field(
        default_factory=lambda: Limits(concurrency=children_at_once(), max_attempts=3)
    )

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": self.kind, **embedded_identity()}

    def check_installed(self) -> None:
        missing = [
            package for package in EXTRAS["demo"] if package_version(package) == NOT_INSTALLED
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
