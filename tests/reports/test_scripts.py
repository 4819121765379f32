"""The scripts of the results page and their imports."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

from videomme_pipeline import reports

SCRIPTS = Path(reports.__file__).parent / "templates" / "script"
IMPORTED = re.compile(r'^(?:import|\}) .*from "\./([^"]+)";$', re.MULTILINE)


def test_no_scripts_import_each_other_in_a_circle() -> None:
    imports = {path.name: IMPORTED.findall(path.read_text()) for path in SCRIPTS.iterdir()}
    assert len(imports["leaderboard.js"]) > 10, "the imports are read"
    order = list(TopologicalSorter(imports).static_order())  # raises CycleError
    assert sorted(order) == sorted(imports), "every imported script exists"
    assert order[-1] == "main.js"
