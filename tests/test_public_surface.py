"""The public names of the package, its version and its types."""

import inspect
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml

import videomme_pipeline
from tests.support.paths import ROOT


def test_public_names_are_sorted_and_documented() -> None:
    version, *names = videomme_pipeline.__all__
    assert version == "__version__"
    assert names == sorted(names)
    for name in names:
        value = getattr(videomme_pipeline, name)
        assert not inspect.ismodule(value), f"{name} is also the name of a module"
        assert value.__doc__, name


def test_the_api_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^::: videomme_pipeline\.(\w+)$", page, re.MULTILINE)
    assert sorted(documented) == sorted(set(videomme_pipeline.__all__) - {"__version__"})


def test_public_names_without_a_module_raise_attribute_errors() -> None:
    assert not hasattr(videomme_pipeline, "no_such_name")


def test_the_docstring_lists_every_package_in_the_order_of_its_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = settings["importlinter"]["contracts"][0]["layers"]
    packages = [
        name
        for layer in reversed(layers)
        for name in layer.split(" | ")
        if (ROOT / "videomme_pipeline" / name).is_dir() or name == "evaluation"
    ]
    lines = (videomme_pipeline.__doc__ or "").splitlines()
    walk = [line.split()[0] for line in lines if line.startswith("    ") and line.strip()]
    assert walk == packages


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("videomme_pipeline", exclude_type_checking_imports=False)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError


def test_the_citation_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert videomme_pipeline.__version__ == project["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == project["version"]
    assert citation["authors"] == project["authors"]


def test_importing_the_package_imports_no_module_of_the_package() -> None:
    code = "import sys, videomme_pipeline\nprint([m for m in sys.modules if 'videomme' in m])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stdout.strip() == "['videomme_pipeline']"


def test_types_are_shipped() -> None:
    assert (ROOT / "videomme_pipeline" / "py.typed").exists()


@pytest.mark.slow
def test_pyright_knows_the_types_of_the_public_names(tmp_path: Path) -> None:
    """`make lint` asks mypy about the same file."""
    (tmp_path / "user.py").write_bytes((ROOT / "tests/support/typed_user.py").read_bytes())
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "-p", ".", "--pythonpath", sys.executable]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("0 errors, 0 warnings"), ended.stdout
