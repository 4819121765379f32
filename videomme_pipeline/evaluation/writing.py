"""The files that `videomme init` writes."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

import yaml
from upath import UPath

from videomme_pipeline.benchmarks.inspection import inspect_folder
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError, listed
from videomme_pipeline.evaluation.folder import OWN_BENCHMARKS, Configuration, reserved_columns
from videomme_pipeline.evaluation.reading import check_name, parse_evaluation
from videomme_pipeline.models.endpoint.endpoints import PROFILES
from videomme_pipeline.models.endpoint.served import list_models
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.storage.publish import publish

_EXAMPLE = Path(__file__).with_name("example.yaml")
_FIRST = Path(__file__).with_name("first.yaml")
_TEMPLATE = Path(__file__).parents[1] / "assets"
"""The configuration of the demo. A new project gets copies of its files."""
_EVALUATIONS = "evaluations"
_ABOUT_THE_DEMO = ("nightly.yaml", "samplings.yaml")
"""Files that a project without the demo gets as comments."""
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

    `configuration` gets the YAML files with comments, and one evaluation that needs no model. With
    `demo`, it gets the demo's evaluations instead, and what nightly.yaml and samplings.yaml say
    about them. `folder` gets workspace.yaml for Dagster, and .gitignore. Raises StorageError.
    """
    contents = {path.name: path for path in sorted(_TEMPLATE.glob("*.yaml"))}
    del contents["dagster.yaml"]  # settings of the Dagster instance
    first = sorted((_TEMPLATE / _EVALUATIONS).glob("smoke*.yaml")) if demo else [_FIRST]
    contents |= {f"{_EVALUATIONS}/{path.name}": path for path in first}
    files = {configuration / name: path.read_text("utf-8") for name, path in contents.items()}
    for name in () if demo else _ABOUT_THE_DEMO:
        path = configuration / name
        files[path] = re.sub(r"^(?=[^#\n])", "# ", files[path], flags=re.MULTILINE)
    files |= {folder / "workspace.yaml": _WORKSPACE, folder / ".gitignore": _IGNORED}
    missing = {path: text for path, text in files.items() if not path.exists()}
    for path, text in missing.items():
        publish(UPath(path), text.encode())
    return list(missing)


def write_example(
    configuration: Configuration, name: str, keys: Mapping[str, str], videos: int | None = None
) -> Path:
    """Write a commented evaluation file to start from, and return its path.

    `keys` are `benchmark`, `model`, `sampling` and `subtitles`. `videos` is the number of videos in
    a subset, or None for all. Raises ConfigurationError, before a file is written, if the file
    exists, the name is not valid for an evaluation, or the evaluation has a mistake.
    """
    path = _new_file(configuration, name)
    if path.exists():
        raise ConfigurationError(f"{path}: an evaluation with this name exists; choose another")
    declared = find_benchmark(keys["benchmark"])
    facets = [facet.column for facet in declared.shown_facets]
    strata = f", stratify: [{', '.join(facets[:2])}]" if facets else ""
    subset = f"# subset: {{videos: 90{strata}, seed: 7}}"
    if videos is not None:
        subset = f"subset: {{videos: {videos}, seed: 7}}"
    example = Template(_EXAMPLE.read_text(encoding="utf-8")).substitute(
        keys,
        alignment=declared.alignment,
        prompt=declared.prompt,
        prompts=", ".join(TemplateName),
        readers=", ".join(ReaderName),
        duration="# duration: long    # short, medium or long\n" if "duration" in facets else "",
        subset=subset,
    )
    parse_evaluation(yaml.safe_load(example), path, configuration.benchmarks, configuration.catalog)
    publish(UPath(path), example.encode())
    return path


def usual_model(configuration: Configuration, name: str) -> str:
    """The model of a new evaluation: the entry `name`, the only endpoint, or else a baseline."""
    models = configuration.catalog.models
    endpoints = [spec.name for spec in models if isinstance(spec, EndpointSpec)]
    if name in [spec.name for spec in models]:
        return name
    return endpoints[0] if len(endpoints) == 1 else "longest-option"


def write_endpoint(configuration: Configuration, url: str) -> str:
    """Add the model that the endpoint `url` serves to models.yaml, and return the entry's name.

    A fragment of the URL names one of several models. An entry that exists is kept. Raises
    ModelError if the endpoint does not list its models, and ConfigurationError if it serves several
    models or not the named one, or if another entry has the name.
    """
    base_url, _, chosen = url.partition("#")
    served = {model.id: model for model in list_models(base_url, None)}
    if chosen and chosen not in served:
        raise ConfigurationError(f"{base_url} serves no {chosen}, {nearest(chosen, list(served))}")
    if not chosen and len(served) != 1:
        raise ConfigurationError(
            f"{base_url} serves {listed(list(served)) or 'no model'}; name one of them, as in "
            f"--model '{base_url}#{next(iter(served), 'NAME')}'"
        )
    model = served[chosen or next(iter(served))]
    name = re.sub(r"[^a-z0-9._-]+", "-", model.id.rpartition("/")[2].lower()).strip(".-")
    entry: dict[str, object] = {"base_url": base_url, "model": model.id}
    for profile, facts in PROFILES.items():
        if facts.owned_by is not None and facts.owned_by == model.owned_by:
            entry["profile"] = profile
    path = configuration.folder / "models.yaml"
    spec = parse_spec({"name": name, **entry}, EndpointSpec, f"{path}: model {name}")
    names = configuration.catalog.names
    if name in names and configuration.catalog.find(name) != spec:
        raise ConfigurationError(
            f"{path}: `{name}` is another model; write an entry for {base_url} under another name"
        )
    if name not in names:
        before = path.read_text("utf-8") if path.exists() else ""
        publish(UPath(path), f"{before}\n{yaml.safe_dump({name: entry}, sort_keys=False)}".encode())
    return name


def write_evaluation(configuration: Configuration, name: str, keys: Mapping[str, object]) -> Path:
    """Write an evaluation file with `keys`, and return its path. A file that is equal is kept.

    Raises ConfigurationError, before a file is written, if another evaluation has the name, the
    name is not valid, or the evaluation has a mistake.
    """
    path = _new_file(configuration, name)
    parse_evaluation(keys, path, configuration.benchmarks, configuration.catalog)
    if not path.exists():
        publish(UPath(path), yaml.safe_dump(dict(keys), sort_keys=False).encode())
    elif read_yaml(path) != keys:
        raise ConfigurationError(f"{path}: the evaluation has other settings; rename it")
    return path


def _new_file(configuration: Configuration, name: str) -> Path:
    path = configuration.folder / _EVALUATIONS / f"{name}.yaml"
    check_name(name, path)
    return path


def write_declaration(
    folder: Path,
    name: str,
    videos: Path,
    annotations: Path | None = None,
    columns: Mapping[str, str] = {},
) -> Path:
    """Declare the benchmark `name` for the user's folder `videos`, and return the file's path.

    `folder` is the configuration folder. `annotations` is the path of the annotations in `videos`,
    or None for the only file with questions. `columns` are columns with unusual names, by what they
    contain. Raises ConfigurationError if the name is taken or not valid, and AnnotationError if the
    folder has no annotations.
    """
    path = folder / OWN_BENCHMARKS / f"{name}.yaml"
    check_name(name, path)
    if name in known_benchmarks():
        raise ConfigurationError(f"there is a benchmark called {name}; choose another name")
    root = videos.expanduser().absolute()
    file = None if annotations is None else root / annotations
    text = inspect_folder(root, name, reserved_columns(), file, columns)
    path.parent.mkdir(exist_ok=True)
    publish(UPath(path), text.encode())
    return path
