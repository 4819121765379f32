"""The error for a missing extra names it, and the base installation works without extras."""

import re
import subprocess
import sys
import tomllib

import pytest

from tests.support.paths import ROOT, modules
from videomme_pipeline.extras import EXTRAS

USES = {
    "alerts": (
        "from videomme_pipeline.project.nightly.alerts import Alert, send\n"
        "import os\nos.environ['VIDEOMME_ALERT_URLS'] = 'json://127.0.0.1'\n"
        "send(Alert(title='title', body='body'))"
    ),
    "charts": "import videomme_pipeline.reports.charts",
    "trackers": (
        "from videomme_pipeline.project.trackers import log_checkpoint\n"
        "log_checkpoint('wandb', 'run', 1, [], 'link')"
    ),
    "demo": ("from videomme_pipeline.demo.embedded.pictures import load_ocr\nload_ocr()"),
}


BLOCK = """
import sys
class Block:
    @staticmethod
    def find_spec(name, *_):
        if name in MODULES:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Block)
"""


def run_without_extras(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process in which no module of an extra can be imported."""
    modules = [module for names in EXTRAS.values() for module in names]
    block = f"MODULES = {modules}{BLOCK}"
    return subprocess.run(
        [sys.executable, "-c", block + code], capture_output=True, text=True, check=False, cwd=ROOT
    )


@pytest.mark.parametrize("extra", sorted(USES))
def test_the_error_for_a_missing_extra_names_the_extra(extra: str) -> None:
    ended = run_without_extras(USES[extra])
    assert ended.returncode == 1
    assert "MissingExtraError" in ended.stderr
    assert f"pip install 'videomme-pipeline[{extra}]'" in ended.stderr


@pytest.mark.slow
def test_only_charts_cannot_be_imported_without_extras() -> None:
    imports = "\n".join(
        f"import {name}" for name in modules() if name != "videomme_pipeline.reports.charts"
    )
    assert run_without_extras(imports).stderr == ""


def test_every_extra_of_the_package_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS)
    base = {re.split(r"[<>=;\[ ]", line)[0] for line in project["dependencies"]}
    assert not base & {name.replace("_", "-") for names in EXTRAS.values() for name in names}
