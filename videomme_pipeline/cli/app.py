"""The entry point: how a command is started, is stopped, and shows its error.

It imports the commands when it runs, so that they can be stopped while they are imported.
"""

import io
import sys

from videomme_pipeline.cli.stopping import run_stoppable


def main() -> None:
    """Run the command line. Ctrl-C and SIGTERM stop it at any moment."""
    run_stoppable(run_command)


def run_command() -> None:
    """Run the command of `sys.argv`. Print a `VideoMMEError` as one paragraph without traceback."""
    from rich.markup import escape

    from videomme_pipeline.cli.commands import app
    from videomme_pipeline.cli.context import err
    from videomme_pipeline.errors import VideoMMEError

    _set_encodings()
    try:
        app()
    except VideoMMEError as error:
        err.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)


def _set_encodings() -> None:
    """Use UTF-8 for files and pipes. On a terminal, replace what it cannot show."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="replace")
