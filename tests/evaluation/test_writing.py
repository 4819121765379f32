"""The files that `videomme init` writes."""

from pathlib import Path

import pytest

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.evaluation.writing import write_example
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.scoring.readers.read_answer import ReaderName


@pytest.mark.parametrize("benchmark", ["smoke", "smoke_v2"])
def test_the_example_is_an_evaluation(folder: Path, benchmark: str) -> None:
    path = write_example(folder / "evaluations", "mine", benchmark)
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
        write_example(path.parent, "mine", "smoke")
    assert path.read_text() == before


@pytest.mark.parametrize("name", ["my evaluation", "../mine", "a/b", ""])
def test_an_example_with_an_invalid_name_is_rejected(folder: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="the file name is the evaluation's name"):
        write_example(folder / "evaluations", name, "smoke")
    assert {path.name for path in folder.rglob("*.yaml")} == {"benchmarks.yaml", "models.yaml"}
