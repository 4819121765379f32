"""The versions and weights that an answer of the embedded model depends on, and its size."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

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
