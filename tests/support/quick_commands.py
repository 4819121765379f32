"""`videomme` commands in real processes that start within milliseconds, so that many can be killed.

A server process has imported everything and forks each command.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.support.commands import environment_of

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.preloaded"])


def start(root: Path, *arguments: str) -> BaseProcess:
    """Start a command of the project in `root`, in its own process group."""
    process = _FORKS.Process(target=_work, args=(root, arguments, environment_of(root)))
    process.start()
    return process


def run(root: Path, *arguments: str) -> str:
    """Run a command to its end, which must be a success, and return its standard error."""
    process = start(root, *arguments)
    process.join()
    err = log_of(root)
    assert process.exitcode == 0, err
    return err


def log_of(root: Path) -> str:
    """Standard error of the last command."""
    return (root / "err.log").read_text(encoding="utf-8")


def _work(root: Path, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
    from videomme_pipeline.cli.app import main  # noqa: PLC0415 - it is preloaded

    os.setsid()
    os.chdir(root)
    os.environ.update(environment)
    sys.argv = ["videomme", *arguments]
    with (
        (root / "out.log").open("w", encoding="utf-8") as out,
        (root / "err.log").open("w", encoding="utf-8") as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        main()
