"""Errors of endpoints: permanent messages, HTML pages and Retry-After."""

from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_requests import request
from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.reply import read_reply
from videomme_pipeline.models.endpoint.reported_errors import retry_after_seconds, status_failure
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import HttpResponse
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

SPEC = EndpointSpec(name="served", base_url="http://127.0.0.1:9/v1")

NO_PICTURES = [
    (500, "image input is not supported - hint: you may need to provide the mmproj"),
    (400, "this model does not support image input (ref: 1)"),
    (404, "No endpoints failure that support image input"),
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "text-only is not a multimodal model"),
    (400, "At most 0 image(s) may be provided in one prompt."),
    (422, "unknown variant `image_url`, expected `text`"),
]
TOO_LONG = [
    (500, "the request exceeds the available context size, try increasing it"),
    (400, "This model's maximum context length is 4096 tokens. You requested 9000 tokens."),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 4096."),
    (400, "Request decoded media exceeds VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES=715827880 (1 bytes)."),
    (503, "The input (9000 tokens) is longer than the model's context length (4096 tokens)."),
]


def error(status: int, message: str) -> HttpResponse:
    return HttpResponse(status, {}, orjson.dumps({"error": {"message": message, "code": status}}))


@pytest.mark.parametrize(("status", "message"), NO_PICTURES)
def test_a_model_without_vision_ends_the_evaluation(status: int, message: str) -> None:
    failure = status_failure(error(status, message), SPEC)
    assert isinstance(failure, ModelError)
    assert "accepts no pictures" in str(failure)
    assert message in str(failure)
    with pytest.raises(ModelError, match="accepts no pictures"):
        read_reply(error(200, message).content, SPEC, request())


@pytest.mark.parametrize(("status", "message"), TOO_LONG)
def test_a_prompt_that_is_too_long_is_never_retried(status: int, message: str) -> None:
    failure = status_failure(error(status, message), SPEC)
    assert isinstance(failure, ResponseFailure)
    assert failure.kind is FailureKind.TOO_LARGE
    assert not failure.kind.is_transient
    assert ".;" not in str(failure)


def test_a_video_of_one_frame_is_explained_without_its_pixels() -> None:
    shown = (
        "Failed to apply Qwen3VLProcessor on data={'videos': [array([[0, 0, 0]])]} with kwargs={}"
    )
    for status, message in ((400, shown), (500, "division by zero")):
        failure = status_failure(error(status, message), SPEC)
        assert isinstance(failure, ResponseFailure)
        assert failure.kind is FailureKind.REJECTED
        assert "at least two frames" in str(failure)
        assert "array" not in str(failure)


def test_a_message_outside_the_usual_place_is_recognized() -> None:
    body = orjson.dumps({"object": "error", "message": "served is not a multimodal model"})
    assert isinstance(status_failure(HttpResponse(400, {}, body), SPEC), ModelError)


def test_other_errors_keep_the_kind_of_their_status() -> None:
    failure = status_failure(error(500, "CUDA out of memory"), SPEC)
    assert isinstance(failure, ResponseFailure)
    assert failure.kind is FailureKind.SERVER_ERROR


def test_the_error_of_a_server_that_was_started_names_its_log(tmp_path: Path) -> None:
    served = SPEC.served_at(["http://127.0.0.1:9/v1"], "served", tmp_path)
    assert f"(its log is in {tmp_path})" in str(status_failure(error(500, "broken"), served))
    assert "log" not in str(status_failure(error(400, "broken"), served))


def test_the_error_for_an_html_page_does_not_show_the_page() -> None:
    page = b"\n<!doctype html><title>Welcome</title>"
    with pytest.raises(ResponseFailure, match="an HTML page, not JSON") as raised:
        read_reply(page, SPEC, request())
    assert raised.value.kind is FailureKind.MALFORMED
    assert "doctype" not in str(raised.value)
    assert "an HTML page" in str(status_failure(HttpResponse(502, {}, page), SPEC))


def test_every_form_of_retry_after_is_read() -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after_seconds({"retry-after": "300"}, now) == 300
    assert retry_after_seconds({"retry-after-ms": "1500", "retry-after": "9"}, now) == 1.5
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:02:00 GMT"}, now) == 120
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, now) == 0
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:02:00"}, now) == 120
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:02:00 -0000"}, now) == 120
    assert retry_after_seconds({"retry-after": "86400"}, now) == 86_400
    assert retry_after_seconds({}, now) is None


@pytest.mark.parametrize(
    "value", ["soon", "nan", "inf", "-inf", "99999999", "1e400", "Wed, 21 Oct 2099 07:28:00 GMT"]
)
def test_a_retry_after_without_a_sensible_value_is_ignored(value: str) -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after_seconds({"retry-after": value}, now) is None
    assert retry_after_seconds({"retry-after-ms": value}, now) is None


HEADERS = (
    st.text(max_size=30)
    | st.floats().map(str)
    | st.datetimes().map(format_datetime)
    | st.datetimes().map(lambda date: f"{date:%a, %d %b} {date.year} {date:%H:%M:%S}")
)


@given(HEADERS, HEADERS)
def test_every_retry_after_is_a_time_of_at_most_a_day_or_ignored(
    seconds_text: str, milliseconds_text: str
) -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    seconds = retry_after_seconds(
        {"retry-after": seconds_text, "retry-after-ms": milliseconds_text}, now
    )
    assert seconds is None or 0 <= seconds <= 86_400


def test_the_error_for_a_streamed_answer_names_the_stream() -> None:
    with pytest.raises(ResponseFailure, match="a stream, which no request asks for"):
        read_reply(b'data: {"id": "1", "choices": []}\n\n', SPEC, request())


@pytest.mark.parametrize(
    ("variable", "advice"),
    [
        (None, "variable OPENAI_API_KEY, or name another one with `api_key_env` in models.yaml"),
        ("MY_KEY", "check the environment variable MY_KEY."),
    ],
)
def test_a_refused_key_names_its_variable(variable: str | None, advice: str) -> None:
    refused = HttpResponse(401, {}, b'{"error": {"message": "no"}}')
    spec = EndpointSpec(name="served", api_key_env=variable)
    assert advice in str(status_failure(refused, spec))
