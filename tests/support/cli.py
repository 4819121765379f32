"""Run `videomme` commands in the test process."""

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from videomme_pipeline.cli.app import run_command
from videomme_pipeline.cli.run import PLANNING


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def failed_with(self) -> str:
        """The one paragraph of a command that failed on purpose, and nothing else."""
        assert (self.status, self.out) == (1, ""), self
        message = self.err.removeprefix(f"{PLANNING}\n")
        assert message.startswith("Error: ")
        assert "Traceback" not in message
        assert "\n\n" not in message
        return message.removeprefix("Error: ").strip()


def videomme(*arguments: str, stdin: str = "") -> CommandResult:
    """Run a command in this process, as the entry point does."""
    out, err, status = StringIO(), StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["videomme", *arguments])
        patch.setattr(sys, "stdin", StringIO(stdin))
        try:
            run_command()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return CommandResult(status=status, out=out.getvalue(), err=err.getvalue())


def use(patch: pytest.MonkeyPatch, root: Path) -> None:
    """Set the environment so that commands use the project in `root`."""
    patch.setenv("VIDEOMME_CONFIGURATION", str(root / "configuration"))
    patch.setenv("VIDEOMME_DATA", str(root / "data"))
    patch.setenv("DAGSTER_HOME", str(root / "home"))
