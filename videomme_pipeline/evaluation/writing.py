"""The files that `videomme init` writes."""

from pathlib import Path

from upath import UPath

from videomme_pipeline.benchmarks.inspection import inspect_folder
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.folder import OWN_BENCHMARKS, reserved_columns
from videomme_pipeline.evaluation.reading import check_name
from videomme_pipeline.prompts.render import TemplateName
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.storage.publish import publish


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
    example = _EXAMPLE.format(
        benchmark=benchmark,
        alignment=declared.alignment,
        prompt=declared.prompt,
        prompts=", ".join(TemplateName),
        readers=", ".join(ReaderName),
    )
    publish(UPath(path), example.encode())
    return path


def write_declaration(folder: Path, name: str, videos: Path) -> Path:
    """Declare the benchmark `name` for the user's folder `videos`, and return the file's path.

    `folder` is the configuration folder.

    Raises:
        ConfigurationError: if there is a benchmark with this name, or the name is not valid.
        AnnotationError: if the folder has no annotations.
    """
    path = folder / OWN_BENCHMARKS / f"{name}.yaml"
    check_name(name, path)
    if name in known_benchmarks():
        raise ConfigurationError(f"there is a benchmark called {name}; choose another name")
    root = videos.expanduser().absolute()
    text = inspect_folder(root, name, reserved_columns())
    path.parent.mkdir(exist_ok=True)
    publish(UPath(path), text.encode())
    return path


_EXAMPLE = """\
# One file is one evaluation. The file name is its name.
benchmark: {benchmark}

# A name in models.yaml, or one that needs no entry: embedded, random, constant-A, longest-option.
model: embedded

# uniform_n-16, fps_based-1-max-512, keyframe-32 …, or none to ask without frames.
sampling: uniform_n-16

# none, or an alignment policy: {alignment}, full …
subtitles: none

# {prompts},
# or the path of your own template.
prompt: {prompt}

# How a letter is read from an answer:
# {readers}.
reader: strict

# A model in models.yaml that reads the responses that strict cannot read. Scores report its
# letters separately.
# judge:
#   model: my-model

# decoding:
#   temperature: 0.0
#   max_tokens: 1024
#   seed: 7
# repeats: 1        # how many times each question is asked

# Only some of the videos: those of one duration, a random sample, or both.
# duration: long    # short, medium or long
# subset: {{videos: 90, stratify: [duration, domain], seed: 7}}
"""
