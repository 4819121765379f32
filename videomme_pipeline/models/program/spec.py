"""Settings of a model that is a program, in `models.yaml`."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self

from blake3 import blake3
from pydantic import Field, model_validator

from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.fingerprint import FINGERPRINT_BYTES
from videomme_pipeline.models.spec import Limits, ModelSpec
from videomme_pipeline.processes.lifeline import log_path


class ProgramLimits(Limits):
    """Limits of a program. `concurrency` is the number of questions that one process has."""

    concurrency: int | None = Field(default=1, ge=1)
    """Questions that a process gets before it has answered them. None adapts the number."""
    max_attempts: int = Field(default=2, ge=1)
    """Attempts of one question in a run. A question that ends the program twice has failed."""


class ProgramSpec(ModelSpec):
    """A program that a run starts. It reads questions from standard input and writes answers."""

    sees_frame_times: ClassVar[bool] = True
    reads_parts: ClassVar[bool] = True
    takes_history: ClassVar[bool] = True
    kind: Literal["program"] = "program"
    command: tuple[str, ...] = Field(min_length=1)
    """The program and its arguments."""
    files: tuple[str, ...] = ()
    """The program's own files in `folder`, such as `agent.py` or `prompts/*.txt`. With other
    contents, the program counts as another model."""
    version: str | None = None
    """Your own label for everything else that changes answers, such as weights or a service."""
    processes: int = Field(default=1, ge=1, le=64)
    """Processes of the program that share the questions."""
    frames_as: Literal["files", "video_file"] = "files"
    """`files` gives the paths of the frames as pictures, `video_file` the path of the video."""
    environment: tuple[str, ...] = ()
    """Environment variables with keys that the program gets, such as `OPENAI_API_KEY`."""
    max_memory_bytes: int | None = Field(default=None, ge=1)
    """Memory for the data of each process. A process that needs more ends with an error."""
    is_paid: bool = True
    """True if answers may cost money. A run with a limit then needs `cost_dollars` in answers."""
    limits: ProgramLimits = ProgramLimits()
    folder: Path = Field(default=Path(), exclude=True)
    """The folder in which the program runs. Default: that of models.yaml."""
    work_folder: Path | None = Field(default=None, exclude=True)
    """The folder of logs and of the frames of open questions. Default: in the data folder."""

    @model_validator(mode="before")
    @classmethod
    def _is_no_endpoint(cls, entry: dict[str, Any]) -> dict[str, Any]:
        for key in ("serve", "base_url"):
            if key in entry:
                raise ValueError(
                    f"`command` starts a program, `{key}` is for endpoints; remove one"
                )
        return entry

    @property
    def identity(self) -> Mapping[str, object]:
        """The values that can change an answer. The name of the entry is not one of them."""
        return {
            "kind": self.kind,
            "command": self.command,
            "files": self.contents,
            "version": self.version,
            "frames_as": self.frames_as,
        }

    def in_folder(self, folder: Path) -> Self:
        changed = self.model_copy(update={"folder": folder.absolute() / self.folder})
        changed.contents  # noqa: B018 - raises the error of a missing file
        return changed

    def working_in(self, folder: Path) -> Self:
        return self.model_copy(update={"work_folder": self.work_folder or folder.absolute()})

    @cached_property
    def contents(self) -> tuple[str, ...]:
        return self.current_contents()

    def current_contents(self) -> tuple[str, ...]:
        """Hash of each of `files` as it is now. Raises ConfigurationError if one is missing."""
        return tuple(_content(path) for name in self.files for path in self._named(name))

    def _named(self, name: str) -> list[Path]:
        path = self.folder / name
        if path.exists() or path == Path(name):  # an absolute path is no pattern
            return [path]
        return sorted(file for file in self.folder.glob(name) if file.is_file()) or [path]

    @property
    def reads_video(self) -> bool:
        return self.frames_as == "video_file"

    @property
    def costs_money(self) -> bool:
        return self.is_paid

    @property
    def key_variables(self) -> tuple[str, ...]:
        return self.environment

    @property
    def programs(self) -> tuple[str, ...]:
        return (" ".join(self.command),)

    @property
    def shared_resources(self) -> tuple[str, ...]:
        return (f"program://{self.name}",)

    def check_installed(self) -> None:
        program = self.command[0]
        if shutil.which(self.folder / program if os.sep in program else program) is None:
            raise ModelError(
                f"model {self.name}: there is no program {program}; install it, or write "
                f"./{program} for a file in {self.folder} that can be executed"
            )

    def open_log(self, number: int) -> IO[bytes]:
        """The log of process `number`, for appending."""
        if self.work_folder is None:
            return tempfile.TemporaryFile()
        path = log_path(self.work_folder, self.name, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b")


def _content(path: Path) -> str:
    try:
        return blake3(path.read_bytes()).hexdigest(length=FINGERPRINT_BYTES)
    except OSError as error:
        raise ConfigurationError(
            f"`files`: {path} cannot be read ({error.strerror}); name files, or patterns of files, "
            "in the folder of the program"
        ) from None
