"""An installed package adds a kind of model through its entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.packages import write_package
from tests.support.paths import ROOT
from tests.support.projects import WriteProject
from tests.support.stored_files import stored_file
from tests.support.videomme_parrot import KEY_VARIABLE
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows

ENTRY_POINTS = """\
[videomme_pipeline.models]
parrot = videomme_parrot:provider
broken = videomme_parrot:nothing
wrong = videomme_parrot:ParrotSpec
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder in which the package is installed, as `pip install --target` leaves it."""
    site = tmp_path / "site"
    code = (ROOT / "tests" / "support" / "videomme_parrot.py").read_text()
    write_package(site, "videomme_parrot", code, ENTRY_POINTS)
    return site


@pytest.fixture
def configuration(root: Path, write_project: WriteProject) -> Path:
    """The configuration folder of a project whose evaluation `hello` asks a parrot."""
    write_project({})
    folder = root / "configuration"
    model = {"kind": "parrot", "says": "The answer is (C)."}
    (folder / "models.yaml").write_text(yaml.safe_dump({"polly": model}))
    evaluation = {"benchmark": "videomme", "model": "polly"}
    (folder / "evaluations" / "hello.yaml").write_text(yaml.safe_dump(evaluation))
    return folder


def videomme(
    configuration: Path, *arguments: str, site: Path
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process whose path contains `site`."""
    root = configuration.parent
    environment = os.environ | {
        "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
        "VIDEOMME_CONFIGURATION": str(configuration),
        "VIDEOMME_DATA": str(root / "data"),
        "DAGSTER_HOME": str(root / "home"),
        KEY_VARIABLE: "secret",
    }
    return subprocess.run(
        [sys.executable, "-c", "from videomme_pipeline.cli.app import main; main()", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_model_of_another_package_is_evaluated(configuration: Path, site: Path) -> None:
    ran = videomme(configuration, "run", "hello", site=site)
    assert ran.returncode == 0, ran.stderr
    store = Store.at(str(configuration.parent / "data"))
    rows = read_rows(stored_file(store, "scores", "videomme", "hello"), ScoredQuestion)
    assert {(row.raw_output, row.extracted_answer) for row in rows} == {("The answer is (C).", "C")}
    doctor = videomme(configuration, "doctor", "--json", site=site)
    findings = {finding["check"]: finding for finding in json.loads(doctor.stdout)}
    assert findings["model polly"]["summary"] == "https://parrots.invalid/v1 serves polly"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("parot", "`kind` is 'parot', did you mean `parrot`"),
        ("broken", "kind `broken` needs the package videomme-parrot, which cannot be loaded"),
        ("wrong", "kind `wrong` of the package videomme-parrot is .*, not a .*Provider"),
    ],
)
def test_a_provider_that_cannot_be_used_is_an_error(
    site: Path, monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    monkeypatch.syspath_prepend(site)
    path = site / "models.yaml"
    path.write_text(f"polly: {{kind: {kind}, says: hello}}\n")
    with pytest.raises(ConfigurationError, match=f"model polly: {words}"):
        Catalog.read(path).find("polly")
