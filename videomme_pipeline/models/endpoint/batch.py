"""Models at batch prices: questions are sent in files to OpenAI's Batch API.

The Batch API answers within a day for half the price. `respond` returns when the batch that
contains the question has ended. The metadata of a batch contains the fingerprints of its
requests. With them a run finds the batches of a killed run and pays for no request twice.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import orjson
from openai.types import Batch
from pydantic import ValidationError

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.models.endpoint.body import RequestBody, request_body
from videomme_pipeline.models.endpoint.client import EndpointModel
from videomme_pipeline.models.endpoint.json_fields import Fields, OrNone
from videomme_pipeline.models.endpoint.reply import read_reply
from videomme_pipeline.models.endpoint.reported_errors import (
    ErrorDetail,
    permanent_failure,
    status_failure,
)
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import HttpResponse, connect
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure
from videomme_pipeline.processes.secrets import Redaction

MAX_FILE_BYTES = 190_000_000
"""Just below the 200 MB that OpenAI accepts in one file."""
MAX_REQUESTS = 300
"""The number of fingerprints that fit into the 16 × 512 characters of a batch's metadata."""
RECALL_SECONDS = 48 * 3600
"""Age up to which the batches of earlier runs are used."""

_PER_KEY = 20
_ENDED_BADLY = frozenset({"failed", "expired", "cancelled"})


class _Response(Fields):
    status_code: OrNone[int] = None
    body: OrNone[dict[str, Any]] = None


class _Result(Fields):
    """One line of a batch's output."""

    custom_id: str
    response: OrNone[_Response] = None
    error: OrNone[ErrorDetail] = None


@dataclass
class _Part:
    """The questions of the next file. Their bodies are on disk, not in memory."""

    path: Path
    fingerprints: list[str] = field(default_factory=list)
    size: int = 0


class OpenAIBatchModel(EndpointModel):
    """A model with `service_tier: batch`. An answer can take a day.

    A file is submitted when it is full, or `gather_seconds` after its last question. So all
    questions in flight share a file if they fit.
    """

    def __init__(
        self,
        spec: EndpointSpec,
        *,
        api_key: str | None = None,
        poll_seconds: float = 30.0,
        gather_seconds: float = 5.0,
    ) -> None:
        super().__init__(spec, api_key=api_key)
        self._redaction = Redaction(api_key)
        self._poll_seconds = poll_seconds
        self._gather_seconds = gather_seconds
        self._client: openai.AsyncOpenAI | None = None
        self._recalled: asyncio.Task[None] | None = None
        self._part: _Part | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answers: dict[str, asyncio.Future[_Result]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request) -> Reply:
        body = request_body(self.spec, request)
        if self._recalled is None:
            self._recalled = asyncio.create_task(self._recall())
        await self._recalled
        fingerprint = request.fingerprint
        answer = self._answers.get(fingerprint)
        if answer is None:
            answer = self._answers[fingerprint] = asyncio.get_running_loop().create_future()
            self._add(fingerprint, body)
        try:
            line = await asyncio.shield(answer)
        finally:
            if answer.done():
                # If the question is asked again, it needs a new batch.
                self._answers.pop(fingerprint, None)
        return _reply_of(line, self.spec, request)

    async def close(self) -> None:
        await super().close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._part is not None:
            self._part.path.unlink(missing_ok=True)
        client, self._client = self._client, None
        self._recalled, self._part = None, None
        self._answers.clear()
        if client is not None:
            await client.close()

    def _connected(self) -> openai.AsyncOpenAI:
        if self._client is None:
            self._client = connect(self.spec, self._api_key)
        return self._client

    async def _recall(self) -> None:
        """Find the batches that earlier runs submitted, newest first."""
        try:
            async for batch in await self._connected().batches.list():
                if time.time() - batch.created_at > RECALL_SECONDS:
                    return
                missing = [
                    fingerprint
                    for fingerprint in _fingerprints_in(batch)
                    if fingerprint not in self._answers
                ]
                if missing and batch.status not in _ENDED_BADLY:
                    self._expect(missing)
                    self._start(self._watch(batch, missing), missing)
        except openai.OpenAIError as error:
            self._recalled = None
            raise self._failure(error) from None  # the error may contain the key

    def _expect(self, fingerprints: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        for fingerprint in fingerprints:
            future: asyncio.Future[_Result] = loop.create_future()
            # Perhaps nothing waits for this answer. If its error is not retrieved, asyncio logs it.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._answers[fingerprint] = future

    def _add(self, fingerprint: str, body: RequestBody) -> None:
        head = {"custom_id": fingerprint, "method": "POST", "url": "/v1/chat/completions"}
        line_bytes = body.size + len(orjson.dumps(head)) + len(b',"body":}\n')
        if self._part is not None and self._part.size + line_bytes > MAX_FILE_BYTES:
            self._submit()
        if self._part is None:
            with tempfile.NamedTemporaryFile(suffix=".jsonl", delete=False) as file:
                self._part = _Part(Path(file.name))
        part = self._part
        with part.path.open("ab") as file:
            file.write(orjson.dumps(head)[:-1] + b',"body":')
            file.writelines(body.chunks())
            file.write(b"}\n")
        part.fingerprints.append(fingerprint)
        part.size += line_bytes
        if self._timer is not None:
            self._timer.cancel()
        if len(part.fingerprints) >= MAX_REQUESTS:
            self._submit()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._gather_seconds, self._submit)

    def _submit(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            self._start(self._run(part), part.fingerprints)

    def _start(self, work: Any, fingerprints: Sequence[str]) -> None:
        """Run `work`, and pass its error to every task that waits for `fingerprints`."""

        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - otherwise nobody would end the waits
                failure = self._failure(error)
                for fingerprint in fingerprints:
                    answer = self._answers.get(fingerprint)
                    if answer is not None and not answer.done():
                        answer.set_exception(failure)

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, part: _Part) -> None:
        client = self._connected()
        try:
            uploaded = await client.files.create(file=part.path, purpose="batch")
        finally:
            part.path.unlink(missing_ok=True)
        batch = await client.batches.create(
            input_file_id=uploaded.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata=dict(_metadata_of(part.fingerprints)),
        )
        await self._watch(batch, part.fingerprints)

    async def _watch(self, batch: Batch, fingerprints: Sequence[str]) -> None:
        """Wait for `batch`, and deliver its answers to `fingerprints`."""
        client = self._connected()
        while batch.status != "completed" and batch.status not in _ENDED_BADLY:
            await asyncio.sleep(self._poll_seconds)
            batch = await client.batches.retrieve(batch.id)
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                file = await client.files.content(file_id)
                content = self._redaction.redact_bytes(file.content)
                self._deliver(content.splitlines(), set(fingerprints))
        for fingerprint in fingerprints:
            answer = self._answers.get(fingerprint)
            if answer is not None and not answer.done():
                answer.set_exception(
                    ResponseFailure(
                        FailureKind.SERVER_ERROR,
                        f"batch {batch.id} ended ({batch.status}) without this answer",
                    )
                )

    def _deliver(self, lines: Sequence[bytes], fingerprints: set[str]) -> None:
        for line in lines:
            try:
                result = _Result.model_validate(orjson.loads(line))
            except (orjson.JSONDecodeError, ValidationError):
                continue  # its question gets no answer, and the batch says why
            answer = self._answers.get(result.custom_id)
            if result.custom_id in fingerprints and answer is not None and not answer.done():
                answer.set_result(result)

    def _failure(self, error: Exception) -> VideoMMEError:
        if isinstance(error, VideoMMEError):
            return error
        if isinstance(error, openai.APIStatusError):
            response = error.response
            headers, content = response.headers.items(), response.content
            answer = HttpResponse.redacted(response.status_code, headers, content, self._redaction)
            return status_failure(answer, self.spec)
        message = self._redaction.redact(f"{type(error).__name__}: {error}")
        return ResponseFailure(FailureKind.CONNECTION, message)


def _reply_of(result: _Result, spec: EndpointSpec, request: Request) -> Reply:
    response = result.response or _Response()
    if response.status_code is None:
        error = result.error or ErrorDetail(message="no response")
        raise permanent_failure(spec, error.message, None, error.code) or ResponseFailure(
            FailureKind.SERVER_ERROR, f"in a batch: {error.message}"
        )
    body = orjson.dumps(response.body)
    if response.status_code == 200:
        return read_reply(body, spec, request)
    raise status_failure(HttpResponse(response.status_code, {}, body), spec)


def _metadata_of(fingerprints: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, start in enumerate(range(0, len(fingerprints), _PER_KEY)):
        yield f"videomme_{number:02d}", " ".join(fingerprints[start : start + _PER_KEY])


def _fingerprints_in(batch: Batch) -> Iterator[str]:
    for key, value in (batch.metadata or {}).items():
        if key.startswith("videomme_"):
            yield from value.split()
