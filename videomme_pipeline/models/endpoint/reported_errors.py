"""Errors that an endpoint reports: a failed attempt, or a reason why no question can be answered.

Some engines report a permanent error with a status that normally passes, such as llama.cpp with
500 for a model without vision. Such errors are recognized by their text (`known_errors.yaml`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from pathlib import Path

import orjson
from pydantic import ValidationError

from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.errors import ModelError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.endpoint.served import Fields, OrNone, Text
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import HttpResponse
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

MAX_MESSAGE_CHARACTERS = 500
MAX_RETRY_AFTER_SECONDS = 86_400.0
"""A longer Retry-After is a mistake of the endpoint and is ignored."""


class _KnownError(Spec):
    """An error after which a request can never succeed."""

    texts: tuple[str, ...] = ()
    """Parts of the message in lower case. Without them, status and code are compared."""
    statuses: tuple[int, ...] = ()
    code: str | None = None
    problem: str = ""
    """Verb phrase with the endpoint as its subject, if `ends_run`."""
    next_step: str
    ends_run: bool = True
    """No question can be answered. Otherwise, this request has no answer."""
    kind: FailureKind = FailureKind.TOO_LARGE
    """The kind of the failure, unless it `ends_run`."""

    def is_reported(self, message: str, status: int | None, code: str | None) -> bool:
        if self.texts:
            return any(part in message.lower() for part in self.texts)
        return status in self.statuses and self.code in (None, code)


_KNOWN_ERRORS = tuple(
    parse_spec(entry, _KnownError, "known_errors.yaml")
    for entry in read_yaml(Path(__file__).with_name("known_errors.yaml"))["errors"]
)


class ErrorDetail(Fields):
    """An error that an endpoint describes."""

    message: OrNone[Text] = None
    code: OrNone[Text | int] = None


class _ErrorBody(Fields):
    error: ErrorDetail


def permanent_failure(
    spec: EndpointSpec, message: str, status: int | None, code: str | None = None
) -> ModelError | ResponseFailure | None:
    """The error if this request can never succeed, or None. A ModelError ends the evaluation."""
    error = next((e for e in _KNOWN_ERRORS if e.is_reported(message, status, code)), None)
    if error is None:
        return None
    reported = f"HTTP {status}: {message}"
    if not error.ends_run:
        text = f"{reported.removesuffix('.')}; {error.next_step}"
        return ResponseFailure(error.kind, text, status=status)
    no_key = "OPENAI_API_KEY, or name another one with `api_key_env` in models.yaml"
    values = {"served_name": spec.served_name, "key_variable": spec.api_key_env or no_key}
    return ModelError(
        f"model {spec.name}: {spec.endpoint} {error.problem.format_map(values)} ({reported}); "
        f"{error.next_step.format_map(values)}. Everything answered so far is kept."
    )


def status_failure(answer: HttpResponse, spec: EndpointSpec) -> ModelError | ResponseFailure:
    """The error for an HTTP status. A ModelError ends the evaluation."""
    message, code = error_in(answer)
    logs = f" (its log is in {spec.logs})" if spec.logs and answer.status >= 500 else ""
    return permanent_failure(spec, message, answer.status, code) or ResponseFailure(
        kind_of_status(answer.status, code),
        f"HTTP {answer.status}: {message}{logs}",
        status=answer.status,
        retry_after_seconds=retry_after_seconds(answer.headers, datetime.now(UTC)),
    )


def kind_of_status(status: int, code: str | None) -> FailureKind:
    """The kind of failure for an HTTP status and the endpoint's own error code."""
    if status == 429:
        return FailureKind.RATE_LIMITED
    if status in (408, 409) or status >= 500:
        return FailureKind.SERVER_ERROR
    if status == 413:
        return FailureKind.TOO_LARGE
    return FailureKind.CONTENT_FILTER if code == "content_filter" else FailureKind.REJECTED


def failure_in_body(message: str, code: str | None) -> ResponseFailure:
    """The failure in a body with status 200. A proxy puts its own endpoint's status into `code`."""
    kind = FailureKind.SERVER_ERROR
    if code in ("rate_limit", "rate_limit_error", "rate_limit_exceeded"):
        kind = FailureKind.RATE_LIMITED
    elif code is not None and code.isdecimal() and 400 <= int(code) <= 599:
        kind = kind_of_status(int(code), code)
    return ResponseFailure(kind, f"HTTP 200 with error {code}: {message}", status=200)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait according to `retry-after-ms` or `Retry-After` (seconds or a date).

    None if there is no such header, or if its value cannot be read or is more than a day. A date
    without a zone is in UTC.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return _plausible(float(headers.get(name, "")) * scale)
        except ValueError:
            continue
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return _plausible(((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())


def _plausible(seconds: float) -> float | None:
    is_plausible = isfinite(seconds) and seconds <= MAX_RETRY_AFTER_SECONDS
    return max(seconds, 0.0) if is_plausible else None


def error_in(answer: HttpResponse) -> tuple[str, str | None]:
    """The message and the code in the body of an error, else the start of the body and None."""
    try:
        problem = _ErrorBody.model_validate(orjson.loads(answer.content)).error
        code = None if problem.code is None else str(problem.code)
        text = problem.message or answer.content.decode("utf-8", "replace")
        message = text.partition(" on data=")[0]  # vLLM adds the values of pixels
        return message[:MAX_MESSAGE_CHARACTERS], code
    except (orjson.JSONDecodeError, ValidationError):
        moved_to = answer.headers.get("location")
        if moved_to is None and answer.content.lstrip().startswith(b"<"):
            return "an HTML page, not JSON", None
        start = moved_to or answer.content.decode("utf-8", "replace")
        start = start.replace("\0", "")[:200]
        return (f"moved to {start}" if moved_to else start), None
