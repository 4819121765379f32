"""Import rules for tests and perf, which import-linter does not check."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

IMPORT = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)


def imports(folder: str) -> Iterator[tuple[Path, str]]:
    """Every module that a Python file below `folder` imports."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for name in IMPORT.findall(path.read_text(encoding="utf-8")):
            yield path, name


def test_tests_import_nothing_from_perf() -> None:
    assert [item for item in imports("tests") if item[1].split(".")[0] == "perf"] == []


def test_perf_imports_only_the_support_of_tests() -> None:
    found = [item for item in imports("perf") if item[1].split(".")[0] == "tests"]
    assert found
    assert [item for item in found if not item[1].startswith("tests.support")] == []


def test_test_modules_import_each_other_only_through_support() -> None:
    found = [item for item in imports("tests") if item[1].startswith("tests.")]
    assert [item for item in found if not item[1].startswith("tests.support")] == []
