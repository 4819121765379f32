"""A program as a `VideoLLM`: the lines that it gets, the lines that it writes, and its process."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import orjson
from pydantic import Field

from videomme_pipeline.configuration import parse_spec
from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.endpoint.reply import ReportedUsage, usage_of
from videomme_pipeline.models.endpoint.reported_errors import MAX_MESSAGE_CHARACTERS
from videomme_pipeline.models.program.spec import ProgramSpec
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure
from videomme_pipeline.processes.children import exit_report
from videomme_pipeline.processes.lifeline import ProcessGroup
from videomme_pipeline.processes.secrets import Redaction, child_environment
from videomme_pipeline.storage.publish import scratch_folder

EXIT_SECONDS = 10.0
"""Time for a program to end after the end of its input or output, before it is killed."""
_SHOWN_CHARACTERS = 200


class _Answer(Spec):
    """A line that a program writes, without its `id`. It has a `text` or an `error`."""

    text: str | None = None
    error: str | None = None
    reasoning: str | None = None
    usage: ReportedUsage | None = None
    cost_dollars: float | None = Field(default=None, ge=0)
    frames_used: tuple[Annotated[float, Field(ge=0)], ...] | None = None
    trace: Any = None


class ProgramModel:
    """One process of a program. It is started for the first question, and again if it ends."""

    needs_frames = True

    def __init__(self, spec: ProgramSpec, environment: Mapping[str, str], number: int = 1) -> None:
        self.spec, self.name, self.identity = spec, spec.name, spec.identity
        self._number = number
        self._environment = environment
        self._process: _Process | None = None
        self._starting, self._turn = asyncio.Lock(), asyncio.Lock()
        self._asks_one = False
        """True after a process ended with several questions, one of which may end it again."""

    async def respond(self, request: Request) -> Reply:
        """Return the answer of the program, which is started if it does not run."""
        work = self.spec.work_folder
        async with self._turn if self._asks_one else nullcontext():
            with scratch_folder(work and work / "frames") as folder:
                line = await asyncio.to_thread(_question_line, request, folder)
                process = await self._running()
                try:
                    answer = await process.ask(request.fingerprint, line)
                finally:
                    self._asks_one |= process.is_over and len(process.unanswered) > 1
        return _reply(answer)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()

    async def _running(self) -> "_Process":
        async with self._starting:
            if self._process is not None and self._process.is_over:
                await self._process.close()
                self._process = None
            if self._process is None:
                spec = self.spec
                if await asyncio.to_thread(spec.current_contents) != self.identity["files"]:
                    raise ModelError(
                        f"model {self.name}: one of its `files` has changed since this run began; "
                        "run again to ask the changed program all questions"
                    )
                process = _Process(spec, self._environment, self._number)
                await process.connect()
                self._process = process
            return self._process


class _Process:
    """A running program and the questions that it has not answered."""

    def __init__(self, spec: ProgramSpec, environment: Mapping[str, str], number: int) -> None:
        given = {name: environment[name] for name in spec.environment}
        self.is_over = False
        self.unanswered: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._limits = spec.limits
        self._log = spec.open_log(number)
        self._problem: str | None = None
        self._redactions = [Redaction(key) for key in given.values()]
        self._group = ProcessGroup(
            spec.command,
            # Python writes each line at once, even if a program does not flush it.
            {**child_environment(environment), **given, "PYTHONUNBUFFERED": "1"},
            self._log,
            folder=spec.folder,
            has_pipes=True,
            max_memory_bytes=spec.max_memory_bytes,
        )

    async def connect(self) -> None:
        """Open the pipes, before the first question."""
        loop, group = asyncio.get_running_loop(), self._group
        lines = asyncio.StreamReader(self._limits.max_response_bytes)
        protocol = asyncio.StreamReaderProtocol(lines)
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, group.input)
        self._output, _ = await loop.connect_read_pipe(lambda: protocol, group.output)
        self._reading = asyncio.create_task(self._read(lines))

    async def ask(self, key: str, line: bytes) -> dict[str, Any]:
        """The fields of the answer to the question `key`. Raises ResponseFailure without one."""
        seconds = self._limits.request_timeout_seconds
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.unanswered[key] = answer
        self._input.write(line)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            message = f"no answer within {seconds:g} s (`limits.request_timeout_seconds`)"
            raise ResponseFailure(FailureKind.TIMEOUT, message) from None
        finally:
            if answer.cancelled():  # the program may be busy with this question for long
                self._kill("it was stopped, because another question was not answered in time")

    async def close(self) -> None:
        """End the input of the program, and wait until the program has ended."""
        if not self.unanswered:
            self._input.close()
            await asyncio.wait([self._reading], timeout=EXIT_SECONDS)
        if not self._reading.done():
            self._kill("the run ended")
            self._output.close()  # a process outside of the group may keep the pipe open
        await self._reading

    def _kill(self, problem: str) -> None:
        self.is_over = True
        self._problem = self._problem or problem
        self._group.kill()

    async def _read(self, lines: asyncio.StreamReader) -> None:
        """Deliver the answers until the program ends or writes something else."""
        kind = FailureKind.SERVER_ERROR
        try:
            while (line := await lines.readline()).endswith(b"\n"):
                self._deliver(line)
        except ValueError as error:  # StreamReader raises it for a line that is too long
            kind = FailureKind.MALFORMED
            self._kill(str(error))
        self.is_over = True
        status = await asyncio.to_thread(self._group.wait, EXIT_SECONDS)
        await asyncio.to_thread(self._group.stop, 0.0)
        problem = self._problem or exit_report(status or 0, self._log)
        for answer in self.unanswered.values():
            if not answer.done():
                answer.set_exception(ResponseFailure(kind, f"no answer of the program: {problem}"))
        self._input.close()
        self._output.close()
        self._log.close()

    def _deliver(self, line: bytes) -> None:
        """Deliver an answer. Raises ValueError for a line that is none."""
        for redaction in self._redactions:
            line = redaction.redact_bytes(line)
        fields: Any = None
        with suppress(orjson.JSONDecodeError):
            fields = orjson.loads(line)
        key = str(fields.pop("id", None)) if isinstance(fields, dict) else None
        if key is not None and key in self.unanswered:
            answer = self.unanswered.pop(key)
            if not answer.done():
                answer.set_result(fields)
        elif line.strip():
            written = shorten(line.decode(errors="replace"), _SHOWN_CHARACTERS)
            raise ValueError(
                f"it wrote {written!r} to standard output; write only answers there, each as a "
                "JSON object in one line with the `id` of its question, and the rest to standard "
                "error"
            )


def _question_line(request: Request, folder: Path) -> bytes:
    """The line with a question, whose frames are written to `folder`."""
    question, prompt, video = request.question, request.prompt, request.frames.video
    fields: dict[str, Any] = {
        "id": request.fingerprint,
        "benchmark": question.benchmark,
        "video_id": question.video_id,
        "question_id": question.question_id,
        "question": question.question,
        "options": question.options,
        "system": prompt.system,
        "prompt": prompt.text,
        "history": [{"prompt": t.prompt.text, "text": t.answer} for t in request.history],
        "between_frames": list(filter(None, [prompt.before_frames])) + list(prompt.after_frame),
        "subtitles": [
            {name: getattr(line, name) for name in ("start_seconds", "end_seconds", "text")}
            for line in request.lines
            if not line.is_notice
        ],
        "frames": [],
        "video": None,
        "repeat": request.repeat,
        "seed": request.seed,
        "generation": request.generation.model_dump(mode="json"),
    }
    if video is not None:
        clip = question.footage.clip
        fields["video"] = {"path": str(video.path.absolute()), **(asdict(clip) if clip else {})}
    else:
        suffix = request.frames.media_type.rpartition("/")[2]
        for number, frame in enumerate(request.frames.frames):
            path = folder.absolute() / f"{number:05d}.{suffix}"
            path.write_bytes(frame.picture)
            fields["frames"].append({"path": str(path), "seconds": frame.pts_seconds})
    return orjson.dumps(fields) + b"\n"


def _reply(fields: Mapping[str, Any]) -> Reply:
    """The reply of a program. Raises ResponseFailure if it has no text."""
    try:
        answer = parse_spec(fields, _Answer, "the answer of the program")
    except ConfigurationError as error:
        raise ResponseFailure(FailureKind.MALFORMED, str(error)) from None
    more = {name: fields[name] for name in ("usage", "frames_used", "trace") if name in fields}
    reply = Reply(
        text=answer.text or "",
        reasoning=answer.reasoning,
        finish_reason="stop",
        usage=usage_of(answer.usage or ReportedUsage()),
        usage_json=orjson.dumps(more).decode() if more else None,
        cost_dollars=answer.cost_dollars,
    )
    if answer.error is not None:
        reported = f"the program reports: {answer.error[:MAX_MESSAGE_CHARACTERS]}"
        raise ResponseFailure(FailureKind.REJECTED, reported, reply=reply)
    return reply
