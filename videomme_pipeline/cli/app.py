"""The entry point: starts a command, stops it at a signal, and shows its error.

Before there is a handler, Python answers Ctrl-C with a traceback. So this module and its packages
import nothing that Python has not already imported when it starts; `main` imports everything else.
"""

import os
import sys
from _signal import SIGINT, SIGTERM, signal  # type: ignore[import-not-found]


def main() -> None:
    """Run the command line. Ctrl-C and SIGTERM stop it at any moment."""
    for number in (SIGINT, SIGTERM):
        signal(number, _end_at_once)
    from videomme_pipeline.cli.stopping import run_stoppable

    run_stoppable(run_command)


def run_command() -> None:
    """Run the command of `sys.argv`. Print a `VideoMMEError` as one paragraph without traceback."""
    from videomme_pipeline.cli.commands import app
    from videomme_pipeline.cli.output import err
    from videomme_pipeline.errors import VideoMMEError
    from videomme_pipeline.reports.terminal.tables import show_line

    _set_encodings()
    if odd := [name for name in sys.argv if name.encode(errors="replace").decode() != name]:
        err.print(f"Error: {odd[0]}: not UTF-8; rename it", markup=False, soft_wrap=True)
        sys.exit(2)  # the status of wrong usage
    try:
        app()
    except VideoMMEError as error:
        show_line(err, str(error), "Error:", "bold red")
        sys.exit(1)


def _end_at_once(number: int, frame: object) -> None:  # noqa: ARG001
    """End a command that has done nothing yet."""
    try:
        os.write(2, b"Stopped.\n")
    finally:  # also if standard error is closed
        os._exit(128 + number)


def _set_encodings() -> None:
    """Use UTF-8 for files and pipes. On a terminal, replace what it cannot show."""
    import io

    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="replace")
