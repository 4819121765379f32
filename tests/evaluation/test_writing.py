"""The files that `videomme init` writes."""

from pathlib import Path

import pytest
import yaml

from tests.support.model_server import ModelServer
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.evaluation.writing import usual_model, write_endpoint, write_example
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.scoring.readers.read_answer import ReaderName


def write(folder: Path, name: str, *, videos: int | None = None, **keys: str) -> Path:
    keys = {
        "benchmark": "smoke",
        "model": "longest-option",
        "sampling": "uniform_n-16",
        "subtitles": "none",
    } | keys
    return write_example(read_configuration(folder), name, keys, videos)


@pytest.mark.parametrize("benchmark", ["smoke", "smoke_v2"])
def test_the_example_is_an_evaluation(folder: Path, benchmark: str) -> None:
    path = write(folder, "mine", benchmark=benchmark)
    evaluation = read_configuration(folder).evaluation("mine")
    assert (evaluation.benchmark, evaluation.sampling_name) == (benchmark, "uniform_n-16")
    assert all(name in path.read_text() for name in (*TemplateName, *ReaderName))
    assert f"policy: {find_benchmark(benchmark).alignment}, full" in path.read_text()
    uncommented = path.read_text().replace("# generation:", "generation:")
    for key in ("temperature", "max_tokens", "seed"):
        uncommented = uncommented.replace(f"#   {key}", f"  {key}")
    for key in ("repeats:", "duration:", "subset:"):
        uncommented = uncommented.replace(f"# {key}", key)
    path.write_text(uncommented)
    evaluation = read_configuration(folder).evaluation("mine")
    assert evaluation.generation.seed == 7
    subset = evaluation.selection.subset
    assert subset is not None
    assert subset.stratify == tuple(
        facet.column for facet in find_benchmark(benchmark).shown_facets[:2]
    )


def test_an_example_does_not_replace_an_evaluation(folder: Path) -> None:
    path = folder / "evaluations" / "mine.yaml"
    path.write_text("benchmark: smoke\nmodel: random\n")
    before = path.read_text()
    with pytest.raises(ConfigurationError, match="an evaluation with this name exists"):
        write(folder, "mine")
    assert path.read_text() == before


@pytest.mark.parametrize("name", ["my evaluation", "../mine", "a/b", ""])
def test_an_example_with_an_invalid_name_is_rejected(folder: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="the file name is the evaluation's name"):
        write(folder, name)
    assert {path.name for path in folder.rglob("*.yaml")} == {"benchmarks.yaml", "models.yaml"}


def test_an_example_with_a_mistake_is_not_written(folder: Path) -> None:
    for key, value in {"model": "nobody", "sampling": "uniform-8", "benchmark": "videomme"}.items():
        with pytest.raises(ConfigurationError, match=value):
            write(folder, "mine", videos=None, **{key: value})
    assert not (folder / "evaluations" / "mine.yaml").exists()


def test_an_example_has_the_chosen_settings(folder: Path) -> None:
    write(folder, "mine", videos=3, model="random", sampling="none", subtitles="full")
    evaluation = read_configuration(folder).evaluation("mine")
    assert (evaluation.model.name, evaluation.sampling_name) == ("random", "none")
    assert evaluation.alignment is not None
    assert evaluation.alignment.name == "full"
    assert evaluation.selection.subset is not None
    assert evaluation.selection.subset.videos == 3


def test_the_model_of_a_new_evaluation_needs_no_package(folder: Path) -> None:
    assert usual_model(read_configuration(folder), "mine") == "longest-option"
    models = {"only": {"base_url": "http://127.0.0.1:9/v1"}}
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    assert usual_model(read_configuration(folder), "mine") == "only"
    models["mine"] = models["only"]
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    configuration = read_configuration(folder)
    assert usual_model(configuration, "mine") == "mine"
    assert usual_model(configuration, "other") == "longest-option"


def test_the_model_of_an_endpoint_is_entered_once(folder: Path) -> None:
    (folder / "models.yaml").write_text("# My models.\n")
    with ModelServer() as server:
        name = write_endpoint(read_configuration(folder), server.base_url)
        before = (folder / "models.yaml").read_text()
        assert write_endpoint(read_configuration(folder), server.base_url) == name
        assert (folder / "models.yaml").read_text() == before
        spec = read_configuration(folder).catalog.find(name)
        assert isinstance(spec, EndpointSpec)
        assert (name, spec.base_url) == ("served", server.base_url)
        assert before.startswith("# My models.\n")
        with pytest.raises(ConfigurationError, match="serves no other"):
            write_endpoint(read_configuration(folder), f"{server.base_url}#other")
    with pytest.raises(ModelError, match="is the server up"):
        write_endpoint(read_configuration(folder), server.base_url)
