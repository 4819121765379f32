"""A pytest fixture, so that a test of a model can be one line: `videomme_gate(A, B)`."""

import subprocess
import sys
from collections.abc import Callable

import pytest

GateCheck = Callable[..., str]
_VIDEOMME = "from videomme_pipeline.cli.app import main; main()"


@pytest.fixture
def videomme_gate() -> GateCheck:
    """`videomme_gate(baseline, candidate, "--margin", "2")` runs `videomme gate`.

    It returns what the command prints. If the gate does not pass, the test fails with that text.
    """

    def check(baseline: str, candidate: str, *options: str) -> str:
        command = [sys.executable, "-c", _VIDEOMME, "gate", baseline, candidate, *options]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            pytest.fail(f"{ended.stdout}{ended.stderr}".strip(), pytrace=False)
        return ended.stdout

    return check
