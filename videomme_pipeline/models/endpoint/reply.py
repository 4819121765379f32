"""Reading an endpoint's answer: the text, the reasoning, the usage, or a failed attempt."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from typing import Any

import orjson
from pydantic import AliasPath, Field, ValidationError

from videomme_pipeline.models.endpoint.endpoints import AnswerConstraint
from videomme_pipeline.models.endpoint.reported_errors import (
    MAX_MESSAGE_CHARACTERS,
    ErrorDetail,
    error_in,
    failure_in_body,
    permanent_failure,
)
from videomme_pipeline.models.endpoint.served import Fields, OrNone, Text, Tokens
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import HttpResponse
from videomme_pipeline.models.pricing import TokenUsage
from videomme_pipeline.models.video_llm import (
    MIN_TOKEN_SHARE,
    OTHER_FRAMES,
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
    Usage,
    seen_frames,
)

_OTHER_FRAME_TOKENS = 10
"""Maximum tokens for the start, end and time of a frame, if the tokens of the text are unknown."""
_TOKEN_BYTES = 640
"""Fewer bytes of sound than any model reads as one token: a fiftieth of a second."""
_FAILED_ENDS = ("abort", "aborted", "cancelled", "error", "timeout")
"""Finish reasons of a completion that is no answer, whatever its text."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _at(*path: str) -> Any:
    """An optional field that is deeper in the JSON object."""
    return Field(default=None, validation_alias=AliasPath(*path))


class _Part(Fields):
    text: Text | None = None


class _Message(Fields):
    content: Text | list[_Part] | None = None
    refusal: OrNone[Text] = None
    reasoning: OrNone[Text] = None
    reasoning_content: OrNone[Text] = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class _Choice(Fields):
    message: _Message
    finish_reason: OrNone[Text] = None
    error: OrNone[ErrorDetail | Text] = None


class ReportedUsage(Fields):
    """The `usage` of a completion. Wrong counts are None."""

    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    cached_tokens: Tokens = _at("prompt_tokens_details", "cached_tokens")
    cache_write_tokens: Tokens = _at("prompt_tokens_details", "cache_write_tokens")
    reasoning_tokens: Tokens = _at("completion_tokens_details", "reasoning_tokens")


class _Completion(Fields):
    choices: list[_Choice] = Field(min_length=1)
    model: OrNone[Text] = None
    system_fingerprint: OrNone[Text] = None
    service_tier: OrNone[Text] = None
    usage: OrNone[ReportedUsage] = None
    cache_n: Tokens = _at("timings", "cache_n")
    """The cached tokens that llama.cpp reports."""
    error: OrNone[ErrorDetail | Text] = None


class _ConstrainedAnswer(Fields):
    answer: Text


def read_reply(content: bytes, spec: EndpointSpec, request: Request) -> Reply:
    """The answer in a chat completion. Raises ResponseFailure, or ModelError to end the run."""
    try:
        body = orjson.loads(content.removeprefix(_BYTE_ORDER_MARK))
        completion = _Completion.model_validate(body)
    except orjson.JSONDecodeError as error:
        raise _malformed(content, f"not JSON: {error}") from error
    except ValidationError as error:
        reported, code = error_in(HttpResponse(200, {}, content))
        if (permanent := permanent_failure(spec, reported, 200)) is not None:
            raise permanent from error
        if code is not None:
            raise failure_in_body(reported, code) from error
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise _malformed(content, f"not a chat completion: {field}: {first['msg']}") from error
    choice = completion.choices[0]
    stated = completion.error or choice.error
    detail = ErrorDetail(message=stated) if isinstance(stated, str) else stated
    if detail and (detail.message or detail.code):
        code = None if detail.code is None else str(detail.code)
        raise failure_in_body((detail.message or "")[:MAX_MESSAGE_CHARACTERS], code)
    message = choice.message
    profile = spec.endpoint_profile
    text, thought = split_reasoning(message.text, choice.finish_reason)
    constraint = profile.answer_constraint
    if request.generation.constrain_answer and constraint is AnswerConstraint.JSON_SCHEMA:
        with suppress(ValidationError):  # other models answer with the letter alone
            text = _ConstrainedAnswer.model_validate_json(text).answer
    fields = (getattr(message, field) for field in profile.reasoning_fields)
    usage, usage_json = Usage(), None
    if completion.usage is not None:
        usage = usage_of(completion.usage, completion.cache_n)
        usage_json = orjson.dumps(body["usage"]).decode()
    reply = Reply(
        text=text,
        reasoning=next(filter(None, fields), thought),
        finish_reason=choice.finish_reason,
        reported_model=completion.model,
        system_fingerprint=completion.system_fingerprint,
        usage=usage,
        usage_json=usage_json,
        cost_dollars=_cost_of(usage, completion, spec),
        body=content.decode("utf-8", "replace"),
    )
    if failure := _no_answer(reply, message.refusal):
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


def frames_warning(spec: EndpointSpec, request: Request, reply: Reply) -> str | None:
    """A warning if the model seems to get other frames than planned or no sound, else None."""
    warnings = [_other_frames_warning(spec, request, reply)]
    if spec.audio and request.frames.frames and request.frames.sound is None:
        video = f"model {spec.name}: video {request.question.video_id}"
        warnings.append(f"{video} has no sound, so the model got only its frames")
    return "; ".join(filter(None, warnings)) or None


def _other_frames_warning(spec: EndpointSpec, request: Request, reply: Reply) -> str | None:
    """A warning if the prompt tokens do not fit the published rule, or one token per frame."""
    frames, reported = request.frames.frames, reply.usage.prompt_tokens
    if reported is None or not frames:
        return None
    count, text_tokens = len(frames), reply.usage.text_tokens
    expected = spec.tokens_of(request.frames)
    if expected is None:
        fits, rule = reported >= count, f"at least {count:,} tokens"
    elif text_tokens is not None:
        seen = seen_frames(count, expected, reported - text_tokens)
        fits, rule = seen == count, f"{expected:,} tokens"
    else:
        prompt, sound = request.prompt, request.frames.sound or b""
        texts = (prompt.system or "", *request.texts, prompt.before_frames, *prompt.after_frame)
        others = sum(map(len, texts)) + count * _OTHER_FRAME_TOKENS + len(sound) // _TOKEN_BYTES
        fits = expected * MIN_TOKEN_SHARE <= reported <= expected / MIN_TOKEN_SHARE + others
        rule = f"{expected:,} tokens"
    if fits:
        return None
    video, size = request.frames.video, (frames[0].width, frames[0].height)
    width, height = size if video is None else video.size
    of_text = "" if text_tokens is None else f", {text_tokens:,} of them for the text"
    return (
        f"model {spec.name}: {count} frames of {width} × {height} pixels need {rule}, "
        f"but the endpoint reports {reported:,} prompt tokens{of_text}. {OTHER_FRAMES}. "
        "Check its limits on images per prompt (vLLM: --limit-mm-per-prompt) and, for a video, the "
        "sampling, or set `tokens_per_frame`."
    )


def _malformed(content: bytes, problem: str) -> ResponseFailure:
    message = f"{problem}; the body starts with {content[:200]!r}"
    if content.lstrip().startswith(b"<"):
        message = "an HTML page, not JSON: `base_url` is probably not the address of an API"
    elif content.lstrip().startswith((b"data:", b"event:")):
        message = "a stream, which no request asks for: turn streaming off at the endpoint"
    return ResponseFailure(FailureKind.MALFORMED, message, status=200)


def usage_of(usage: ReportedUsage, cache_n: int | None = None) -> Usage:
    """The token counts of a reported usage, with `cache_n` cached tokens if it has no number."""
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=cache_n if usage.cached_tokens is None else usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _cost_of(usage: Usage, completion: _Completion, spec: EndpointSpec) -> float | None:
    if usage.prompt_tokens is None or usage.completion_tokens is None or not spec.costs_money:
        return None
    # Some endpoints report more cached tokens than prompt tokens.
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    written = (completion.usage and completion.usage.cache_write_tokens) or 0
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


def reported_cost(headers: Mapping[str, str]) -> float | None:
    """The cost in US dollars that a LiteLLM proxy reports, or None."""
    try:
        cost = float(headers.get("x-litellm-response-cost", ""))
    except ValueError:
        return None
    return cost if isfinite(cost) and cost >= 0 else None


def _no_answer(reply: Reply, refusal: str | None) -> ResponseFailure | None:
    reason = reply.finish_reason
    if refusal:
        kind, message = FailureKind.REFUSED, refusal[:MAX_MESSAGE_CHARACTERS]
    elif reason is not None and reason.lower() in _FAILED_ENDS:
        kind, message = FailureKind.SERVER_ERROR, f"the completion has the finish_reason {reason}"
    elif reason == "content_filter":
        kind, message = FailureKind.CONTENT_FILTER, "the endpoint withheld the answer"
    elif reply.has_text:
        return None
    elif reason == "length":
        tokens = f"{reply.usage.completion_tokens} tokens"
        message = f"the token limit ({tokens}) was reached before an answer; raise `max_tokens`"
        kind = FailureKind.TRUNCATED
    else:
        kind, message = FailureKind.EMPTY, f"the completion has no text (finish_reason {reason})"
    return ResponseFailure(kind, message, status=200, reply=reply)
