"""Commands that prepare and check a project: init, doctor."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import open_project, showing_progress
from videomme_pipeline.cli.output import announce, note, show
from videomme_pipeline.errors import ConfigurationError, Finding, ModelError, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from videomme_pipeline.models.spec import ModelSpec
    from videomme_pipeline.project.project import Project

commands = typer.Typer()

SCHEMA_FOLDER = ".schemas"


@commands.command(epilog="Example: videomme init my-model --benchmark smoke")
def init(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="New evaluation, or folder of a new benchmark. Default: a project."
        ),
    ] = None,
    named_benchmark: Annotated[
        str | None,
        typer.Option(
            "--benchmark",
            "-b",
            help="Benchmark to evaluate on, or name of the new one. Default: smoke.",
        ),
    ] = None,
    annotations: arguments.Annotations = None,
    columns: arguments.Columns = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|URL",
            help="Model in models.yaml, or the URL of an endpoint, whose model is entered there. "
            "Default: the model of this name, the only endpoint, or a baseline.",
        ),
    ] = None,
    sampling: Annotated[
        str, typer.Option(help="Sampling of the frames, or none.")
    ] = "uniform_n-16",
    subtitles: Annotated[str, typer.Option(help="Alignment of the subtitles, or none.")] = "none",
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="VIDEOS", help="Evaluate only so many videos.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Write the evaluations of the demo into the project.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Write JSON Schemas of the YAML files, for editors.")
    ] = False,
) -> None:
    """Write a new project, an evaluation file with comments, or the declaration of a benchmark.

    The files of a project are written into the current folder, if it has none. A
    file that exists is never changed. If the name is a folder with videos and
    annotations (JSON, JSON lines, CSV, TSV or Parquet), and there is no benchmark
    of that name, its declaration is written.
    """
    from videomme_pipeline.configuration import is_name
    from videomme_pipeline.evaluation import writing
    from videomme_pipeline.project.project import configuration_folder, is_project

    if schema:
        _write_schemas()
        return
    if name is None:
        given = {"--annotations": annotations, "--benchmark": named_benchmark, "--model": model}
        for option, value in given.items():
            if value is not None:
                raise ConfigurationError(
                    f"{option} {value}: give the name of the new evaluation or the folder of the "
                    "new benchmark, too"
                )
        _init_project(demo=demo)
        note(
            "Check the project, then build and show its scores: videomme doctor, videomme run\n"
            "Write an evaluation of your model: videomme init my-model --model URL"
        )
        return
    if demo:
        raise ConfigurationError(f"--demo writes a whole project; leave out {name}")
    if not is_project(configuration_folder()):
        _init_project(demo=False)
    configuration, benchmark = open_project().configuration, named_benchmark or "smoke"
    if Path(name).is_dir() and benchmark not in configuration.benchmarks:
        named = arguments.renamed_columns(columns)
        folder = configuration.folder
        path = writing.write_declaration(folder, benchmark, Path(name), annotations, named)
        note(
            f"Wrote {path}. Check it with: videomme doctor\n"
            f"Then write an evaluation: videomme init my-model --benchmark {benchmark}"
        )
        return
    if annotations is not None:
        raise ConfigurationError(
            f"--annotations {annotations}: only a new benchmark has annotations; give the folder "
            "of its videos and a new name with --benchmark"
        )
    if Path(name).is_dir() and not is_name(name):
        raise ConfigurationError(
            f"{name} is a folder; choose a name for its benchmark: "
            f"videomme init {name} --benchmark my-set"
        )
    arguments.chosen_evaluations(configuration, None, [benchmark])
    if model is not None and "://" in model:
        model = writing.write_endpoint(configuration, model)
        configuration = open_project().configuration
    model = model or writing.usual_model(configuration, name)
    keys = {"benchmark": benchmark, "model": model, "sampling": sampling, "subtitles": subtitles}
    path = writing.write_example(configuration, name, keys, limit)
    note(f"Wrote {path}, which evaluates {model}. Edit it, then: videomme run {name}")


def _init_project(*, demo: bool) -> None:
    """Write the files of a project that the current folder lacks."""
    from videomme_pipeline.evaluation.writing import write_project
    from videomme_pipeline.project.project import configuration_folder

    if not os.access(Path.cwd(), os.W_OK):
        raise ConfigurationError(
            f"{Path.cwd()}: no file can be written here; change to a folder of your own"
        )
    written = write_project(Path(), configuration_folder(), demo=demo)
    for path in written:
        note(f"Wrote {path}")
    if not written:
        note("Every file of the project exists and is unchanged.")


def _write_schemas() -> None:
    from upath import UPath

    from videomme_pipeline.project.schemas import schemas
    from videomme_pipeline.storage.publish import publish

    configuration = open_project().configuration
    folder = configuration.folder / SCHEMA_FOLDER
    folder.mkdir(exist_ok=True)
    for name, content in schemas(configuration).items():
        publish(UPath(folder / f"{name}.json"), json.dumps(content, indent=2).encode())
    note(
        f"Wrote {folder}. First line of an evaluation file:\n"
        f"# yaml-language-server: $schema=../{SCHEMA_FOLDER}/evaluation.json\n"
        "First line of models.yaml (and so on for the other files):\n"
        f"# yaml-language-server: $schema={SCHEMA_FOLDER}/models.json"
    )


@commands.command(epilog="Example: videomme doctor")
def doctor(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Check only this model, with one small request."),
    ] = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Send the model six requests, which show if pictures and their times arrive.",
        ),
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also run a task on the cluster.")] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Check what a run needs: packages, disk, keys, endpoints, license flag, data and versions.

    Exits with status 1 if a check fails.
    """
    announce("Checking…")
    from videomme_pipeline.project.doctor import examine, examine_model
    from videomme_pipeline.reports.findings import show_findings

    if model is None:
        from videomme_pipeline.assets.instance import check_instance

        if probe:
            raise ConfigurationError(
                "--probe: name the model, as in `videomme doctor MODEL --probe`"
            )
        findings = [*examine(open_project(), is_deep=deep), check_instance()]
    elif probe:
        findings = _probe(open_project(), model)
    else:
        with showing_progress() as show_progress:
            findings = list(examine_model(open_project(), model, show_progress))
    show(findings, show_findings, as_json=as_json)
    if any(finding.status is Status.ERROR for finding in findings):
        raise typer.Exit(1)


def _probe(project: "Project", name: str) -> list[Finding]:
    import asyncio

    from videomme_pipeline.models.catalog import build_model
    from videomme_pipeline.models.endpoint.spec import EndpointSpec
    from videomme_pipeline.models.endpoint_probe import probe_endpoints

    spec = project.configuration.catalog.find(name)
    with project.servers as servers:
        with showing_progress() as show_progress:
            served = servers.start(spec, show_progress)
        members: Sequence[ModelSpec] = [served]
        address = name
        if isinstance(served, EndpointSpec):
            members, address = served.members, served.endpoint
        note(f"Sending a few small requests to {address}…")
        pairs = [(member, build_model(member)) for member in members]
        samplings = project.configuration.samplings_of_model(name)
        findings = asyncio.run(probe_endpoints(pairs, samplings))
        if isinstance(served, EndpointSpec) and served.reports_server:
            try:
                report = str(served.reported_server() or "unknown: it reports nothing about itself")
                findings.append(Finding.ok("server", report))
            except ModelError as error:
                findings.append(Finding.error("server", str(error)))
    return findings
