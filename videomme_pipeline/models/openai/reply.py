"""Reading an endpoint's HTTP response: an answer, a failed attempt or a wrong configuration."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.openai.endpoints import AnswerConstraint
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.openai.transport import Answer
from videomme_pipeline.models.pricing import TokenUsage
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure, Usage


def read_reply(content: bytes, spec: EndpointSpec, request: Request) -> Reply:
    """The answer in the body of a chat completion.

    Raises:
        ResponseFailure: if the body is not a completion, or the completion has no answer.
    """
    body = _completion(content)
    choice = body["choices"][0]
    message = choice["message"]
    finish_reason = choice.get("finish_reason")
    profile = spec.endpoint_profile
    content_text = _text_of(message.get("content"))
    text, thought = split_reasoning(content_text, finish_reason)
    constraint = profile.answer_constraint
    if request.decoding.constrain_answer and constraint is AnswerConstraint.JSON_SCHEMA:
        text = _constrained_letter(text)
    reasoning = next((message[f] for f in profile.reasoning_fields if message.get(f)), thought)
    reply = _with_usage(
        Reply(
            text=text,
            reasoning=reasoning,
            finish_reason=finish_reason,
            reported_model=body.get("model"),
            system_fingerprint=body.get("system_fingerprint"),
            body=content.decode("utf-8", "replace"),
        ),
        body,
        spec,
    )
    failure = _no_answer(reply, message.get("refusal"))
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
    # Rules are rounded and endpoints resize frames, so only a large difference is certain.
    if reported >= expected * (0.6 if per_frame else 1.0):
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
    message, code = _error_in(answer)
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
    """Seconds to wait according to `retry-after-ms` or `Retry-After` (seconds or a date)."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(float(headers.get(name, "")) * scale, 0.0)
        except ValueError:
            continue
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max((moment - now).total_seconds(), 0.0)


def _completion(content: bytes) -> dict[str, Any]:
    """The parsed body, checked to have a choice with a message."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ResponseFailure(
            FailureKind.MALFORMED, f"not JSON: {content[:200]!r} ({error})", status=200
        ) from error
    try:
        message = body["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        message = None
    if not isinstance(message, dict):
        raise ResponseFailure(
            FailureKind.MALFORMED, f"JSON without a message: {content[:200]!r}", status=200
        )
    return dict(body)


def _text_of(content: object) -> str:
    """The text of a message, which some endpoints send in parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _constrained_letter(text: str) -> str:
    """The letter in `{"answer": "B"}`, or `text` itself if it has another form."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    answer = value.get("answer") if isinstance(value, dict) else None
    return answer if isinstance(answer, str) else text


def _with_usage(reply: Reply, body: dict[str, Any], spec: EndpointSpec) -> Reply:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return reply
    profile = spec.endpoint_profile
    prompt = _count(usage, ("prompt_tokens",))
    completion = _count(usage, ("completion_tokens",))
    found = (_count(body, path) for path in profile.cached_tokens_at)
    cached = next((count for count in found if count is not None), None)
    cost = None
    if prompt is not None and completion is not None and spec.costs_money:
        tokens = TokenUsage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached or 0,
            cache_write_tokens=_count(usage, ("prompt_tokens_details", "cache_write_tokens")) or 0,
        )
        tariff = spec.tariff
        if body.get("service_tier") == "default":
            tariff = replace(tariff, service_tier=None)
        cost = tariff.dollars(tokens)
    return replace(
        reply,
        usage=Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached,
            reasoning_tokens=_count(usage, ("completion_tokens_details", "reasoning_tokens")),
        ),
        usage_json=orjson.dumps(usage).decode(),
        cost_dollars=cost,
    )


def _count(value: object, path: tuple[str, ...]) -> int | None:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) else None


def _no_answer(reply: Reply, refusal: object) -> ResponseFailure | None:
    """The reason why a completion is not an answer, or None if it is one."""
    if isinstance(refusal, str) and refusal:
        return ResponseFailure(FailureKind.REFUSED, refusal, status=200, reply=reply)
    if reply.finish_reason == "content_filter":
        message = "the endpoint withheld the answer"
        return ResponseFailure(FailureKind.CONTENT_FILTER, message, status=200, reply=reply)
    if reply.text.strip():
        return None
    if reply.finish_reason == "length":
        message = (
            "the token limit was reached before an answer was written "
            f"({reply.usage.completion_tokens} tokens); raise `max_tokens`"
        )
        return ResponseFailure(FailureKind.TRUNCATED, message, status=200, reply=reply)
    message = f"the completion has no text (finish_reason {reply.finish_reason})"
    return ResponseFailure(FailureKind.EMPTY, message, status=200, reply=reply)


def _error_in(answer: Answer) -> tuple[str, str | None]:
    """The message and the code in the body of an error, else the start of the body and None."""
    try:
        error = orjson.loads(answer.content)["error"]
        return str(error["message"]), error.get("code")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        moved_to = answer.headers.get("location")
        start = answer.content[:200].decode("utf-8", "replace")
        return (f"moved to {moved_to}" if moved_to else start), None
