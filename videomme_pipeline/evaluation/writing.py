"""The files that `videomme init` writes."""

from collections.abc import Mapping
from pathlib import Path
from string import Template

import yaml
from upath import UPath

from videomme_pipeline.benchmarks.inspection import inspect_folder
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.configuration import read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.folder import OWN_BENCHMARKS, reserved_columns
from videomme_pipeline.evaluation.reading import check_name
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.storage.publish import publish

_EXAMPLE = Path(__file__).with_name("example.yaml")
_FIRST = Path(__file__).with_name("first.yaml")
_TEMPLATE = Path(__file__).parents[1] / "assets"
"""The configuration of the demo. A new project gets copies of its files."""
_FILES = (
    "benchmarks",
    "checkpoints",
    "cluster",
    "models",
    "nightly",
    "runs",
    "samplings",
    "storage",
)
_EVALUATIONS = "evaluations"
_WORKSPACE = """\
load_from:
  - python_module:
      module_name: videomme_pipeline.assets.definitions
      working_directory: .
      location_name: videomme
"""
_IGNORED = "/data/\n.dagster/\n.schemas/\n"


def write_project(folder: Path, configuration: Path, *, demo: bool) -> list[Path]:
    """Write the files of a new project that do not exist, and return their paths.

    `configuration` gets the YAML files with comments, and one evaluation that needs no model, or
    those of the demo. `folder` gets workspace.yaml for Dagster, and .gitignore.

    Raises:
        StorageError: if a file cannot be written.
    """
    contents = {f"{name}.yaml": _TEMPLATE / f"{name}.yaml" for name in _FILES}
    first = sorted((_TEMPLATE / _EVALUATIONS).glob("smoke*.yaml")) if demo else [_FIRST]
    contents |= {f"{_EVALUATIONS}/{path.name}": path for path in first}
    files = {configuration / name: path.read_text("utf-8") for name, path in contents.items()}
    files |= {folder / "workspace.yaml": _WORKSPACE, folder / ".gitignore": _IGNORED}
    missing = {path: text for path, text in files.items() if not path.exists()}
    for path, text in missing.items():
        publish(UPath(path), text.encode())
    return list(missing)


def write_example(folder: Path, name: str, benchmark: str) -> Path:
    """Write a commented evaluation file to start from, and return its path.

    Raises:
        ConfigurationError: if the file exists, or the name is not valid for an evaluation.
    """
    path = folder / f"{name}.yaml"
    check_name(name, path)
    if path.exists():
        raise ConfigurationError(f"{path}: an evaluation with this name exists; choose another")
    declared = find_benchmark(benchmark)
    facets = [facet.column for facet in declared.shown_facets]
    example = Template(_EXAMPLE.read_text(encoding="utf-8")).substitute(
        benchmark=benchmark,
        alignment=declared.alignment,
        prompt=declared.prompt,
        prompts=", ".join(TemplateName),
        readers=", ".join(ReaderName),
        duration="# duration: long    # short, medium or long\n" if "duration" in facets else "",
        strata=f", stratify: [{', '.join(facets[:2])}]" if facets else "",
    )
    publish(UPath(path), example.encode())
    return path


def write_evaluation(folder: Path, name: str, keys: Mapping[str, object]) -> Path:
    """Write an evaluation file with `keys`, and return its path. A file that is equal is kept.

    Raises:
        ConfigurationError: if another evaluation has the name, or the name is not valid.
    """
    path = folder / f"{name}.yaml"
    check_name(name, path)
    if not path.exists():
        publish(UPath(path), yaml.safe_dump(dict(keys), sort_keys=False).encode())
    elif read_yaml(path) != keys:
        raise ConfigurationError(f"{path}: the evaluation has other settings; rename it")
    return path


def write_declaration(
    folder: Path, name: str, videos: Path, annotations: Path | None = None
) -> Path:
    """Declare the benchmark `name` for the user's folder `videos`, and return the file's path.

    `folder` is the configuration folder. `annotations` is the path of the annotations in `videos`,
    or None for the only file with questions.

    Raises:
        ConfigurationError: if there is a benchmark with this name, or the name is not valid.
        AnnotationError: if the folder has no annotations.
    """
    path = folder / OWN_BENCHMARKS / f"{name}.yaml"
    check_name(name, path)
    if name in known_benchmarks():
        raise ConfigurationError(f"there is a benchmark called {name}; choose another name")
    root = videos.expanduser().absolute()
    file = None if annotations is None else root / annotations
    text = inspect_folder(root, name, reserved_columns(), file)
    path.parent.mkdir(exist_ok=True)
    publish(UPath(path), text.encode())
    return path
