"""The embedded model in the catalog, with the versions and weights that its answers depend on.

The model is imported when it is built, so its identity is known even where the extra `demo` is not
installed.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.spec import Limits, ModelSpec, Provider
from videomme_pipeline.models.video_llm import VideoLLM

EMBEDDED_VERSION = 1
"""Increase this when a change of the code can change an answer."""
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Digest of the language model's weights file (SmolLM2-135M-Instruct, Q4_1)."""

_REFERENCE_RUNTIME = "1.31.1"
NOT_INSTALLED = "not installed"


def embedded_identity(weights_sha256: str = WEIGHTS_SHA256) -> dict[str, object]:
    """Every version that an answer of the embedded model depends on. No package is loaded."""
    return {
        "model": "embedded",
        "version": EMBEDDED_VERSION,
        "weights": weights_sha256,
        "ocr": f"rapidocr {ocr_version()}",
        "engine": f"xllamacpp {package_version('xllamacpp')}",
    }


def ocr_version() -> str:
    """Version of rapidocr, and that of onnxruntime unless it is the reference version.

    The reference version is left out, so that the fingerprints of stored answers stay the same.
    """
    runtime = package_version("onnxruntime")
    suffix = "" if runtime == _REFERENCE_RUNTIME else f", onnxruntime {runtime}"
    return f"{package_version('rapidocr')}{suffix}"


@cache
def package_version(package: str) -> str:
    """Version of an installed package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED


_PACKAGES = ("xllamacpp", "rapidocr", "onnxruntime")


class EmbeddedSpec(ModelSpec):
    """OCR and SmolLM2-135M in a child process."""

    kind: Literal["embedded"] = "embedded"
    # The model answers on one thread, so more requests in flight would only add latency. A question
    # that crashes it three times will crash it again.
    limits: Limits = Limits(concurrency=1, max_attempts=3)

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": self.kind, **embedded_identity()}

    @property
    def sees_frame_times(self) -> bool:
        return True


def _build(spec: EmbeddedSpec, _environment: Mapping[str, str]) -> VideoLLM:
    missing = [package for package in _PACKAGES if package_version(package) == NOT_INSTALLED]
    if missing:
        raise ModelError(
            f"model {spec.name}: not installed: {', '.join(missing)}; "
            "run `pip install 'videomme-pipeline[demo]'`"
        )
    from videomme_pipeline.demo.embedded.model import EmbeddedModel  # noqa: PLC0415

    return EmbeddedModel(time_limit_seconds=spec.limits.request_timeout_seconds)


PROVIDER = Provider(EmbeddedSpec, _build, needs_entry=False)
