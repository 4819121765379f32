"""The identity of the embedded model, available without loading it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import use, videomme
from videomme_pipeline.demo.embedded import identity as embedded
from videomme_pipeline.demo.embedded.model import WEIGHTS, EmbeddedModel
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.catalog import Catalog, build_model

SPEC = Catalog().find("embedded")

SetVersions = Callable[[dict[str, str]], None]


@pytest.fixture
def set_versions(monkeypatch: pytest.MonkeyPatch) -> SetVersions:
    """Return a function that simulates other versions of installed packages."""
    real = embedded.package_version

    def simulate(versions: dict[str, str]) -> None:
        monkeypatch.setattr(
            embedded, "package_version", lambda package: versions.get(package) or real(package)
        )

    return simulate


def test_the_spec_contains_the_identity_of_the_model() -> None:
    identity = EmbeddedModel().identity
    assert SPEC.identity == {"kind": "embedded", **identity}
    assert identity["weights"] == WEIGHTS.member_sha256
    assert set(identity) == {"model", "version", "weights", "ocr", "engine"}


@pytest.mark.parametrize("package", ["xllamacpp", "rapidocr", "onnxruntime"])
def test_another_version_of_a_package_is_another_model(
    set_versions: SetVersions, package: str
) -> None:
    fingerprint_before, identity_before = SPEC.fingerprint, EmbeddedModel().identity
    set_versions({package: "0.0.1"})
    assert SPEC.fingerprint != fingerprint_before
    assert EmbeddedModel().identity != identity_before


def test_another_version_of_the_code_is_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint_before = SPEC.fingerprint
    monkeypatch.setattr(embedded, "EMBEDDED_VERSION", 999)
    assert SPEC.fingerprint != fingerprint_before


def test_the_identity_equals_that_of_stored_requests(set_versions: SetVersions) -> None:
    set_versions({"xllamacpp": "2026.10.11549", "rapidocr": "3.10.0", "onnxruntime": "1.31.1"})
    assert embedded.embedded_identity() == {
        "model": "embedded",
        "version": embedded.EMBEDDED_VERSION,
        "weights": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "ocr": "rapidocr 3.10.0, onnxruntime 1.31.1",
        "engine": "xllamacpp 2026.10.11549",
    }


def test_a_model_with_missing_packages_has_an_identity_but_cannot_be_built(
    set_versions: SetVersions,
) -> None:
    set_versions({"xllamacpp": "not installed"})
    assert SPEC.identity["engine"] == "xllamacpp not installed"
    with pytest.raises(
        ModelError, match=r"xllamacpp; run `pip install 'videomme-pipeline\[demo\]'`"
    ):
        build_model(SPEC, {})


def test_reading_the_identity_imports_no_engine() -> None:
    code = (
        "import sys; from videomme_pipeline.models.catalog import Catalog; "
        "Catalog().find('embedded').identity; "
        "print({'xllamacpp', 'rapidocr', 'onnxruntime', 'openai'} & set(sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "set()"


def test_a_missing_package_is_named_before_anything_is_built(
    set_versions: SetVersions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    folder = tmp_path / "configuration" / "evaluations"
    folder.mkdir(parents=True)
    (folder.parent / "benchmarks.yaml").write_text("smoke:\n")
    for name, model in {"mine": "embedded", "other": "constant-A"}.items():
        (folder / f"{name}.yaml").write_text(f"benchmark: smoke\nmodel: {model}\n")
    set_versions({"onnxruntime": embedded.NOT_INSTALLED})
    message = "model embedded: not installed: onnxruntime; run `pip install"
    dry_run = videomme("run", "--dry-run")
    assert f"Skipped: evaluation mine: {message}" in dry_run.err
    assert "smoke/responses" in dry_run.out
    assert videomme("run", "mine", "--dry-run").failed_with.startswith(message)
    assert message in videomme("doctor").out
