"""Commands for frames: frames show."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import BenchmarkName, Output
from videomme_pipeline.cli.context import note, open_project
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from videomme_pipeline.benchmarks.locate import VideoSource
    from videomme_pipeline.benchmarks.question import Question
    from videomme_pipeline.project.project import Project

commands = typer.Typer(no_args_is_help=True, help="Show the frames a model would be sent.")


@commands.command("show", epilog="Example: videomme frames show clip.mp4 --sampling uniform_n-16")
def frames_show(
    video: Annotated[str, typer.Argument(help="A file, or the id of a video of any benchmark.")],
    sampling: Annotated[str, typer.Option(help="For example uniform_n-16 or fps_based-1-max-64.")],
    benchmark: BenchmarkName = None,
    output: Output = None,
) -> None:
    """Write a contact sheet of the frames that a model would be sent, as .jpg or .png.

    A file needs no project.
    """
    from videomme_pipeline.frames.extract import show_frames
    from videomme_pipeline.frames.sampling import FromFile
    from videomme_pipeline.frames.sampling_names import configured_sampling
    from videomme_pipeline.project.project import configuration_folder, is_project
    from videomme_pipeline.storage.layout import Store

    path: VideoSource = Path(video)
    questions: Sequence[Question] = ()
    folder = configuration_folder()
    with TemporaryDirectory() as scratch:
        store = Store.at(scratch)
        if not Path(video).is_file() or is_project(folder):
            project = open_project()
            store = project.store
            if not Path(video).is_file():
                path, questions = _stored_video(project, video, benchmark)
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
    """The file and the questions of a stored video."""
    names = [benchmark] if benchmark else list(project.benchmarks)
    states = filter(None, map(project.benchmarks.get, names))
    stored = next((s.snapshot for s in states if s.snapshot.find_video(video)), None)
    if stored is None:
        raise ConfigurationError(
            f"{video} is neither a file nor a stored video of {' or '.join(names)}; build the "
            "videos with `videomme run`, or give the path of a file"
        )
    questions = stored.questions[video]
    return stored.source.files(questions[0].reference).video, questions
