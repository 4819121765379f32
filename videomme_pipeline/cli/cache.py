"""Commands for stored data: cache ls, gc, verify, journal, and frames show."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import open_project, own_store
from videomme_pipeline.cli.output import note, print_json, show
from videomme_pipeline.errors import ConfigurationError, StorageError
from videomme_pipeline.reports.terminal.runs import show_shelves

if TYPE_CHECKING:
    from videomme_pipeline.benchmarks.locate import VideoSource
    from videomme_pipeline.benchmarks.question import Question
    from videomme_pipeline.project.project import Project

commands = typer.Typer(
    no_args_is_help=True, help="List, verify or move what is stored, and free disk space."
)
frames = typer.Typer(no_args_is_help=True, help="Show the frames a model would be sent.")


@commands.command("ls", epilog="Example: videomme cache ls")
def cache_ls(as_json: arguments.AsJson = False) -> None:
    """List the stored files by sampling, track or evaluation, and the evaluations that use them."""
    from videomme_pipeline.stages.data_folder import DataFolder

    shelves = [asdict(shelf) for shelf in DataFolder(open_project()).shelves()]
    show(shelves, show_shelves, as_json=as_json)


@commands.command("gc", epilog="Example: videomme cache gc --dry-run")
def cache_gc(
    dry_run: arguments.DryRun = False,
    sampling: Annotated[
        list[str] | None,
        typer.Option(help="Also remove all frames of this sampling, used or not. Repeatable."),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVALUATION",
            help="Also remove the scores of an evaluation whose file is gone. Its answers stay in "
            "the journal. Repeatable.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation with --sampling.")
    ] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Remove frames, packet indexes, subtitles and prompts that nothing needs.

    Keeps what evaluation files, samplings.yaml and shown scores need, files of
    the last 30 days, and all responses, scores and nightly runs.
    """
    from rich.filesize import decimal

    from videomme_pipeline.stages.data_folder import DataFolder, by_reason, remove

    project = open_project()
    for name in forget or ():
        note(f"{'Would forget' if dry_run else 'Forgets'} {name}")
        if not dry_run:
            DataFolder(project).forget(name)
    folder = DataFolder(project)
    garbage = folder.garbage(sampling or ())
    reasons = by_reason(garbage)
    freed = sum(file.bytes for file in garbage)
    for reason in reasons:
        note(f"{reason['files']:,} files, {decimal(reason['bytes'])}: {reason['why']}")
    for shelf in folder.shelves():
        if shelf.kind == "frames" and shelf.name in (sampling or ()) and shelf.named_by:
            users = ", ".join(shelf.named_by)
            note(f"{shelf.name} is used by {users}; their frames will be extracted again")
    if dry_run:
        note(f"Would free {decimal(freed)}. Nothing was removed.")
    else:
        if sampling and not yes:
            typer.confirm(f"Remove {len(garbage):,} files?", abort=True, err=True)
        remove(garbage)
        project.store.remove_left_over()
        note(f"Freed {decimal(freed)}.")
    if as_json:
        print_json({"removed": not dry_run, "bytes": freed, "garbage": reasons})


@commands.command("verify", epilog="Example: videomme cache verify ~/backup")
def cache_verify(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="A folder, or an fsspec URL such as s3://bucket/folder."
        ),
    ],
) -> None:
    """Verify all bytes of the tables of a store. Damaged tables are set aside."""
    from videomme_pipeline.storage.layout import Store
    from videomme_pipeline.storage.tables import verify

    intact, problems = verify(Store.at(url, title="store").tables())
    for problem in problems:
        note(problem)
    if not intact and not problems:
        raise StorageError(f"{url}: no table is stored there; check the address")
    note(f"{len(intact):,} tables are intact, {len(problems):,} are not.")
    if problems:
        raise typer.Exit(1)


@commands.command("journal", epilog="Example: videomme cache journal data/local/journal.sqlite")
def cache_journal(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An SQLite file, or postgresql+psycopg2://user:password@host/name.",
        ),
    ],
) -> None:
    """Copy another journal into the journal of this project, and verify both.

    The journal of this project is in PostgreSQL if VIDEOMME_POSTGRES_URL is set, and otherwise an
    SQLite file. An SQLite file that was copied is renamed to `….copied`, so that no run uses it.
    """
    from videomme_pipeline.project.runs.journal import copy_into

    copied = copy_into(open_project().store, source)
    for table in copied:
        kept = f", and {table.different:,} others were kept" if table.different else ""
        note(f"Copied {table.copied:,} {table.name}; {table.same:,} were there already{kept}.")


@frames.command("show", epilog="Example: videomme frames show clip.mp4 --sampling uniform_n-16")
def frames_show(
    video: Annotated[
        str, typer.Argument(metavar="VIDEO", help="A file, or the id of a video of any benchmark.")
    ],
    sampling: Annotated[str, typer.Option(help="For example uniform_n-16 or fps_based-1-max-64.")],
    benchmark: arguments.BenchmarkName = None,
    output: arguments.Output = None,
) -> None:
    """Write a contact sheet of the frames that a model would be sent, as .jpg or .png.

    A file needs no project.
    """
    from videomme_pipeline.frames.extract import show_frames
    from videomme_pipeline.frames.sampling import FromFile
    from videomme_pipeline.frames.sampling_names import configured_sampling
    from videomme_pipeline.project.project import configuration_folder
    from videomme_pipeline.storage.layout import Store

    path: VideoSource = Path(video)
    questions: Sequence[Question] = ()
    folder = configuration_folder()
    with TemporaryDirectory() as scratch:
        store = own_store() or Store.at(scratch)
        if not Path(video).is_file():
            path, questions = _stored_video(open_project(), video, benchmark)
        target = output or Path(f"{path.stem}.{sampling}.jpg")
        if target.suffix.lower() not in (".jpg", ".jpeg", ".png"):
            raise ConfigurationError(
                f"--output {target}: choose a file name that ends in .jpg or .png"
            )
        chosen = configured_sampling(sampling, folder).for_questions(questions)
        if isinstance(chosen, FromFile) and not questions:
            raise ConfigurationError(
                f"{sampling} names the frames of questions; give the id of a video of a benchmark"
            )
        question = questions[0] if questions else None
        frames = show_frames(path, chosen, target, store=store, question=question)
    limit = f", {frames.limit}" if frames.limit else ""
    note(
        f"Wrote {target}: {len(frames.frames):,} of {frames.asked:,} requested frames{limit}, "
        f"{frames.bytes:,} bytes"
    )


def _stored_video(
    project: "Project", video: str, benchmark: str | None
) -> "tuple[VideoSource, Sequence[Question]]":
    names = [benchmark] if benchmark else list(project.benchmarks)
    states = filter(None, map(project.benchmarks.get, names))
    stored = next((s.snapshot for s in states if s.snapshot.find_video(video)), None)
    if stored is None:
        raise ConfigurationError(
            f"{video} is neither a file nor a stored video of {' or '.join(names)}; build the "
            "videos with `videomme run`, or give the path of a file"
        )
    questions = stored.questions[video]
    return stored.source.video_file(questions[0].reference), questions
