"""Metrics of checkpoints in real trackers with local files.

VIDEOMME_TRACKERS is the folder of an environment with this project and the trackers.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from videomme_pipeline.plugins import TRACKERS, installed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tracker", installed(TRACKERS))
def test_checkpoints_are_logged_at_their_training_steps(tracker: str, tmp_path: Path) -> None:
    environment = os.environ.get("VIDEOMME_TRACKERS")
    if environment is None:
        pytest.skip("VIDEOMME_TRACKERS does not name an environment with trackers")
    ended = subprocess.run(
        [f"{environment}/bin/python", "-m", "tests.support.tracked_run", tracker, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode == 0, ended.stderr
    logged = json.loads(ended.stdout.splitlines()[-1])
    assert logged == [[100, 0.5, "passed"], [200, 0.375, "failed"]]
