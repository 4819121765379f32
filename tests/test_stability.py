"""Tables, views and keys that users may depend on do not change by accident."""

import re
import subprocess
import sys

from tests.support.paths import ROOT


def test_a_change_of_the_stable_surface_needs_a_page_and_a_line_in_the_changelog() -> None:
    written = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.stable_surface"]
    current = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert written == current, (
        "tables, views or keys changed: run `python -m tests.support.stable_surface > "
        "docs/stability.md`, and add a line with the new fingerprint to CHANGELOG"
    )
    (fingerprint,) = re.findall(r"Fingerprint of this page: `(\w+)`", written)
    assert fingerprint in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
