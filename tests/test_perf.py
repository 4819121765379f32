"""Every measurement in `perf/` runs in its quick form."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.real_vllm import is_installed

pytestmark = [pytest.mark.slow, pytest.mark.measurement]

SCRIPTS = {
    path.stem: text
    for path in sorted((ROOT / "perf").glob("*.py"))
    if path.stem != "cluster_demo"  # it has a test of its own
    and f"    python -m perf.{path.stem} [" in (text := path.read_text(encoding="utf-8"))
}
MAX_SECONDS = 900
HAS_CHROMIUM = shutil.which("chromium") is not None
NEEDS = {"report": HAS_CHROMIUM, "ui": HAS_CHROMIUM, "engine": is_installed()}
"""True if this machine has the program that a measurement needs."""


def check_measurement(name: str) -> None:
    """Run the quick form of a measurement, whose last line is JSON."""
    if not NEEDS.get(name, True):
        pytest.skip("this machine has no Chromium or no vLLM")
    usage = SCRIPTS[name]
    options = [option for option in ("--quick", "--json") if f"[{option}" in usage]
    command = [sys.executable, "-m", f"perf.{name}", *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
    )
    assert done.returncode == 0, done.stderr[-2000:]
    if "--json" in options:
        assert json.loads(done.stdout.splitlines()[-1])


class TestFirstMeasurements:
    """A class per third, so that three processes share them."""

    @pytest.mark.parametrize("name", [*SCRIPTS][0::3])
    def test_a_measurement_runs(self, name: str) -> None:
        check_measurement(name)


class TestSecondMeasurements:
    @pytest.mark.parametrize("name", [*SCRIPTS][1::3])
    def test_a_measurement_runs(self, name: str) -> None:
        check_measurement(name)


class TestThirdMeasurements:
    @pytest.mark.parametrize("name", [*SCRIPTS][2::3])
    def test_a_measurement_runs(self, name: str) -> None:
        check_measurement(name)


def test_the_cluster_demo_runs_without_slurm() -> None:
    command = [sys.executable, "-m", "perf.cluster_demo", "--quick", "--no-slurm"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Dask has two workers" in done.stdout
    assert "Everything is fresh." in done.stderr
