"""Reading an endpoint's HTTP response: an answer, a failed attempt or a wrong configuration.

The classes below are the fields of a body that are used, with their types. Other fields are
ignored. A field that the answer does not need is None if its value has a wrong type. NUL
characters are removed from text, because databases and terminals end a text there.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.openai.endpoints import AnswerConstraint
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.openai.transport import Answer
from videomme_pipeline.models.pricing import LEAST_TOKEN_SHARE, TokenUsage
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure, Usage

MAX_TOKENS = 2**63 - 1
"""The largest token count that a database stores."""
LONGEST_RETRY_AFTER_SECONDS = 86_400.0
"""A longer Retry-After is a mistake of the endpoint and is ignored."""

_MAX_MESSAGE_CHARACTERS = 500
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _or_none(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return None


AnyType = TypeVar("AnyType")
Text = Annotated[str, AfterValidator(lambda text: text.replace("\0", ""))]
OrNone = Annotated[AnyType | None, WrapValidator(_or_none)]
Tokens = OrNone[Annotated[int, Field(ge=0, le=MAX_TOKENS)]]


class Fields(BaseModel):
    """Fields of a JSON object. Values of another type are not converted."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Part(Fields):
    text: Text | None = None


class _Message(Fields):
    content: Text | list[_Part] | None = None
    refusal: OrNone[Text] = None
    reasoning: OrNone[Text] = None
    reasoning_content: OrNone[Text] = None

    @property
    def text(self) -> str:
        """The text, which some endpoints send in parts."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class _Choice(Fields):
    message: _Message
    finish_reason: OrNone[Text] = None


class _TokenDetails(Fields):
    cached_tokens: Tokens = None
    cache_write_tokens: Tokens = None
    reasoning_tokens: Tokens = None


class _Usage(Fields):
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    prompt_tokens_details: OrNone[_TokenDetails] = None
    completion_tokens_details: OrNone[_TokenDetails] = None


class _Timings(Fields):
    cache_n: Tokens = None
    """The cached tokens that llama.cpp reports."""


class _Completion(Fields):
    choices: list[_Choice] = Field(min_length=1)
    model: OrNone[Text] = None
    system_fingerprint: OrNone[Text] = None
    service_tier: OrNone[Text] = None
    usage: OrNone[_Usage] = None
    timings: OrNone[_Timings] = None


class _ConstrainedAnswer(Fields):
    answer: Text


class Problem(Fields):
    """An error that an endpoint describes."""

    message: Text
    code: OrNone[Text] = None


class _ErrorBody(Fields):
    error: Problem


def read_reply(content: bytes, spec: EndpointSpec, request: Request) -> Reply:
    """The answer in the body of a chat completion.

    Raises:
        ResponseFailure: if the body is not a completion, or the completion has no answer.
    """
    body = _parsed(content)
    try:
        completion = _Completion.model_validate(body)
    except ValidationError as error:
        raise _malformed(content, f"not a chat completion: {_first_of(error)}") from error
    choice = completion.choices[0]
    message = choice.message
    profile = spec.endpoint_profile
    text, thought = split_reasoning(message.text, choice.finish_reason)
    constraint = profile.answer_constraint
    if request.decoding.constrain_answer and constraint is AnswerConstraint.JSON_SCHEMA:
        text = _constrained_letter(text)
    fields = (getattr(message, field) for field in profile.reasoning_fields)
    reply = Reply(
        text=text,
        reasoning=next(filter(None, fields), thought),
        finish_reason=choice.finish_reason,
        reported_model=completion.model,
        system_fingerprint=completion.system_fingerprint,
        body=content.decode("utf-8", "replace"),
    )
    if completion.usage is not None:
        usage = _usage_of(completion.usage, completion.timings)
        reply = replace(
            reply,
            usage=usage,
            usage_json=orjson.dumps(body["usage"]).decode(),
            cost_dollars=_cost_of(usage, completion, spec),
        )
    failure = _no_answer(reply, message.refusal)
    if failure is not None:
        raise failure
    return reply


def split_reasoning(text: str, finish_reason: str | None) -> tuple[str, str | None]:
    """The answer and the reasoning of a model that writes `<think>…</think>` into its text.

    Some chat templates contain `<think>`, so that the model writes only `</think>`. Reasoning
    that was cut off by the token limit is not followed by an answer.
    """
    thought, closed, answer = text.rpartition("</think>")
    if closed:
        return answer.strip(), thought.replace("<think>", "").strip()
    if text.lstrip().startswith("<think>") and finish_reason == "length":
        return "", text.replace("<think>", "").strip()
    return text, None


def dropped_frames_warning(spec: EndpointSpec, request: Request, reply: Reply) -> str | None:
    """A warning if the endpoint reports fewer prompt tokens than the frames should need, or None.

    The expected number follows from the model's published rule. A model without a rule should
    use at least one token per frame.
    """
    frames = request.frames.frames
    reported = reply.usage.prompt_tokens
    if reported is None or not frames:
        return None
    per_frame = spec.frame_tokens((frames[0].width, frames[0].height))
    expected = len(frames) * (per_frame or 1)
    if reported >= expected * (LEAST_TOKEN_SHARE if per_frame else 1.0):
        return None
    rule = f"at {per_frame} tokens each" if per_frame else "at one token each, the minimum"
    return (
        f"model {spec.name}: {len(frames)} frames were sent, which need {expected:,} tokens "
        f"{rule}, but the endpoint reports only {reported:,} prompt tokens. It dropped or "
        "shrank frames. Check its limits on images per prompt (vLLM: "
        "--limit-mm-per-prompt, and `profile: vllm` for video), or set `tokens_per_frame`."
    )


def status_failure(answer: Answer, spec: EndpointSpec) -> ModelError | ResponseFailure:
    """The error for an HTTP status. A ModelError ends the evaluation."""
    status = answer.status
    message, code = error_in(answer)
    found = f"HTTP {status}: {message}"
    if status in (401, 403):
        variable = spec.api_key_env or "OPENAI_API_KEY"
        return ModelError(
            f"model {spec.name}: {spec.endpoint} rejects the key ({found}); check the environment "
            f"variable {variable}. Everything answered so far is kept."
        )
    if status == 404:
        return ModelError(
            f"model {spec.name}: {spec.endpoint} has no model {spec.served_name!r} "
            f"({found}); check `model` and `base_url` in models.yaml. Everything answered so far "
            "is kept."
        )
    if status == 429 and code == "insufficient_quota":
        return ModelError(
            f"model {spec.name}: the account has no credit left ({found}); add credit and run "
            "again. Everything answered so far is kept."
        )
    return ResponseFailure(
        kind_of_status(status, code),
        found,
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


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content.removeprefix(_BYTE_ORDER_MARK))
    except orjson.JSONDecodeError as error:
        raise _malformed(content, f"not JSON: {error}") from error


def _malformed(content: bytes, problem: str) -> ResponseFailure:
    found = f"{problem}; the body starts with {content[:200]!r}"
    return ResponseFailure(FailureKind.MALFORMED, found, status=200)


def _first_of(error: ValidationError) -> str:
    """The first problem, such as "choices.0.message: Field required"."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}"


def _constrained_letter(text: str) -> str:
    """The letter in `{"answer": "B"}`, or `text` itself if it has another form."""
    try:
        return _ConstrainedAnswer.model_validate_json(text).answer
    except ValidationError:
        return text


def _usage_of(usage: _Usage, timings: _Timings | None) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = None if prompt is None else prompt.cached_tokens
    if cached is None and timings is not None:
        cached = timings.cache_n
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=cached,
        reasoning_tokens=None if completion is None else completion.reasoning_tokens,
    )


def _cost_of(usage: Usage, completion: _Completion, spec: EndpointSpec) -> float | None:
    """The price of a completion in US dollars, or None if it is unknown or free."""
    if usage.prompt_tokens is None or usage.completion_tokens is None or not spec.costs_money:
        return None
    details = None if completion.usage is None else completion.usage.prompt_tokens_details
    # Some endpoints report more cached tokens than tokens.
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    written = 0 if details is None else details.cache_write_tokens or 0
    tariff = spec.tariff
    if completion.service_tier == "default":
        tariff = replace(tariff, service_tier=None)
    return tariff.dollars(
        TokenUsage(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=cached,
            cache_write_tokens=min(written, usage.prompt_tokens - cached),
        )
    )


def _no_answer(reply: Reply, refusal: str | None) -> ResponseFailure | None:
    """The reason why a completion is not an answer, or None if it is one."""
    if refusal:
        return ResponseFailure(
            FailureKind.REFUSED, refusal[:_MAX_MESSAGE_CHARACTERS], status=200, reply=reply
        )
    if reply.finish_reason == "content_filter":
        message = "the endpoint withheld the answer"
        return ResponseFailure(FailureKind.CONTENT_FILTER, message, status=200, reply=reply)
    if reply.has_text:
        return None
    if reply.finish_reason == "length":
        message = (
            "the token limit was reached before an answer was written "
            f"({reply.usage.completion_tokens} tokens); raise `max_tokens`"
        )
        return ResponseFailure(FailureKind.TRUNCATED, message, status=200, reply=reply)
    message = f"the completion has no text (finish_reason {reply.finish_reason})"
    return ResponseFailure(FailureKind.EMPTY, message, status=200, reply=reply)


def error_in(answer: Answer) -> tuple[str, str | None]:
    """The message and the code in the body of an error, else the start of the body and None."""
    try:
        problem = _ErrorBody.model_validate(orjson.loads(answer.content)).error
        return problem.message[:_MAX_MESSAGE_CHARACTERS], problem.code
    except (orjson.JSONDecodeError, ValidationError):
        moved_to = answer.headers.get("location")
        start = moved_to or answer.content.decode("utf-8", "replace")
        start = start.replace("\0", "")[:200]
        return (f"moved to {start}" if moved_to else start), None
