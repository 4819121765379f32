"""The pipeline works without packages that a distribution may have to leave out."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_files
from videomme_pipeline.subtitles.align import AlignedLine

LEFT_OUT = ("pysrt", "decord")
EVALUATION = "benchmark: smoke\nmodel: random\nsampling: uniform_n-4\nsubtitles: window-500\n"


def packages_without(names: tuple[str, ...]) -> Iterator[Path]:
    """The files and folders of all installed packages except `names` and editable ones."""
    for site in map(Path, sys.path):
        if site.name == "site-packages":
            for path in site.iterdir():
                if not path.name.startswith(names) and path.suffix != ".pth":
                    yield path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment with links to all packages except `LEFT_OUT`."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    for path in packages_without(LEFT_OUT):
        (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def run(python: Path, root: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PYTHONPATH": str(ROOT),
        "VIDEOMME_CONFIGURATION": str(root / "configuration"),
        "VIDEOMME_DATA": str(root / "data"),
        "DAGSTER_HOME": str(root / "home"),
    }
    return subprocess.run(
        [str(python), "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env=os.environ | environment,
    )


VIDEOMME = "from videomme_pipeline.cli.app import main; main()"


@pytest.mark.slow
def test_the_smoke_benchmark_runs_without_pysrt_and_decord(python: Path, tmp_path: Path) -> None:
    process = run(python, tmp_path, f"import {', '.join(LEFT_OUT)}")
    assert "ModuleNotFoundError" in process.stderr
    folder = tmp_path / "configuration"
    (folder / "evaluations").mkdir(parents=True)
    (folder / "benchmarks.yaml").write_text("smoke: {limit: 2}\n")
    (folder / "evaluations" / "mine.yaml").write_text(EVALUATION)
    ended = run(python, tmp_path, VIDEOMME, "run", "--benchmark", "smoke")
    assert ended.returncode == 0, ended.stderr
    store = Store.at(tmp_path / "data")
    assert read_files(store.variant_files("subtitles"), AlignedLine)
    assert len(Results(store).scores()) == 1


@pytest.mark.slow
def test_a_setting_that_names_a_package_that_is_left_out_says_so(
    python: Path, tmp_path: Path
) -> None:
    code = (
        "from videomme_pipeline.subtitles.cues import SrtParser, read_srt\n"
        "read_srt(b'1\\n00:00:01,000 --> 00:00:02,000\\na\\n', SrtParser.PYSRT)"
    )
    ended = run(python, tmp_path, code)
    assert "SubtitleError: the package pysrt is not installed" in ended.stderr


def test_nothing_imports_pysrt_or_decord_unless_a_setting_names_it() -> None:
    """Also not the modules that read subtitles and decode videos."""
    assert find_spec("pysrt") is not None
    code = (
        "import sys\n"
        "from videomme_pipeline.frames import decord_backend, pyav_backend\n"
        "from videomme_pipeline.subtitles.cues import read_srt\n"
        "read_srt(b'1\\n00:00:01,000 --> 00:00:02,000\\na\\n')\n"
        f"assert not {set(LEFT_OUT)} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
