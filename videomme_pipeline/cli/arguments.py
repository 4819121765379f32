"""Options of several commands, and checks of their values."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from videomme_pipeline.cli.output import note
from videomme_pipeline.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from videomme_pipeline.evaluation.folder import Configuration

Name = TypeVar("Name", bound=str)


def complete_evaluation(typed: str) -> list[str]:
    """The names of evaluation files that begin with `typed`, for shell completion."""
    from videomme_pipeline.project.project import configuration_folder

    files = (configuration_folder() / "evaluations").glob("*.yaml")
    return sorted(path.stem for path in files if path.stem.startswith(typed))


def evaluation_argument(metavar: str, text: str) -> Any:
    """The argument for the names of evaluations, which the shell can complete."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete_evaluation)


EvaluationNames = Annotated[
    list[str] | None, evaluation_argument("EVALUATION", "Names of evaluation files.")
]
BenchmarkNames = Annotated[
    list[str] | None,
    typer.Option("--benchmark", "-b", help="All evaluations of this benchmark. Repeatable."),
]
DEFAULT_BENCHMARK = "videomme"
"""The benchmark of results files, unless an option or an evaluation says another one."""
FILES = "Results files"
"""The panel of options about results files, of which evaluations need none."""
BenchmarkName = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        "-b",
        help="Benchmark. Default: the benchmark of a named evaluation, else videomme.",
        rich_help_panel=FILES,
    ),
]
JudgeName = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Model in models.yaml that reads the responses the careful reader cannot read.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a value (prediction, answer, options, …), for example prediction=GPT-4o "
        "or id=lvb_acc.id,response=submission.*, or a YAML file of such pairs. Repeatable.",
        rich_help_panel=FILES,
    ),
]
ColumnsOfSecond = Annotated[
    list[str] | None,
    typer.Option("--columns-b", help="The same for the second file only.", rich_help_panel=FILES),
]
Track = Annotated[
    str, typer.Option(help="with_subtitles or without_subtitles.", rich_help_panel=FILES)
]
Annotations = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File with the questions, if others lack them.", rich_help_panel=FILES
    ),
]
FileReader = Annotated[str, typer.Option(help="Answer reader.", rich_help_panel=FILES)]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.")
]
Margin = Annotated[float, typer.Option(min=0.0, help="Points that make no difference.")]
FailIfVerdict = Annotated[
    str, typer.Option(help="Verdict that fails: worse, not-equivalent or undecided.")
]
AllowUndecided = Annotated[
    bool, typer.Option("--allow-undecided", help="Exit with 0 if undecided.")
]
MaxFailed = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Largest share without an answer.")
]
JUnitFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit XML file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD", min=0.0, help="Ask no more once this is spent. The next run resumes."
    ),
]
ShowAll = Annotated[
    bool, typer.Option("--all", help="Show evaluations whose file was deleted, too.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def chosen_evaluations(
    configuration: "Configuration",
    evaluations: Sequence[str] | None,
    benchmarks: Sequence[str] | None,
) -> list[str]:
    """Names of the selected evaluations, or of all that have a file if nothing is selected."""
    from videomme_pipeline.configuration import nearest

    for name in benchmarks or ():
        if name not in configuration.benchmarks:
            raise ConfigurationError(
                f"benchmark {name} is not set up in benchmarks.yaml, "
                f"{nearest(name, configuration.benchmarks)}"
            )
    files = configuration.files
    if not evaluations and not benchmarks:
        return list(files)
    names = [configuration.evaluation(name).name for name in evaluations or ()]
    names += [name for name, e in files.items() if e.benchmark in (benchmarks or ())]
    return list(dict.fromkeys(names))


def evaluations_to_run(
    configuration: "Configuration",
    evaluations: Sequence[str] | None,
    benchmarks: Sequence[str] | None = None,
) -> list[str]:
    """The `chosen_evaluations` without those whose model lacks a package, which are printed."""
    runnable = []
    for name in chosen_evaluations(configuration, evaluations, benchmarks):
        try:
            configuration.evaluation(name).model.check_installed()
        except ModelError as error:
            if name in (evaluations or ()):
                raise
            note(f"Skipped: evaluation {name}: {error}")
        else:
            runnable.append(name)
    return runnable


_SHORT_NAMES = {"id": "question_id", "response": "prediction"}
"""Short names in `--columns`."""


def renamed_columns(columns: Sequence[str] | None) -> dict[str, str]:
    """Parse `--columns` into {name: column}. One text may contain several pairs."""
    from videomme_pipeline.configuration import read_yaml

    named: dict[str, str] = {}
    for part in chain.from_iterable(re.split(r",(?=\w+=)", text) for text in columns or ()):
        name, equals, column = part.partition("=")
        if equals:
            named[name] = column
        elif part.endswith(".yaml"):
            named |= {key: str(value) for key, value in read_yaml(Path(part)).items()}
        else:
            raise ConfigurationError(
                f"--columns {part}: write NAME=COLUMN, for example prediction=GPT-4o, or name a "
                "YAML file of such pairs"
            )
    return {_SHORT_NAMES.get(name, name): column for name, column in named.items()}


def check_output(output: Path | None) -> None:
    """Raise ConfigurationError if `output` is a folder, or its folder does not exist."""
    if output and output.is_dir():
        raise ConfigurationError(f"--output {output}: it is a folder; name a file in it")
    if output and not output.absolute().parent.is_dir():
        raise ConfigurationError(
            f"--output {output}: there is no folder {output.parent}; create it, or choose another "
            "path"
        )


def choice(names: Iterable[Name], value: str, what: str) -> Name:
    """The member of `names`, which may be an enum, that equals `value`."""
    from videomme_pipeline.configuration import nearest

    members = {str(name): name for name in names}
    if value not in members:
        raise ConfigurationError(f"no {what} `{value}`: {nearest(value, members)}")
    return members[value]
