"""Errors that an endpoint reports: a failed attempt, or a reason why no question can be answered.

Some engines report a permanent error with a status that normally passes, such as llama.cpp with
500 for a model without vision. Such errors are recognized by their text.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

import orjson
from pydantic import ValidationError

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.json_fields import Fields, OrNone, Text
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import HttpResponse
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

MAX_MESSAGE_CHARACTERS = 500
LONGEST_RETRY_AFTER_SECONDS = 86_400.0
"""A longer Retry-After is a mistake of the endpoint and is ignored."""


_NO_PICTURES = (
    "image input is not supported",
    "does not support image",
    "support image input",
    "images are not supported",
    "image_url is only supported",
    "unknown variant `image_url`",
    "data required for image input",
    "not a multimodal model",
    "multimodal is not supported",
    "not compiled for multimodal",
    "does not support multimodal",
    "does not support vision",
    "vision is not supported",
    "at most 0 image",
)
"""Parts of messages about a model without vision, in lower case. llama.cpp, Ollama, vLLM, OpenAI,
OpenRouter and others send them, with the statuses 400, 404, 422, 500 or 200."""

_TOO_LONG = (
    "context_length_exceeded",
    "context length exceeded",
    "exceed_context_size",
    "exceeds the available context size",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
    "exceeds the model's maximum context length",
    "maximum context length is",
    "maximum model length of",
    "longer than the model's context length",
    "prompt is too long",
)
"""Parts of messages about a prompt that is longer than the context of the model, in lower case."""


class ErrorDetail(Fields):
    """An error that an endpoint describes."""

    message: Text
    code: OrNone[Text] = None


class _ErrorBody(Fields):
    error: ErrorDetail


def permanent_failure(
    message: str, status: int | None, spec: EndpointSpec
) -> ModelError | ResponseFailure | None:
    """The error if `message` says that a request can never succeed, else None.

    A ModelError ends the evaluation: the model accepts no pictures at all.
    """
    text = message.lower()
    reported = f"HTTP {status}: {message}"
    if any(part in text for part in _NO_PICTURES):
        return ModelError(
            f"model {spec.name}: {spec.endpoint} accepts no pictures ({reported}); serve a model "
            "with vision (llama.cpp needs --mmproj), or use `sampling: none` to ask without "
            "frames. Everything answered so far is kept."
        )
    if any(part in text for part in _TOO_LONG):
        hint = "choose fewer or smaller frames, or start the server with a longer context"
        return ResponseFailure(FailureKind.TOO_LARGE, f"{reported}; {hint}", status=status)
    return None


def status_failure(answer: HttpResponse, spec: EndpointSpec) -> ModelError | ResponseFailure:
    """The error for an HTTP status. A ModelError ends the evaluation."""
    status = answer.status
    message, code = error_in(answer)
    if (permanent := permanent_failure(message, status, spec)) is not None:
        return permanent
    reported = f"HTTP {status}: {message}"
    if status in (401, 403):
        variable = spec.api_key_env or "OPENAI_API_KEY"
        return ModelError(
            f"model {spec.name}: {spec.endpoint} rejects the key ({reported}); check the "
            f"environment variable {variable}. Everything answered so far is kept."
        )
    if status == 404:
        return ModelError(
            f"model {spec.name}: {spec.endpoint} has no model {spec.served_name!r} "
            f"({reported}); check `model` and `base_url` in models.yaml. Everything answered so "
            "far is kept."
        )
    if status == 429 and code == "insufficient_quota":
        return ModelError(
            f"model {spec.name}: the account has no credit left ({reported}); add credit and run "
            "again. Everything answered so far is kept."
        )
    return ResponseFailure(
        kind_of_status(status, code),
        reported,
        status=status,
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
    if code == "content_filter":
        return FailureKind.CONTENT_FILTER
    return FailureKind.REJECTED


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
    is_plausible = isfinite(seconds) and seconds <= LONGEST_RETRY_AFTER_SECONDS
    return max(seconds, 0.0) if is_plausible else None


def error_in(answer: HttpResponse) -> tuple[str, str | None]:
    """The message and the code in the body of an error, else the start of the body and None."""
    try:
        problem = _ErrorBody.model_validate(orjson.loads(answer.content)).error
        return problem.message[:MAX_MESSAGE_CHARACTERS], problem.code
    except (orjson.JSONDecodeError, ValidationError):
        moved_to = answer.headers.get("location")
        if moved_to is None and is_markup(answer.content):
            return "an HTML page, not JSON", None
        start = moved_to or answer.content.decode("utf-8", "replace")
        start = start.replace("\0", "")[:200]
        return (f"moved to {start}" if moved_to else start), None


def is_markup(content: bytes) -> bool:
    """True if `content` starts like an HTML or XML page."""
    return content.lstrip()[:1] == b"<"
