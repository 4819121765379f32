"""Import rules for tests and perf, which import-linter does not check."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
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
    imported = [item for item in imports("perf") if item[1].split(".")[0] == "tests"]
    assert imported
    assert [item for item in imported if not item[1].startswith("tests.support")] == []


def test_test_modules_import_each_other_only_through_support() -> None:
    imported = [item for item in imports("tests") if item[1].startswith("tests.")]
    assert [item for item in imported if not item[1].startswith("tests.support")] == []


def test_no_files_import_each_other_in_a_circle() -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for folder in ("videomme_pipeline", "videomme_pipeline/assets")  # the second one is a link
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    imported = {
        name: {
            module
            for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
            for module in (f"{statement.module}.{alias.name}", str(statement.module))
            if module in files and module != name
        }
        for name, path in files.items()
    }
    assert len(imported["videomme_pipeline.assets.definitions"]) > 10
    TopologicalSorter(imported).prepare()  # raises for a circle
